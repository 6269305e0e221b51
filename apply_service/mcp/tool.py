"""MCP: the tool `edit_file` for coding agents, on the official SDK's server.

`path`, `code_edit`, `instruction` and `dryRun` are the names of the best-known tool of this kind; the aliases are those
of others.  The answer is a short text with a diff, and the same as fields.  A file is written only if it lies in an
allowed folder, no check found an error (unless the caller accepts it) and it is still as it was read.  A file that was
not written is an error, so that no agent takes the edit for done.  `apply-service undo` restores the old text.  The
caller passes in what applies the edit: an engine in this process, or a running service.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
import mcp_types as protocol
from mcp.server.lowlevel import Server

from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, SourceFile, read_as_judged
from apply_service.disk.paths import Roots
from apply_service.edits.envelope import is_same_file
from apply_service.edits.fidelity import decode, encode, normalise
from apply_service.edits.markers import is_marker
from apply_service.edits.reply import OTHER_FILES, named_files
from apply_service.errors import (
    ApplyError,
    EmptyUpdate,
    EngineFailure,
    FileNotReadable,
    InvalidField,
    NotFound,
    TooLarge,
    UnknownField,
    shorten,
)
from apply_service.types import ApplyRequest, ApplyResult, Strategy, Verdict, is_refused

Apply = Callable[[ApplyRequest], Awaitable[ApplyResult]]
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
KINDS = {"string": (str, "a string"), "boolean": (bool, "true or false"), "object": (dict, "an object")}
MAX_VALUE_CHARS = 500

log = logging.getLogger(__name__)


# -- one edit of a file on disk ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class EditCall:
    """One call of the tool."""

    path: str
    code_edit: str
    instruction: str = ""
    is_dry_run: bool = False
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    base_sha256: str | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The outcome of a call for one file."""

    path: str
    status: Literal["written", "created", "unchanged", "dry_run", "refused"]
    result: ApplyResult | ApplyError
    refused: tuple[Verdict, ...] = ()
    """The findings that forbid writing the result."""


class FileEditor:
    """Edits files in the allowed folders."""

    def __init__(
        self,
        roots: Roots,
        apply: Apply,
        store: BackupStore,
        *,
        strategy: Strategy = "auto",
        max_bytes: int = 16 * 2**20,
    ) -> None:
        """`max_bytes`: larger files are refused without reading them."""
        self._roots = roots
        self._apply = apply
        self._store = store
        self._strategy: Strategy = strategy
        self._max_bytes = max_bytes
        self._locks: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()

    async def edit_all(self, call: EditCall) -> list[EditOutcome]:
        """Edit the call's own file, and then the others if the edit is a reply over several files that includes it.
        Edits of one file wait for each other.  Raises ApplyError: the call's own file could not be edited, and no other
        was."""
        outcomes = [await self._edit(call)]
        named = await anyio.to_thread.run_sync(named_files, normalise(call.code_edit))
        paths = [name for name in named if not is_same_file(name, call.path)]
        for path in paths if len(paths) < len(named) else ():
            try:
                outcomes.append(await self._edit(replace(call, path=path, base_sha256=None)))
            except ApplyError as error:
                outcomes.append(EditOutcome(path, "refused", error))
        return outcomes

    async def _edit(self, call: EditCall) -> EditOutcome:
        """Edit one file, while no other edit of it runs.  Raises ApplyError: nothing was written."""
        target = self._roots.resolve(call.path)
        lock = self._locks.setdefault(target, anyio.Lock())
        async with lock:
            source = await anyio.to_thread.run_sync(self._read, target, call)
            text = decode(source.data, call.encoding)
            root = next(root for root in self._roots.folders if target.is_relative_to(root))
            request = ApplyRequest(
                text.text,
                call.code_edit,
                instruction=call.instruction,
                path=target.relative_to(root).as_posix().encode("utf-8", "replace").decode(),
                encoding=text.encoding,
                base_sha256=call.base_sha256,
                strategy=self._strategy,
                on_verdict=call.on_verdict,
                diff=True,
            )
            result = await self._apply(request)
            refused = tuple(v for v in result.verdicts if is_refused(v.check, v.severity, call.on_verdict))
            status: Literal["written", "created", "unchanged", "dry_run", "refused"]
            status = "written" if result.edits else "unchanged"
            if call.is_dry_run:
                status = "dry_run"
            elif refused:
                status = "refused"
            elif not source.exists:
                status = "created"
            if status in ("written", "created"):
                data = encode(result.merged_code, replace(text, encoding=result.encoding))
                await anyio.to_thread.run_sync(self._store.write_all, [FileWrite(source, data)], self._roots.folders)
        return EditOutcome(call.path, status, result, refused)

    def _read(self, target: Path, call: EditCall) -> SourceFile:
        """The file that the call is for.  Raises TooLarge, FileNotReadable."""
        with contextlib.suppress(OSError):  # reading the file reports the error
            if (n_bytes := target.stat().st_size) > self._max_bytes:
                remedy = "edit it by other means"
                raise TooLarge("the file is too large", value=n_bytes, limit=self._max_bytes, remedy=remedy)
        source = read_as_judged(target, self._max_bytes)
        # A snippet that leaves out existing code is meant for a file that exists: its name is wrong.
        if not source.exists and any(map(is_marker, normalise(call.code_edit).split("\n"))):
            message = f"{call.path} does not exist, but the edit leaves out existing code"
            remedy = "correct the path, or send the whole new file without markers"
            raise FileNotReadable(message, value=str(source.target), remedy=remedy)
        return source


