"""Who calls: an API key where keys are configured; where none are, anyone who can reach the address, but no web page.

The key comes as `Authorization: Bearer KEY` or `X-API-Key: KEY`.  Health and documentation are open.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from apply_service.api.calls import current_call
from apply_service.api.keys import NO_KEY, Key, KeyRing
from apply_service.errors import OriginRefused, SettingsError, Unauthorized
from apply_service.settings import Settings

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"})
KEY = "apply_key"
"""Where the caller's `Key` stands in the state of the scope."""


class AuthMiddleware:
    """Finds the caller, or raises Unauthorized or OriginRefused."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyRing | None,
        cors_origins: tuple[str, ...],
        own_host: str | None = None,
    ) -> None:
        """`own_host`: a name besides the usual ones by which loopback may be asked without a key; None: by any."""
        self._app = app
        self._own_host = own_host
        self._keys = keys
        self._cors_origins = cors_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = Headers(scope=scope)
            key = self._caller(headers)
            if self._keys is None:
                self._refuse_foreign_host(headers.get("host"), scope.get("server"))
            scope.setdefault("state", {})[KEY] = key
            if (call := current_call()) is not None:
                call.caller = key.name
        await self._app(scope, receive, send)

    def _caller(self, headers: Headers) -> Key:
        if self._keys is None:
            self._refuse_foreign_page(headers.get("origin"))
            return NO_KEY
        sent = _sent_key(headers)
        if sent is not None and (key := self._keys.find(sent)) is not None:
            return key
        if (call := current_call()) is not None:
            call.headers["WWW-Authenticate"] = "Bearer"
        raise Unauthorized(
            "The API key is missing." if sent is None else "The API key is not one of this service.",
            remedy="Send the header Authorization: Bearer KEY.",
        )

    def _refuse_foreign_page(self, origin: str | None) -> None:
        """What a page sends says where it comes from, but for plain GETs of a page whose host name was pointed at this
        machine, which is of one origin with the service (`_refuse_foreign_host`)."""
        if origin is not None and "*" not in self._cors_origins and origin not in self._cors_origins:
            raise OriginRefused(
                "Web pages of this origin may not call the service.",
                value=origin,
                limit=list(self._cors_origins),
                remedy="Add it to cors_origins.",
            )

    def _refuse_foreign_host(self, host: str | None, server: tuple[str, int | None] | None) -> None:
        """A page whose host name was pointed at this machine asks by that name."""
        if self._own_host is None or host is None or server is None or not _is_loopback(server[0]):
            return
        name = _host_name(host)
        if not (_is_address(name) or name in ("localhost", self._own_host) or name.endswith(".localhost")):
            raise OriginRefused(
                "The service may not be called by this host name.",
                value=host,
                limit=["localhost", "127.0.0.1", "[::1]"],
                remedy="Ask one of these, or configure API keys or allow_open.",
            )


def _host_name(host: str) -> str:
    """`[::1]:8765` -> `::1`."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def caller_of(scope: Scope) -> Key:
    """Who calls; for layers below the authentication."""
    key: Key = scope.get("state", {}).get(KEY, NO_KEY)
    return key


def refuse_open_network(address: str, settings: Settings) -> None:
    """Raises SettingsError where the service would listen beyond loopback and let everyone in."""
    if settings.keys_file is None and not settings.allow_open and not ipaddress.ip_address(address).is_loopback:
        raise SettingsError(
            f"{settings.host} can be reached from a network, and no API keys are configured.",
            value=settings.host,
            limit="127.0.0.1",
            remedy="Name a --keys-file (`apply-service key` makes keys), or ask for it with --allow-open.",
        )


def _sent_key(headers: Headers) -> str | None:
    kind, _, text = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():
        return text.strip()
    return headers.get("x-api-key") or None
