"""The OpenAPI description as a page for people, drawn here so that it needs nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
"""


def render_docs(schema: Mapping[str, Any]) -> str:
    """One self-contained HTML page of all routes."""
    info = schema["info"]
    routes = "".join(
        "".join(_route(method, path, operation))
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    )
    shapes = "".join("".join(_shape(name, shape)) for name, shape in schema["components"]["schemas"].items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(info["title"])}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])} "
        f'Machine-readable: <a href="openapi.json">openapi.json</a></p>{routes}<h2>Shapes</h2>{shapes}</html>'
    )


def _route(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    yield f"<p>{escape(operation.get('summary', ''))}. {escape(operation.get('description', ''))}</p>"
    if body := operation.get("requestBody"):
        yield "<h3>Request</h3>" + _fields(body["content"]["application/json"]["schema"])
    yield "<h3>Answers</h3><table><tr><th>Status<th>Meaning</tr>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{status}<td>{escape(answer['description'])}</tr>"
    yield "</table>"


def _shape(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(shape.get("description", ""))}</p>'
    yield _fields(shape)


def _fields(shape: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{_type(field)}<td>{escape(field.get('description', ''))}</tr>"
        for name, field in shape.get("properties", {}).items()
    )
    return f"<table><tr><th>Field<th>Type<th>Meaning</tr>{rows}</table>" if rows else f"<p>{_type(shape)}</p>"


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = escape(field["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in field:
        return " or ".join(_type(option) for option in field["anyOf"])
    if "enum" in field or "const" in field:
        values = field.get("enum", [field.get("const")])
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    if field.get("type") == "array" and "items" in field:
        return "list of " + _type(field["items"])
    limits = [f"{word} {field[key]}" for key, word in LIMIT_WORDS.items() if key in field]
    return escape(" ".join([str(field.get("type", "any")), *limits]))


LIMIT_WORDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "pattern": "like", "maxLength": "up to"}
