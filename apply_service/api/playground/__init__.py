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

from apply_service.api.browser_policy import policy_headers
from apply_service.settings import Settings

FILES = {
    "/": ("page.html", "text/html"),
    "/playground.css": ("page.css", "text/css"),
    "/playground.js": ("page.js", "text/javascript"),
    "/playground-examples.js": ("examples.js", "text/javascript"),
}
HEADERS = {
    **policy_headers(
        script_src="'self'",
        style_src="'self'",
        connect_src="'self'",
        img_src="data:",  # the icon
        require_trusted_types_for="'script'",
        trusted_types="'none'",
    ),
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
