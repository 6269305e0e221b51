"""Writes the generated parts of the reference pages from the code; a test holds the pages against it.

    python -m docs.generate

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; all else on a page is written by hand.
"""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from apply_service.api.answer import NativeAnswer, UsageOut
from apply_service.api.errors import NATIVE, NEVER_SENT, error_kinds
from apply_service.api.schema import NativeRequest
from apply_service.cli import build_parser, commands_of
from apply_service.commands.output import MEANINGS, exit_code
from apply_service.errors import ApplyError
from apply_service.settings import setting_specs
from apply_service.types import Hunk, OtherReading, Span, TextEdit, Verdict
from benchmarks.decoding.tables import render_all
from benchmarks.gpu.tables import render_all as render_all_gpu
from docs.batch_parts import BATCH_PARTS
from docs.confidence_parts import CONFIDENCE_PARTS
from docs.connect_parts import CONNECT_PARTS
from docs.dialect_parts import DIALECT_PARTS
from docs.drafting_parts import DRAFTING_PARTS
from docs.edit_parts import EDIT_PARTS
from docs.embedded_model_parts import EMBEDDED_MODEL_PARTS
from docs.engine_parts import ENGINE_PARTS
from docs.evaluation_parts import EVALUATION_PARTS
from docs.model_target_parts import MODEL_TARGET_PARTS
from docs.readme_parts import PICTURES, README_PARTS
from docs.service_parts import SERVICE_PARTS
from docs.tables import field_table, named_fields, table
from docs.tricky_parts import TRICKY_PARTS

FOLDER = Path(__file__).parent
PAGES = (
    "clients.md",
    "edits.md",
    "mcp.md",
    "cli.md",
    "http-api.md",
    "batch.md",
    "dialects.md",
    "evaluation.md",
    "performance.md",
    "operations.md",
    "confidence.md",
    "embedded-model.md",
    "scaling.md",
    "models.md",
    "tricky.md",
    "engines.md",
    "drafting.md",
    "../README.md",
)
PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    for page in PAGES:
        path = FOLDER / page
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name, draw in PICTURES.items():
        (FOLDER / "images" / name).write_text(draw(), encoding="utf-8")


def render(page: str) -> str:
    """The page with its generated parts made anew."""
    return PART.sub(lambda match: match[1] + "\n" + PARTS[match[2]]() + "\n" + match[3], page)


# -- parts -------------------------------------------------------------------------------------------------------------
def commands() -> str:
    """Every command with its own options; options that are settings are in the table of settings."""
    settings = {spec.flag for spec in setting_specs()}
    return "\n".join(
        f"### `{command.prog}`\n\n{command.description}\n\n```\n{textwrap.dedent(command.examples)}```\n\n"
        + _options(command, settings)
        for command in commands_of(build_parser()).values()
    )


def _options(command: argparse.ArgumentParser, settings: set[str]) -> str:
    hidden = ("help", "help_all")
    own = [action for action in command._actions if action.dest not in hidden and action.help != argparse.SUPPRESS]
    rows = [(_spelling(action), action.help or "") for action in own if not settings & set(action.option_strings)]
    used = [flag for action in own for flag in action.option_strings if flag in settings]
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
        (f"`{kind.code}`", _status(kind), str(exit_code(kind(""))), inspect.getdoc(kind) or "")
        for kind in error_kinds()
        if not kind.__subclasses__()
    ]
    return table(("code", "HTTP status", "exit code", "when"), rows)


def _status(kind: type[ApplyError]) -> str:
    return "never sent" if issubclass(kind, NEVER_SENT) else str(NATIVE.status(kind))


def request_fields() -> str:
    return field_table(NativeRequest, with_default=True)


def answer_fields() -> str:
    shapes: dict[str, type] = {
        "verdicts": Verdict,
        "edits": TextEdit,
        "hunks": Hunk,
        "readings": OtherReading,
        "spans": Span,
        "usage": UsageOut,
    }
    return "\n".join([field_table(NativeAnswer), *(named_fields(name, shape) for name, shape in shapes.items())])


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "exit-codes": exit_codes,
    "settings": settings,
    "errors": errors,
    "request": request_fields,
    "answer": answer_fields,
    **BATCH_PARTS,
    **CONFIDENCE_PARTS,
    **CONNECT_PARTS,
    **DIALECT_PARTS,
    **EDIT_PARTS,
    **EMBEDDED_MODEL_PARTS,
    **EVALUATION_PARTS,
    **MODEL_TARGET_PARTS,
    **README_PARTS,
    **SERVICE_PARTS,
    **TRICKY_PARTS,
    **ENGINE_PARTS,
    **DRAFTING_PARTS,
    "performance": render_all,
    "performance-gpu": render_all_gpu,
}

if __name__ == "__main__":
    main()
