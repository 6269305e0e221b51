"""The OpenAPI description as a page for people, drawn here so that it needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment

PAGE = """
{%- macro type_of(field) -%}
  {%- if "$ref" in field -%}
    {%- set name = field["$ref"].rsplit("/", 1)[-1] -%} <a href="#{{ name }}">{{ name }}</a>
  {%- elif "anyOf" in field -%}
    {%- for one in field["anyOf"] -%} {{ type_of(one) }} {%- if not loop.last %} or {% endif -%} {%- endfor -%}
  {%- elif "enum" in field or "const" in field -%}
    {%- for value in field.get("enum", [field.get("const")]) -%}
      <code>{{ value }}</code> {%- if not loop.last %} | {% endif -%}
    {%- endfor -%}
  {%- elif field["type"] == "array" and "items" in field -%} list of {{ type_of(field["items"]) }}
  {%- else -%} {{ field.get("type", "any") }}
    {%- for key, word in limits.items() if key in field %} {{ word }} {{ field[key] }} {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- macro fields(shape) -%}
  {%- if "properties" in shape -%}<table><tr><th>Field<th>Type<th>Meaning</tr>
    {%- for name, field in shape["properties"].items() -%}
      <tr><td><code>{{ name }}</code><td>{{ type_of(field) }}<td>{{ field["description"] }}</tr>
    {%- endfor -%}</table>
  {%- else -%}<p>{{ type_of(shape) }}</p>{%- endif -%}
{%- endmacro -%}
<!doctype html><html lang="en"><meta charset="utf-8"><title>{{ info.title }}</title>
<meta name="viewport" content="width=device-width"><style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
</style><h1>{{ info.title }} {{ info.version }}</h1>
<p>{{ info.description }} Machine-readable: <a href="openapi.json">openapi.json</a></p>
{%- for path, operations in paths.items() -%}{%- for method, route in operations.items() %}
<h2><code>{{ method.upper() }} {{ path }}</code></h2><p>{{ route.summary }}. {{ route.description }}</p>
{%- if route.requestBody %}
<h3>Request</h3>{{ fields(route.requestBody.content["application/json"].schema) }} {%- endif %}
<h3>Answers</h3><table><tr><th>Status<th>Meaning</tr>
{%- for status, answer in route.responses.items() -%}<tr><td>{{ status }}<td>{{ answer.description }}</tr>
{%- endfor -%}</table>
{%- endfor -%}{%- endfor %}
<h2>Shapes</h2>
{%- for name, shape in components.schemas.items() %}
<h3 id="{{ name }}">{{ name }}</h3><p>{{ shape.description }}</p>{{ fields(shape) }} {%- endfor -%}</html>
"""
LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "pattern": "like", "maxLength": "up to"}


def render_docs(schema: Mapping[str, Any]) -> str:
    """One self-contained HTML page of all routes."""
    return Environment(autoescape=True).from_string(PAGE).render(limits=LIMITS, **schema)
