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

    def __init__(self, app: ASGIApp, *, keys: KeyRing | None, cors_origins: tuple[str, ...]) -> None:
        self._app = app
        self._keys = keys
        self._cors_origins = cors_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            key = self._caller(Headers(scope=scope))
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
        """A page whose host name was pointed at this machine would be of one origin with the service, and free to ask;
        its requests still say where it comes from."""
        if origin is not None and "*" not in self._cors_origins and origin not in self._cors_origins:
            raise OriginRefused(
                "Web pages of this origin may not call the service.",
                value=origin,
                limit=list(self._cors_origins),
                remedy="Add it to cors_origins.",
            )


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
