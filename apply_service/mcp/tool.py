"""`edit_file` on the official SDK's server: the arguments by the names that agents know, and an answer of a few lines
and a diff, with the same as fields.

`path`, `code_edit`, `instruction` and `dryRun` are the names of the best-known tool of this kind; the aliases are those
of others.  A file that was not written is an error of the tool, so that no agent takes it for done.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import mcp_types as protocol
from mcp.server.lowlevel import Server

from apply_service.edits.reply import OTHER_FILES
from apply_service.errors import ApplyError, EmptyUpdate, EngineFailure, InvalidField, NotFound, UnknownField, shorten
from apply_service.mcp.editing import EditCall, EditOutcome, FailedEdit, FileEditor

NAME = "edit_file"
DESCRIPTION = (
    "Edit a file without writing it out: send only the lines that change, and the whole file is merged, checked and "
    "written, byte for byte as it was everywhere else. Put all edits of one file into one call. The answer is the diff "
    "and what the checks found; a result that fails a check is not written."
)
ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": ("target_filepath", "target_file", "file_path"),
    "code_edit": (),
    "instruction": ("instructions",),
    "dryRun": ("dry_run",),
    "on_verdict": (),
    "base_sha256": (),
    "encoding": (),
}
"""Argument -> other names for it."""


def _text(description: str, **more: str) -> dict[str, Any]:
    return {"type": "string", **more, "description": description}


PROPERTIES: dict[str, dict[str, Any]] = {
    "path": _text("The file to edit, absolute or relative to the project. One that does not exist is created."),
    "code_edit": _text(
        "The lines that change, with a few unchanged lines around each, and a comment `... existing code ...` for "
        "every stretch left out. To delete a block, show its neighbours with nothing between them, or write a comment "
        "`removed NAME`. Search/replace blocks, diffs, patches and JSON edits are taken as well, with other files' "
        "parts among them where each names its file."
    ),
    "instruction": _text("One sentence, in the first person, that says what the edit does."),
    "dryRun": {"type": "boolean", "default": False, "description": "Show the diff and write nothing."},
    "on_verdict": {
        "type": "object",
        "additionalProperties": {"enum": ["warn", "fail"]},
        "description": 'By the name of a check: "warn" writes the file in spite of its findings, "fail" refuses it '
        "for a warning. Only where a refused edit is right as it is.",
    },
    "base_sha256": _text(
        "Hash of the file the edit was made for; another one is refused.", pattern="^[0-9a-fA-F]{64}$"
    ),
    "encoding": _text("What the file is encoded in.", default="utf-8"),
}
VERDICT_FIELDS: dict[str, Any] = {
    "check": {"type": "string"},
    "severity": {"enum": ["pass", "warning", "error"]},
    "message": {"type": "string"},
    "lines": {"type": ["array", "null"], "items": {"type": "integer"}},
    "side": {"enum": ["merged", "original"]},
}
OTHERS = "The other files of a reply over several, as this one is told; `error` where one failed."
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "status": {"enum": ["written", "created", "unchanged", "dry_run", "refused"]},
        "diff": _text("Unified diff; empty where nothing changes."),
        "strategy": _text("What decided: a program or a model."),
        "model": {"type": ["string", "null"]},
        "certainty": {"enum": ["certain", "likely", "guess"]},
        "confidence": {"type": ["number", "null"]},
        "confidence_kind": {"enum": ["calibrated", "raw", None]},
        "source_sha256": {"type": "string"},
        "result_sha256": {"type": "string"},
        "verdicts": {"type": "array", "items": {"type": "object", "properties": VERDICT_FIELDS}},
        "others": {"type": "array", "items": {"type": "object"}, "description": OTHERS},
    },
    "required": ["path", "status", "diff", "verdicts"],
}
KINDS = {"string": (str, "a string"), "boolean": (bool, "true or false"), "object": (dict, "an object")}
QUIET = frozenset({"instruction"})
"""Findings that the text leaves out, as agents always send an instruction beside the edit; the fields have them."""
MAX_VALUE_CHARS = 500

log = logging.getLogger(__name__)


def create_server(editor: FileEditor) -> Server[Any]:
    """The MCP server over an editor of files."""

    hints = protocol.ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
    )
    tool = protocol.Tool(
        name=NAME,
        title="Edit a file",
        description=DESCRIPTION,
        input_schema={"type": "object", "properties": PROPERTIES, "required": ["path", "code_edit"]},
        output_schema=OUTPUT_SCHEMA,
        annotations=hints,
    )

    async def list_tools(_: object, __: protocol.PaginatedRequestParams | None) -> protocol.ListToolsResult:
        return protocol.ListToolsResult(tools=[tool])

    async def call_tool(_: object, params: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        try:
            if params.name != NAME:
                message, remedy = f"there is no tool {params.name!r}", "call edit_file"
                raise NotFound(message, value=params.name, limit=[NAME], remedy=remedy)
            own, others = await editor.edit_all(read_arguments(params.arguments or {}))
            return _answer(own, others)
        except ApplyError as error:
            told = error
        except Exception as error:
            kind = type(error).__name__
            # The message of a foreign exception may quote the user's code, which logs do not hold.
            log.error("edit crashed: %s\n%s", kind, "".join(traceback.format_tb(error.__traceback__)))
            remedy = "look at the file; see the server's log"
            told = EngineFailure(f"the edit failed ({kind})", value=kind, remedy=remedy)
        return protocol.CallToolResult(content=[_content(_error_lines(told))], is_error=True)

    return Server("apply-service", version=version("apply-service"), on_list_tools=list_tools, on_call_tool=call_tool)


def read_arguments(arguments: Mapping[str, Any]) -> EditCall:
    """The call that the arguments mean.  A null counts as not given.  Raises UnknownField, InvalidField, EmptyUpdate:
    names the argument."""
    own = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}
    values: dict[str, Any] = {}
    for given, value in arguments.items():
        if given not in own:
            raise UnknownField(f"unknown argument {given!r}", value=given, limit=list(ALIASES), remedy="leave it out")
        if value is None:
            continue
        name = own[given]
        kind, allowed = KINDS[PROPERTIES[name]["type"]]
        if not isinstance(value, kind):
            message = f"{name!r} must be {allowed}"
            raise InvalidField(message, value=value, limit=allowed, remedy=f"send {name} as {allowed}")
        if values.setdefault(name, value) != value:
            message = f"{name!r} is given twice, as different values"
            raise InvalidField(message, value=given, remedy="give it once")
    rules = values.get("on_verdict", {})
    if any(rule not in ("warn", "fail") for rule in rules.values()):
        message, allowed_rules = "'on_verdict' must say warn or fail by the names of checks", {"CHECK": "warn or fail"}
        raise InvalidField(message, value=rules, limit=allowed_rules, remedy="mend it, or leave it out")
    if not values.get("path"):
        raise InvalidField("the argument 'path' is missing", value="path", remedy="name the file to edit")
    if not values.get("code_edit", "").strip():
        raise EmptyUpdate("there is no edit", value="code_edit", remedy="send the lines that change as code_edit")
    is_dry_run = values.pop("dryRun", False)
    return EditCall(is_dry_run=is_dry_run, **{name: value for name, value in values.items() if value != ""})


# -- the answer --------------------------------------------------------------------------------------------------------
def _answer(own: EditOutcome, others: list[EditOutcome | FailedEdit]) -> protocol.CallToolResult:
    """What happened to the call's own file, written or not, and to the others of the reply."""
    lines, fields = [*_lines(own, is_alone=not others)], _fields(own)
    for other in others:
        if isinstance(other, FailedEdit):
            lines += ["", f"{other.path} was NOT written.", *_error_lines(other.error)]
        else:
            lines += ["", *_lines(other, is_alone=False)]
    if others:
        fields["others"] = [_fields(other) for other in others]
    is_failed = any(told["status"] == "refused" for told in (fields, *fields.get("others", ())))
    return protocol.CallToolResult(content=[_content(lines)], structured_content=fields, is_error=is_failed)


