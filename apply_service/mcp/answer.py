"""What `edit_file` answers: a few lines and a diff for the agent, and the same as fields.

A file that was not written is an error of the tool, so that no agent takes it for done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from mcp_types import CallToolResult, TextContent

from apply_service.edits.reply import OTHER_FILES
from apply_service.errors import ApplyError, shorten
from apply_service.mcp.editing import EditOutcome, FailedEdit
from apply_service.types import Verdict

QUIET = frozenset({"instruction"})
"""Findings that the text leaves out, as agents always send an instruction beside the edit; the fields have them."""

MAX_VALUE_CHARS = 500

VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "check": {"type": "string"},
        "severity": {"enum": ["pass", "warning", "error"]},
        "message": {"type": "string"},
        "lines": {"type": ["array", "null"], "items": {"type": "integer"}},
        "side": {"enum": ["merged", "original"]},
    },
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "status": {"enum": ["written", "created", "unchanged", "dry_run", "refused"]},
        "diff": {"type": "string", "description": "Unified diff; empty where nothing changes."},
        "strategy": {"type": "string", "description": "What decided: a program or a model."},
        "model": {"type": ["string", "null"]},
        "certainty": {"enum": ["certain", "likely", "guess"]},
        "confidence": {"type": ["number", "null"]},
        "confidence_kind": {"enum": ["calibrated", "raw", None]},
        "source_sha256": {"type": "string"},
        "result_sha256": {"type": "string"},
        "verdicts": {"type": "array", "items": VERDICT_SCHEMA},
        "others": {
            "type": "array",
            "items": {"type": "object"},
            "description": "The other files of a reply over several, as this one is told; `error` where one failed.",
        },
    },
    "required": ["path", "status", "diff", "verdicts"],
}


def outcome_answer(outcome: EditOutcome, *others: EditOutcome | FailedEdit) -> CallToolResult:
    """The tool's answer to an edit that could be applied, written or not; `others`: the reply's other files."""
    lines = [*_lines(outcome, is_one_of_many=bool(others))]
    fields = _fields(outcome)
    is_failed = outcome.status == "refused"
    for other in others:
        is_failed |= isinstance(other, FailedEdit) or other.status == "refused"
        lines += ["", *_other_lines(other)]
    if others:
        fields["others"] = [_other_fields(other) for other in others]
    return CallToolResult(content=[_text(lines)], structured_content=fields, is_error=is_failed)


def _other_lines(other: EditOutcome | FailedEdit) -> Iterator[str]:
    if isinstance(other, EditOutcome):
        yield from _lines(other, is_one_of_many=True)
        return
    yield f"{other.path} was NOT written."
    yield from _error_lines(other.error)


def _other_fields(other: EditOutcome | FailedEdit) -> dict[str, Any]:
    if isinstance(other, EditOutcome):
        return _fields(other)
    return {"path": other.path, "status": "refused", "diff": "", "verdicts": [], "error": other.error.as_dict()}


def error_answer(error: ApplyError) -> CallToolResult:
    """The tool's answer where there is nothing to write: code first, then what and what to do."""
    return CallToolResult(content=[_text(_error_lines(error))], is_error=True)


def _error_lines(error: ApplyError) -> Iterator[str]:
    details = error.as_dict()
    yield f"error [{error.code}]: {error.message}"
    for name in ("value", "limit"):
        if details[name] is not None:
            yield f"{name}: {shorten(details[name], MAX_VALUE_CHARS)}"
    if error.remedy:
        yield f"remedy: {error.remedy}"


def _text(lines: Iterable[str]) -> TextContent:
    # Names of files may hold bytes that are no UTF-8, which JSON cannot carry.
    return TextContent(text="\n".join(lines).encode("utf-8", "backslashreplace").decode())


def _lines(outcome: EditOutcome, *, is_one_of_many: bool = False) -> Iterator[str]:
    result = outcome.result
    yield f"{_headline(outcome)} Decided by: {result.strategy}{f' ({result.model})' if result.model else ''}."
    for verdict in result.verdicts:
        if is_one_of_many and verdict.check == OTHER_FILES:
            continue
        if not verdict.is_pass and verdict.check not in QUIET:
            yield f"{verdict.severity}: {verdict.check}: {verdict.message}{_place(verdict)}"
    if outcome.refused:
        checks = json.dumps({verdict.check: "warn" for verdict in outcome.refused})
        yield f"Mend the edit; or, if the result below is right as it is, send it again with on_verdict {checks}."
    if result.diff:
        fence = _fence(result.diff)
        yield f"\n{fence}diff\n{result.diff.removesuffix(chr(10))}\n{fence}"


def _headline(outcome: EditOutcome) -> str:
    would = "would be refused" if outcome.refused else "would be written"
    return {
        "written": f"Edited {outcome.path}.",
        "created": f"Created {outcome.path}.",
        "unchanged": f"{outcome.path} is unchanged: the edit is already there or says nothing.",
        "dry_run": f"Dry run: {outcome.path} {would}; nothing was.",
        "refused": f"{outcome.path} was NOT written: a check found an error in the result.",
    }[outcome.status]


def _place(verdict: Verdict) -> str:
    if verdict.lines is None:
        return ""
    first, last = verdict.lines
    return f" ({f'line {first}' if first == last else f'lines {first}-{last}'} of the {verdict.side} file)"


def _fence(text: str) -> str:
    """Longer than any run of backticks inside."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))


def _fields(outcome: EditOutcome) -> dict[str, Any]:
    result = outcome.result
    return {
        "path": outcome.path,
        "status": outcome.status,
        "diff": result.diff or "",
        "strategy": result.strategy,
        "model": result.model,
        "certainty": str(result.certainty),
        "confidence": result.confidence,
        "confidence_kind": result.confidence_kind,
        "source_sha256": result.source_sha256,
        "result_sha256": result.result_sha256,
        "verdicts": [_verdict(verdict) for verdict in result.verdicts],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "check": verdict.check,
        "severity": verdict.severity,
        "message": verdict.message,
        "lines": None if verdict.lines is None else list(verdict.lines),
        "side": verdict.side,
    }
