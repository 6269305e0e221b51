"""Writes the generated parts of the reference pages from the code; a test holds the pages against it.

    python -m docs.generate

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; all else on a page is written by hand.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from apply_service.api.answer import EditOut, NativeAnswer, SpanOut, UsageOut, VerdictOut
from apply_service.api.errors import NEVER_SENT, STATUS
from apply_service.api.schema import NativeRequest
from apply_service.cli import build_parser
from apply_service.commands.exit_codes import MEANINGS, exit_code
from apply_service.settings import setting_specs

FOLDER = Path(__file__).parent
PAGES = ("cli.md", "http-api.md")
PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    for page in PAGES:
        path = FOLDER / page
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")


def render(page: str) -> str:
    """The page with its generated parts made anew."""
    return PART.sub(lambda match: match[1] + "\n" + PARTS[match[2]]() + "\n" + match[3], page)


# -- parts -------------------------------------------------------------------------------------------------------------
def commands() -> str:
    """Every command with its own options; options that are settings are in the table of settings."""
    settings = {spec.flag for spec in setting_specs()}
    parser = build_parser()
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return "\n".join(
        f"### `{command.prog}`\n\n{command.description}\n\n{_options(command, settings)}"
        for command in subparsers.choices.values()
    )


def _options(command: argparse.ArgumentParser, settings: set[str]) -> str:
    own = [action for action in command._actions if action.dest != "help"]
    rows = [(_spelling(action), action.help or "") for action in own if not settings & set(action.option_strings)]
    used = [action.option_strings[0] for action in own if settings & set(action.option_strings)]
    listed = "\nSettings: " + ", ".join(f"`{flag}`" for flag in used) + ".\n" if used else ""
    return table(("option", "meaning"), rows) + listed


def _spelling(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings) or str(action.metavar)
    return f"`{names} {action.metavar}`" if action.option_strings and action.metavar else f"`{names}`"


def exit_codes() -> str:
    return table(("code", "meaning"), ((str(code), meaning) for code, meaning in MEANINGS.items()))


def settings() -> str:
    rows = (
        (f"`{spec.flag}`", f"`{spec.variable}`", f"`{spec.name}`", spec.range, f"`{spec.default_text}`", spec.help)
        for spec in setting_specs()
    )
    return table(("option", "environment", "file", "values", "default", "meaning"), rows)


def errors() -> str:
    rows = [
        (f"`{kind.code}`", _status(kind, status), str(exit_code(kind(""))), inspect.getdoc(kind) or "")
        for kind, status in STATUS.items()
        if not kind.__subclasses__()
    ]
    return table(("code", "HTTP status", "exit code", "when"), rows)


def _status(kind: type, status: int) -> str:
    return "never sent" if issubclass(kind, NEVER_SENT) else str(status)


def request_fields() -> str:
    return _fields(NativeRequest, with_default=True)


def answer_fields() -> str:
    parts = [_fields(NativeAnswer)]
    for name, shape in (("verdicts", VerdictOut), ("edits", EditOut), ("spans", SpanOut), ("usage", UsageOut)):
        parts.append(f"`{name}`: {' '.join((inspect.getdoc(shape) or '').split())}\n")
        parts.append(_fields(shape))
    return "\n".join(parts)


def _fields(model: type[BaseModel], *, with_default: bool = False) -> str:
    schema = model.model_json_schema()
    enums = {name: shape for name, shape in schema.get("$defs", {}).items() if "enum" in shape}
    properties: Mapping[str, Any] = {
        name: {**enums.get(str(field.get("$ref")).rsplit("/", 1)[-1], {}), **field}
        for name, field in schema["properties"].items()
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


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "exit-codes": exit_codes,
    "settings": settings,
    "errors": errors,
    "request": request_fields,
    "answer": answer_fields,
}

if __name__ == "__main__":
    main()
