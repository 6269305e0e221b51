"""Serves the two pages for browsers, and tells browsers what any answer may do.

`/docs` is the OpenAPI description as HTML.  `/` is the playground: four files of the folder `playground`, unchanged.
It calls the service's own API (the native dialect) like any client, with a key if the server has keys.  Neither page
loads anything from elsewhere.  Any answer may be opened as a page, and may quote what a user sent.  So headers tell the
browser to run only the pages' own scripts, and to make no markup from text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response

from apply_service.settings import Settings

CLOSED: Mapping[str, str] = {
    "default-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""The policy of an answer that is not a page: the answer loads and runs nothing, and no page can show it in a frame."""


def policy_headers(**allowed: str) -> dict[str, str]:
    """Return the headers of a page that may do only what `allowed` permits; `script_src` stands for the rule
    `script-src`."""
    rules = {**CLOSED, **{name.replace("_", "-"): value for name, value in allowed.items()}}
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in rules.items()),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


NO_PAGE = policy_headers()
"""The headers of every answer that sets no policy itself."""

# -- the description ---------------------------------------------------------------------------------------------------
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
td, th { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
"""
DOCS_HEADERS = policy_headers(style_src=f"'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'")
PAGE = """
{%- macro type_of(field) -%}
{%- if "$ref" in field -%}{%- set name = field["$ref"].split("/") | last -%}<a href="#{{ name }}">{{ name }}</a>
{%- elif "anyOf" in field -%}
{%- for one in field["anyOf"] -%}{{ " or " if loop.index0 }}{{ type_of(one) }}{%- endfor -%}
{%- elif "enum" in field -%}<code>{{ field["enum"] | join(" | ") }}</code>
{%- elif "items" in field -%}list of {{ type_of(field["items"]) }}
{%- else -%}{{ field["type"] or field["const"] or "any" }}{%- endif -%}
{%- endmacro -%}
{%- macro fields(shape) -%}<table><tr><th>Field<th>Type<th>Meaning</tr>
{%- for name, field in (shape["properties"] or {}).items() %}
<tr><td><code>{{ name }}</code><td>{{ type_of(field) }}<td>{{ field["description"] }}</tr>{%- endfor -%}</table>
{%- endmacro -%}
<!doctype html><html lang="en"><meta charset="utf-8"><title>{{ info.title }}</title>
<meta name="viewport" content="width=device-width"><style>{{ style | safe }}</style>
<h1>{{ info.title }} {{ info.version }}</h1>
<p>{{ info.description }} Machine-readable: <a href="openapi.json">openapi.json</a></p>
{%- for path, operations in paths.items() -%}{%- for method, route in operations.items() %}
<h2><code>{{ method.upper() }} {{ path }}</code></h2><p>{{ route.summary }}. {{ route.description }}</p>
{{ fields(route.requestBody.content["application/json"].schema) if route.requestBody }}
{%- for status, answer in route.responses.items() %}<p>{{ status }}: {{ answer.description }}</p>{%- endfor -%}
{%- endfor -%}{%- endfor %}<h2>Shapes</h2>
{%- for name, shape in components.schemas.items() %}
<h3 id="{{ name }}">{{ name }}</h3><p>{{ shape.description }}</p>{{ fields(shape) }}{%- endfor -%}</html>
"""


def render_docs(schema: Mapping[str, Any]) -> str:
    """Return the page with all routes."""
    return Environment(autoescape=True).from_string(PAGE).render(schema, style=STYLE)


# -- the playground ----------------------------------------------------------------------------------------------------
FILES = {
    "/": ("page.html", "text/html"),
    "/playground.css": ("page.css", "text/css"),
    "/playground.js": ("page.js", "text/javascript"),
    "/playground-examples.js": ("examples.js", "text/javascript"),
}
PLAYGROUND_HEADERS = {
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


def playground_routers(settings: Settings) -> list[APIRouter]:
    """Return the routes of the playground; empty if it is switched off."""
    if not settings.has_playground:
        return []
    router, folder = APIRouter(), files(__package__) / "playground"
    for path, (name, kind) in FILES.items():
        router.add_route(path, _sender((folder / name).read_bytes(), kind), include_in_schema=False)
    return [router]


def _sender(text: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(_: Request) -> Response:
        return Response(text, headers=PLAYGROUND_HEADERS, media_type=kind)

    return send
