"""Tables of the reference pages: rows, and the fields of a pydantic model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter


def field_table(model: type, *, with_default: bool = False, only: Iterable[str] | None = None) -> str:
    """The fields of a model, or `only` some of them: name, type, default if asked for, meaning."""
    schema = TypeAdapter(model).json_schema()
    enums = {name: shape for name, shape in schema.get("$defs", {}).items() if "enum" in shape}
    properties: Mapping[str, Any] = {
        name: {**enums.get(str(field.get("$ref")).rsplit("/", 1)[-1], {}), **field}
        for name, field in schema["properties"].items()
        if only is None or name in only
    }
    if not with_default:
        return table(
            ("field", "type", "meaning"),
            ((f"`{n}`", _type(f), f.get("description", "")) for n, f in properties.items()),
        )
    rows = (
        (f"`{name}`", _type(field), f"`{json.dumps(field.get('default', {}))}`", field.get("description", ""))
        for name, field in properties.items()
    )
    return table(("field", "type", "default", "meaning"), rows)


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " / ".join(f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return str(field["$ref"].rsplit("/", 1)[-1].removesuffix("Out"))
    if "anyOf" in field:
        return " or ".join(_type(option) for option in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}" if "items" in field else "list"
    return " ".join([str(field.get("type", "any")), *_limits(field)])


def _limits(field: Mapping[str, Any]) -> Iterator[str]:
    for key, word in {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "pattern": "like"}.items():
        if key in field:
            yield f"{word} `{field[key]}`"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def named_fields(name: str, model: type) -> str:
    """A model's fields under the name it has in another, with what it is: in its own words, not in pydantic's."""
    assert model.__doc__, model
    return f"`{name}`: {' '.join(inspect.cleandoc(model.__doc__).split())}\n\n{field_table(model)}"