def _content(lines: Iterable[str]) -> protocol.TextContent:
    # Names of files may hold bytes that are no UTF-8, which JSON cannot carry.
    return protocol.TextContent(text="\n".join(lines).encode("utf-8", "backslashreplace").decode())


def _error_lines(error: ApplyError) -> Iterator[str]:
    """Code first, then what and what to do."""
    yield f"error [{error.code}]: {error.message}"
    for name, value in (("value", error.value), ("limit", error.limit)):
        if value is not None:
            yield f"{name}: {shorten(value, MAX_VALUE_CHARS)}"
    if error.remedy:
        yield f"remedy: {error.remedy}"


def _lines(outcome: EditOutcome, *, is_alone: bool) -> Iterator[str]:
    path, result = outcome.path, outcome.result
    would = "would be refused" if outcome.refused else "would be written"
    headline = {
        "written": f"Edited {path}.",
        "created": f"Created {path}.",
        "unchanged": f"{path} is unchanged: the edit is already there or says nothing.",
        "dry_run": f"Dry run: {path} {would}; nothing was.",
        "refused": f"{path} was NOT written: a check found an error in the result.",
    }[outcome.status]
    yield f"{headline} Decided by: {result.strategy}{f' ({result.model})' if result.model else ''}."
    for verdict in result.verdicts:
        if verdict.is_pass or verdict.check in QUIET or (verdict.check == OTHER_FILES and not is_alone):
            continue
        place = ""
        if verdict.lines is not None:
            first, last = verdict.lines
            place = f" ({f'line {first}' if first == last else f'lines {first}-{last}'} of the {verdict.side} file)"
        yield f"{verdict.severity}: {verdict.check}: {verdict.message}{place}"
    if outcome.refused:
        checks = json.dumps({verdict.check: "warn" for verdict in outcome.refused})
        yield f"Mend the edit; or, if the result below is right as it is, send it again with on_verdict {checks}."
    if result.diff:
        longest = max((len(run) for run in re.findall(r"`+", result.diff)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"\n{fence}diff\n{result.diff.removesuffix(chr(10))}\n{fence}"


def _fields(outcome: EditOutcome | FailedEdit) -> dict[str, Any]:
    if isinstance(outcome, FailedEdit):
        error = outcome.error.as_dict()
        return {"path": outcome.path, "status": "refused", "diff": "", "verdicts": [], "error": error}
    result = outcome.result
    same = ("strategy", "model", "confidence", "confidence_kind", "source_sha256", "result_sha256")
    return {
        "path": outcome.path,
        "status": outcome.status,
        "diff": result.diff or "",
        "certainty": str(result.certainty),
        **{name: getattr(result, name) for name in same},
        "verdicts": [{**asdict(v), "lines": None if v.lines is None else list(v.lines)} for v in result.verdicts],
    }