# -- the protocol ------------------------------------------------------------------------------------------------------
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
        annotations=hints,
    )

    async def list_tools(_: object, __: protocol.PaginatedRequestParams | None) -> protocol.ListToolsResult:
        return protocol.ListToolsResult(tools=[tool])

    async def call_tool(_: object, params: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        try:
            if params.name != NAME:
                message, remedy = f"there is no tool {params.name!r}", "call edit_file"
                raise NotFound(message, value=params.name, limit=[NAME], remedy=remedy)
            outcomes = await editor.edit_all(read_arguments(params.arguments or {}))
            lines = [line for one in outcomes for line in ("", *_lines(one, is_alone=len(outcomes) == 1))][1:]
            fields, *others = map(_fields, outcomes)
            if others:
                fields["others"] = others
            is_failed = any(one.status == "refused" for one in outcomes)
            return protocol.CallToolResult(content=[_content(lines)], structured_content=fields, is_error=is_failed)
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
    """The call with these arguments.  A null counts as not given.  Raises UnknownField, InvalidField, EmptyUpdate,
    which name the argument."""
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
def _content(lines: Iterable[str]) -> protocol.TextContent:
    # Names of files may hold bytes that are no UTF-8, which JSON cannot carry.
    return protocol.TextContent(text="\n".join(lines).encode("utf-8", "backslashreplace").decode())


def _error_lines(error: ApplyError) -> Iterator[str]:
    yield f"error [{error.code}]: {error.message}"
    for name, value in (("value", error.value), ("limit", error.limit)):
        if value is not None:
            yield f"{name}: {shorten(value, MAX_VALUE_CHARS)}"
    if error.remedy:
        yield f"remedy: {error.remedy}"


def _lines(outcome: EditOutcome, *, is_alone: bool) -> Iterator[str]:
    path, result = outcome.path, outcome.result
    if isinstance(result, ApplyError):
        yield f"{path} was NOT written."
        yield from _error_lines(result)
        return
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
        if (not is_alone) if verdict.check == OTHER_FILES else verdict.is_pass:
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


def _fields(outcome: EditOutcome) -> dict[str, Any]:
    result = outcome.result
    if isinstance(result, ApplyError):
        told = {"path": outcome.path, "status": outcome.status, "diff": ""}
        return {**told, "verdicts": [], "error": result.as_dict()}
    same = ("strategy", "model", "confidence", "confidence_kind", "source_sha256", "result_sha256")
    return {
        "path": outcome.path,
        "status": outcome.status,
        "diff": result.diff or "",
        "certainty": str(result.certainty),
        **{name: getattr(result, name) for name in same},
        "verdicts": [{**asdict(v), "lines": None if v.lines is None else list(v.lines)} for v in result.verdicts],
    }
