"""Checks API keys (`Authorization: Bearer KEY` or `X-API-Key: KEY`).  Health, documentation and the playground's own
files need no key.

Without configured keys, anyone who can reach the address may call, but no web page of another origin.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from apply_service.api.calls import this_call
from apply_service.api.keys import Key, KeyHolder
from apply_service.errors import OriginRefused, SettingsError, Unauthorized
from apply_service.settings import Settings

PAGE_PATHS = frozenset({"/", "/playground.css", "/playground.js", "/playground-examples.js"})
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"}) | PAGE_PATHS
HOST = re.compile(
    r"""(?: \[ (?P<ipv6> [0-9A-Fa-f:.]+ ) \] | (?P<name> [A-Za-z0-9_-]+ (?: \.[A-Za-z0-9_-]+ )* \.? ) )
    (?: : (?P<port> [0-9]{1,5} ) )?""",
    re.VERBOSE,
)
"""Matches a Host header as browsers write it: RFC 3986's host and port, without what only other clients send (an empty
port, percent signs, zones)."""
MAX_PORT = 65535
SCHEMES = ("http", "https")


class AuthMiddleware:
    """Finds the caller's key.  Raises Unauthorized or OriginRefused."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyHolder | None,
        cors_origins: tuple[str, ...],
        own_host: str | None = None,
        has_playground: bool = False,
    ) -> None:
        """`own_host`: one more host name under which loopback may be called without a key; None allows every name.
        `has_playground`: whether the service has a page of its own, which may call the service."""
        self._app = app
        self._own_host = own_host
        self._has_playground = has_playground
        self._keys = keys
        self._cors_origins = cors_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call, headers = this_call(), Headers(scope=scope)
        try:
            self._refuse_web_pages(headers, scope.get("server"))
            if self._keys is not None:
                call.key = self._find_key(headers, self._keys)
            call.is_known = True
        except (Unauthorized, OriginRefused):
            if scope["path"] not in OPEN_PATHS:
                raise
        if self._keys is None or not call.is_known:
            await self._app(scope, receive, send)
            return
        with self._keys.in_use(call.key, call.revoke):
            try:
                async with asyncio.timeout(None) as cut:
                    call.on_revoked = lambda _: cut.reschedule(0)  # layers below may set a gentler function
                    await self._app(scope, receive, send)
            except TimeoutError:
                call.refuse_revoked()
                raise

    def _find_key(self, headers: Headers, keys: KeyHolder) -> Key:
        kind, _, text = headers.get("authorization", "").partition(" ")
        sent = text.strip() if kind.lower() == "bearer" else ""
        sent = sent or headers.get("x-api-key", "")
        if key := keys.find(sent) if sent else None:
            return key
        what = "the service does not know this API key" if sent else "the API key is missing"
        raise Unauthorized(what, remedy="send the header Authorization: Bearer KEY with a key of this service")

    def _refuse_web_pages(self, headers: Headers, server: tuple[str, int | None] | None) -> None:
        """Raise OriginRefused if a web page of another origin calls.  Browsers send `Origin`, except with plain GETs
        to the page's own host.  DNS can point the page's host at this machine, so loopback accepts only this machine's
        own names."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if self._keys is not None:
            origins = []  # a page may call if it has a key
        has_own_name = len(hosts) == 1 and self._is_own_name(hosts[0])
        is_own_page = self._has_playground and has_own_name and origins in ([f"{s}://{hosts[0]}"] for s in SCHEMES)
        is_named = len(origins) == 1 and not {"*", *origins}.isdisjoint(self._cors_origins)
        if origins and not is_own_page and not is_named:
            sent, limit = ", ".join(origins), list(self._cors_origins)
            message = f"web pages from {sent} may not call the service"
            remedy = f"to allow them, add {sent} to cors_origins"
            raise OriginRefused(message, value=sent, limit=limit, remedy=remedy)
        if self._own_host is None or not hosts or server is None or not _is_loopback(server[0]):
            return
        if not has_own_name:
            message = f"requests for the host name {', '.join(hosts)} are refused"
            remedy = "use localhost or 127.0.0.1 in the URL; to allow other names, set keys_file or allow_open"
            limit = ["localhost", "127.0.0.1", "[::1]"]
            raise OriginRefused(message, value=", ".join(hosts), limit=limit, remedy=remedy)

    def _is_own_name(self, host: str) -> bool:
        """Tell whether the host is an IP address, or a name that means this machine.  No name server of others can have
        invented such a host."""
        found = HOST.fullmatch(host)
        if found is None or int(found["port"] or 0) > MAX_PORT:
            return False
        if found["ipv6"] is not None:
            return isinstance(_address(found["ipv6"]), ipaddress.IPv6Address)
        name = found["name"].removesuffix(".").lower()
        return name in ("localhost", self._own_host) or name.endswith(".localhost") or _address(name) is not None


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return address is not None and address.is_loopback


def refuse_open_network(address: str, settings: Settings) -> None:
    """Raise SettingsError if the service would listen beyond loopback without keys and without `allow_open`."""
    if settings.keys_file is None and not settings.allow_open and not _is_loopback(address):
        message = f"{settings.host} can be reached from a network, and no API keys are configured"
        remedy = "set --keys-file FILE (`apply-service key` makes keys), or allow calls without a key with --allow-open"
        raise SettingsError(message, value=settings.host, limit="127.0.0.1", remedy=remedy)
