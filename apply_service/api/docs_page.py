"""The OpenAPI description as an HTML page that loads nothing from other servers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from jinja2 import Environment

from apply_service.api.browser_policy import policy_headers

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
td, th { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
"""
HEADERS = policy_headers(style_src=f"'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'")
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
    """The page with all routes."""
    return Environment(autoescape=True).from_string(PAGE).render(schema, style=STYLE)
