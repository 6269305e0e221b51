"""The page at `/` to try edits on: four files as they are, which load nothing from elsewhere.

The page calls the native dialect like any client, with a key where keys are set.  It shows texts of users, so the
browser is told to run nothing but its scripts, and to make no markup from text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from apply_service.settings import Settings

FILES = {
    "/": ("page.html", "text/html"),
    "/playground.css": ("page.css", "text/css"),
    "/playground.js": ("page.js", "text/javascript"),
    "/playground-examples.js": ("examples.js", "text/javascript"),
}
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "data:",  # the icon
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def routers(settings: Settings) -> list[APIRouter]:
    """The routes of the page; none where it is switched off."""
    if not settings.has_playground:
        return []
    router, folder = APIRouter(), files(__package__)
    for path, (name, kind) in FILES.items():
        router.add_route(path, _sender((folder / name).read_bytes(), kind), include_in_schema=False)
    return [router]


def _sender(text: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(_: Request) -> Response:
        return Response(text, headers=HEADERS, media_type=kind)

    return send
