"""Writes the types of the TypeScript client from the OpenAPI page; a test holds them against it.

    python -m docs.generate_typescript

Takes the shapes that the native routes, batches, models and health name, and everything that these name in turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apply_service.api.app import create_app
from apply_service.api.errors import error_kinds
from apply_service.pipeline import Running
from apply_service.service import Service
from apply_service.settings import Settings

TARGET = Path(__file__).parent.parent / "apply_service" / "clients" / "typescript" / "src" / "types.ts"
REQUESTS = ("/v1/apply", "/v1/apply/batch")
ANSWERS = ("NativeAnswer", "BatchAnswer", "ModelList", "Readiness", "ErrorBody")
HEAD = "// Made by `python -m docs.generate_typescript` from the service's OpenAPI page. Do not edit.\n"
WIDTH = 118
PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}

Schema = Mapping[str, Any]


def main() -> None:
    TARGET.write_text(render(openapi_page()), encoding="utf-8")


def openapi_page() -> dict[str, Any]:
    """The page of a service that answers nothing."""

    def answer_nothing(*_: object) -> Running:
        yield from ()

    with Service(answer_nothing) as service:
        return create_app(service, Settings()).openapi()


def render(page: Schema) -> str:
    """The TypeScript source: one type for each shape."""
    shapes = _Shapes(page["components"]["schemas"])
    for path in REQUESTS:
        body = page["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        shapes.type_of(body, is_request=True)
    for name in ANSWERS:
        shapes.type_of({"$ref": f"#/components/schemas/{name}"}, is_request=False)
    return "\n".join([HEAD, *shapes.written.values(), _codes()])


def _codes() -> str:
    union = "".join(f"\n  | {json.dumps(code)}" for code in sorted({kind.code for kind in error_kinds()}))
    return f"/** Every code that an error of the service can have. */\nexport type ErrorCode ={union};\n"


class _Shapes:
    """Named types, written as they are met."""

    def __init__(self, components: Schema) -> None:
        self._components = components
        self.written: dict[str, str] = {}

    def type_of(self, schema: Schema, *, is_request: bool) -> str:
        """The TypeScript type of a schema; objects with a title become types of that name."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            return self._named(name, self._components[name], is_request=is_request)
        if "enum" in schema:
            return " | ".join(json.dumps(value) for value in schema["enum"])
        if "const" in schema:
            return json.dumps(schema["const"])
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.type_of(option, is_request=is_request) for option in schema["anyOf"]))
        if "properties" in schema:
            return self._named(schema["title"], schema, is_request=is_request)
        return self._plain(schema, is_request=is_request)

    def _plain(self, schema: Schema, *, is_request: bool) -> str:
        kind = schema.get("type")
        if kind == "array" and "prefixItems" in schema:
            return f"[{', '.join(self.type_of(item, is_request=is_request) for item in schema['prefixItems'])}]"
        if kind == "array":
            return _array_of(self.type_of(schema["items"], is_request=is_request))
        if kind == "object":
            rest = schema.get("additionalProperties", {})
            return (
                f"Record<string, {self.type_of(rest, is_request=is_request) if isinstance(rest, dict) else 'unknown'}>"
            )
        return {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}.get(
            str(kind), "unknown"
        )

    def _named(self, name: str, schema: Schema, *, is_request: bool) -> str:
        short = name.removesuffix("Out")
        name = name if short in self._components else short
        if name not in self.written:
            self.written[name] = ""  # holds the place: what it names comes after it
            self.written[name] = self._declaration(name, schema, is_request=is_request)
        return name

    def _declaration(self, name: str, schema: Schema, *, is_request: bool) -> str:
        comment = _comment(schema.get("description", ""), "")
        if "properties" not in schema:
            return f"{comment}export type {name} = {self.type_of(schema, is_request=is_request)};\n"
        lines = self._members(schema, is_request=is_request)
        return f"{comment}export interface {name} {{\n{''.join(lines)}}}\n"

    def _members(self, schema: Schema, *, is_request: bool) -> Iterator[str]:
        """An answer has every field; of a request, those with a default may be left out."""
        for field, said in schema["properties"].items():
            mark = "?" if is_request and field not in schema.get("required", ()) else ""
            yield _comment(said.get("description", ""), "  ")
            yield f"  {field}{mark}: {self.type_of(said, is_request=is_request)};\n"


def _array_of(item: str) -> str:
    return f"({item})[]" if " | " in item else f"{item}[]"


def _comment(text: str, indent: str) -> str:
    """A JSDoc comment, wrapped; nothing for no text."""
    words = text.replace("*/", "*\u200b/").split()
    if not words:
        return ""
    if len(indent) + len(" ".join(words)) + 7 <= WIDTH:
        return f"{indent}/** {' '.join(words)} */\n"
    lines, line = [], f"{indent} *"
    for word in words:
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = f"{indent} *"
        line += " " + word
    return "\n".join([f"{indent}/**", *lines, line, f"{indent} */"]) + "\n"


if __name__ == "__main__":
    main()
