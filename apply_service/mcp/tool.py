"""Serves the tool `edit_file` to coding agents by MCP, with the official SDK.

`path`, `code_edit`, `instruction` and `dryRun` are the names of the best-known tool of this kind; the aliases come from
other tools.  The answer is a short text with a diff, and the same as fields.  A file is written only if three things
hold: it lies in an allowed folder, no check found an error that the caller does not accept, and the file is still as it
was read.  An edit in doubt is not written: the answer asks which of its readings (ways to merge it) is meant, and a
second call chooses one.  If a file was not written, the answer is an error, so that no agent takes the edit for done.
`apply-service undo` restores the old text.  The caller passes in what applies the edit: an engine in this process, or a
running service.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
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
from apply_service.disk.encodings import FileEncoding, encoding_of, refuse_new_characters
from apply_service.disk.files import FileWrite, SourceFile, read_as_judged
from apply_service.disk.paths import Roots
from apply_service.errors import (
    ApplyError,
    EmptyUpdate,
    EngineFailure,
    FileNotReadable,
    InvalidField,
    NeedsMoreContext,
    NotFound,
    StaleBase,
    TooLarge,
    UnknownField,
    shorten,
)
from apply_service.mcp.known_tools import KNOWN_TOOLS, turned
from apply_service.merge.rank.question import in_words, short_diff, shown_readings
from apply_service.reply.found import OTHER_FILES
from apply_service.reply.reader import named_files
from apply_service.text.fidelity import decode, encode, normalise
from apply_service.text.markers import is_marker
from apply_service.text.paths import is_same_file
from apply_service.types import DOUBT, ApplyRequest, ApplyResult, OtherReading, Strategy, Verdict, is_refused

Apply = Callable[[ApplyRequest], Awaitable[ApplyResult]]
NAME = "edit_file"
DESCRIPTION = (
    "Edit a file without writing it out: send only the lines that change, and the whole file is merged, checked and "
    "written, byte for byte as it was everywhere else. Put all edits of one file into one call. The answer is the diff "
    "and what the checks found; a result that fails a check is not written. Neither is an edit that may mean several "
    "things: the answer shows them, and the same call with `reading` takes one."
)
ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": ("target_filepath", "target_file", "file_path"),
    "code_edit": (),
    "instruction": ("instructions",),
    "dryRun": ("dry_run",),
    "reading": (),
    "on_verdict": (),
    "base_sha256": (),
    "encoding": (),
}
"""Other names that arguments may have."""


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
    "reading": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": "Only to answer a question of this tool: the number of the reading that is meant. The call then "
        "edits the file at `path` alone.",
    },
    "on_verdict": {
        "type": "object",
        "additionalProperties": {"enum": ["warn", "fail"]},
        "description": 'By the name of a check: "warn" writes the file in spite of its findings, "fail" refuses it '
        "for a warning. Only where a refused edit is right as it is.",
    },
    "base_sha256": _text(
        "Hash of the file the edit was made for; another one is refused.", pattern="^[0-9a-fA-F]{64}$"
    ),
    "encoding": _text("What the file is encoded in. Left out, it is found out, and a guess is told."),
}
KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a string"),
    "boolean": ((bool,), "true or false"),
    "object": ((dict,), "an object"),
    "reading": ((int, str), "a number"),
}
"""The allowed values, in Python and in words, by the type of an argument or by its name."""
MAX_VALUE_CHARS = 500
MAX_SHOWN, MAX_SHOWN_CHARS = 64, 1_000_000
"""The last seen texts of at most this many files are kept, if they have at most this many characters each."""
MOVED_ON = Verdict(
    "base",
    "warning",
    "the file has changed since this tool last showed it: the edit was applied to that text and merged with the file",
)

log = logging.getLogger(__name__)


# -- one edit of a file on disk ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class EditCall:
    """One call of the tool."""

    path: str
    code_edit: str
    instruction: str = ""
    is_dry_run: bool = False
    reading: str | None = None
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    base_sha256: str | None = None
    encoding: str | None = None
    """The file's encoding; None if it is to be found out."""


Status = Literal["written", "created", "unchanged", "dry_run", "asked", "refused"]


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The outcome of a call for one file."""

    path: str
    status: Status
    result: ApplyResult | ApplyError
    refused: tuple[Verdict, ...] = ()
    """The findings that forbid writing the result."""
    original: str = ""
    """The text of the file before the edit."""

    @property
    def readings(self) -> list[tuple[str, OtherReading]]:
        """What the edit may mean: each reading, with the value of `reading` that chooses it."""
        result = self.result
        if isinstance(result, ApplyError):
            readings = [OtherReading(**one) for one in result.readings]  # type: ignore[arg-type]
        elif result.reading is None:  # the text is a model's own, which no other call can name
            return []
        else:
            first = OtherReading(result.reading, result.confidence or 0.0, "", result.diff)
            readings = [first, *result.readings]
        # Numbers count from the reading that the merge program ranks first.  A model may have decided against that
        # reading.
        is_counted = isinstance(result, ApplyError) or result.agreement is not False
        return [(str(n) if is_counted else one.id, one) for n, one in enumerate(shown_readings(readings), 1)]


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
        """`max_bytes`: files with more bytes are refused without reading them."""
        self._roots = roots
        self._apply = apply
        self._store = store
        self._strategy: Strategy = strategy
        self._max_bytes = max_bytes
        self._shown: dict[Path, str] = {}
        """The text of each file as the agent last saw it through this tool, the latest one last."""
        self._locks: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()

    async def edit_all(self, call: EditCall) -> list[EditOutcome]:
        """Edit the call's own file.  Then edit the other files, if the edit is a reply about several files, including
        the call's own.

        A call that chooses a reading edits only its own file, because the call before has edited the others.  Edits of
        one file wait for each other.  Raises ApplyError if the call's own file could not be edited; in that case no
        other file was edited.
        """
        outcomes = [await self._edit(call)]
        if call.reading is not None:
            return outcomes
        named = await anyio.to_thread.run_sync(named_files, normalise(call.code_edit))
        paths = [name for name in named if not is_same_file(name, call.path)]
        for path in paths if len(paths) < len(named) else ():
            try:
                outcomes.append(await self._edit(replace(call, path=path, base_sha256=None)))
            except ApplyError as error:
                outcomes.append(EditOutcome(path, "refused", error))
        return outcomes

    async def _edit(self, call: EditCall) -> EditOutcome:
        """Edit one file while no other edit of it runs.  If this raises ApplyError, nothing was written."""
        target = self._roots.resolve(call.path)
        lock = self._locks.setdefault(target, anyio.Lock())
        async with lock:
            source = await anyio.to_thread.run_sync(self._read, target, call)
            encoding = encoding_of(source.data) if call.encoding is None else FileEncoding(call.encoding)
            text = decode(source.data, encoding.name)
            root = next(root for root in self._roots.folders if target.is_relative_to(root))
            request = ApplyRequest(
                text.text,
                call.code_edit,
                instruction=call.instruction,
                path=target.relative_to(root).as_posix().encode("utf-8", "replace").decode(),
                encoding=text.encoding,
                base_sha256=call.base_sha256,
                strategy=self._strategy if call.reading is None else "exact",  # a model has no readings
                reading=call.reading,
                on_verdict=call.on_verdict,
                diff=True,
            )
            try:
                result = await self._apply_on(request, self._shown.get(target))
            except NeedsMoreContext as error:
                error.remedy += encoding.hint
                if not error.readings:
                    raise
                self._remember(target, text.text)
                return EditOutcome(call.path, "asked", error, original=text.text)
            refuse_new_characters(encoding, text.text, result.merged_code)
            if encoding.is_guess:
                result = replace(result, verdicts=(*result.verdicts, encoding.verdict))
            refused = tuple(v for v in result.verdicts if is_refused(v.check, v.severity, call.on_verdict))
            status: Status = "written" if result.edits else "unchanged"
            if _doubt_of(result) and call.on_verdict.get(DOUBT) != "warn":
                status = "asked"
            elif call.is_dry_run:
                status = "dry_run"
            elif refused:
                status = "refused"
            elif not source.exists:
                status = "created"
            if status in ("written", "created"):
                data = encode(result.merged_code, replace(text, encoding=result.encoding))
                await anyio.to_thread.run_sync(self._store.write_all, [FileWrite(source, data)], self._roots.folders)
            self._remember(target, result.merged_code if status in ("written", "created") else text.text)
        return EditOutcome(call.path, status, result, refused, text.text)

    async def _apply_on(self, request: ApplyRequest, shown: str | None) -> ApplyResult:
        """Apply an edit to the file.  If the edit does not fit, and the file has changed since the agent saw it, apply
        the edit to the text that the agent saw and merge three-way.  Raises the ApplyError of the first attempt."""
        if shown is None or shown == request.original or request.reading is not None:
            return await self._apply(request)
        try:
            result = await self._apply(request)
        except (NeedsMoreContext, StaleBase) as error:
            unfit: ApplyResult | ApplyError = error
        else:
            if not (_doubt_of(result) or result.failures):
                return result
            unfit = result
        with contextlib.suppress(NeedsMoreContext, StaleBase):
            merged = await self._apply(replace(request, base=shown))
            if not _doubt_of(merged):
                return replace(merged, verdicts=(*merged.verdicts, MOVED_ON))
        if isinstance(unfit, ApplyError):
            raise unfit
        return unfit

    def _remember(self, target: Path, text: str) -> None:
        """Keep a file's text as the agent sees it now.  The oldest text is dropped if there are too many texts."""
        self._shown.pop(target, None)
        if len(text) <= MAX_SHOWN_CHARS:
            self._shown[target] = text
        while len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]

    def _read(self, target: Path, call: EditCall) -> SourceFile:
        """Return the file that the call is for.  Raises TooLarge, FileNotReadable."""
        with contextlib.suppress(OSError):  # reading the file reports the error
            if (n_bytes := target.stat().st_size) > self._max_bytes:
                remedy = "edit it by other means"
                raise TooLarge("the file is too large", value=n_bytes, limit=self._max_bytes, remedy=remedy)
        source = read_as_judged(target, self._max_bytes)
        # A snippet that leaves out existing code is meant for an existing file, so the path must be wrong.
        if not source.exists and any(map(is_marker, normalise(call.code_edit).split("\n"))):
            message = f"{call.path} does not exist, but the edit leaves out existing code"
            remedy = "correct the path, or send the whole new file without markers"
            raise FileNotReadable(message, value=str(source.target), remedy=remedy)
        return source


# -- the protocol ------------------------------------------------------------------------------------------------------
def create_server(editor: FileEditor, known_tools: Collection[str] = ()) -> Server[Any]:
    """Return the MCP server over an editor of files.  `known_tools`: names in `KNOWN_TOOLS` to offer as well."""

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
        others = [
            protocol.Tool(
                name=name,
                description=KNOWN_TOOLS[name].description,
                input_schema={
                    "type": "object",
                    "properties": dict(KNOWN_TOOLS[name].properties),
                    "required": list(KNOWN_TOOLS[name].required),
                },
                annotations=hints,
            )
            for name in known_tools
        ]
        return protocol.ListToolsResult(tools=[tool, *others])

    async def call_tool(_: object, params: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        try:
            if params.name not in (NAME, *known_tools):
                message, remedy = f"there is no tool {params.name!r}", "call edit_file"
                raise NotFound(message, value=params.name, limit=[NAME, *known_tools], remedy=remedy)
            given = params.arguments or {}
            outcomes = await editor.edit_all(
                read_arguments(given if params.name == NAME else turned(params.name, given))
            )
            lines = [line for one in outcomes for line in ("", *_lines(one, is_alone=len(outcomes) == 1))][1:]
            fields, *others = map(_fields, outcomes)
            if others:
                fields["others"] = others
            is_failed = any(one.status in ("asked", "refused") for one in outcomes)
            return protocol.CallToolResult(content=[_content(lines)], structured_content=fields, is_error=is_failed)
        except ApplyError as error:
            told = error
        except Exception as error:
            kind = type(error).__name__
            # The message of an exception that is no ApplyError may quote the user's code, which must not be logged.
            log.error("edit crashed: %s\n%s", kind, "".join(traceback.format_tb(error.__traceback__)))
            remedy = "look at the file; see the server's log"
            told = EngineFailure(f"the edit failed ({kind})", value=kind, remedy=remedy)
        return protocol.CallToolResult(content=[_content(_error_lines(told))], is_error=True)

    return Server("apply-service", version=version("apply-service"), on_list_tools=list_tools, on_call_tool=call_tool)


def read_arguments(arguments: Mapping[str, Any]) -> EditCall:
    """Return the call with these arguments.  A null counts as not given.  Raises UnknownField, InvalidField or
    EmptyUpdate, which name the argument."""
    own = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}
    values: dict[str, Any] = {}
    for given, value in arguments.items():
        if given not in own:
            raise UnknownField(f"unknown argument {given!r}", value=given, limit=list(ALIASES), remedy="leave it out")
        if value is None:
            continue
        name = own[given]
        kinds, allowed = KINDS[PROPERTIES[name].get("type", name)]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            message = f"{name!r} must be {allowed}"
            raise InvalidField(message, value=value, limit=allowed, remedy=f"send {name} as {allowed}")
        if values.setdefault(name, value) != value:
            message = f"{name!r} is given twice, as different values"
            raise InvalidField(message, value=given, remedy="give it once")
    rules = values.get("on_verdict", {})
    if any(rule not in ("warn", "fail") for rule in rules.values()):
        message, allowed_rules = "'on_verdict' must map names of checks to warn or fail", {"CHECK": "warn or fail"}
        raise InvalidField(message, value=rules, limit=allowed_rules, remedy="mend it, or leave it out")
    if not values.get("path"):
        raise InvalidField("the argument 'path' is missing", value="path", remedy="name the file to edit")
    if not values.get("code_edit", "").strip():
        raise EmptyUpdate("there is no edit", value="code_edit", remedy="send the lines that change as code_edit")
    is_dry_run = values.pop("dryRun", False)
    if "reading" in values:
        values["reading"] = str(values["reading"])
    return EditCall(is_dry_run=is_dry_run, **{name: value for name, value in values.items() if value != ""})


# -- the answer --------------------------------------------------------------------------------------------------------
def _content(lines: Iterable[str]) -> protocol.TextContent:
    # Names of files may hold bytes that are not UTF-8, which JSON cannot carry.
    return protocol.TextContent(text="\n".join(lines).encode("utf-8", "backslashreplace").decode())


def _error_lines(error: ApplyError) -> Iterator[str]:
    yield f"error [{error.code}]: {error.message}"
    for name, value in (("value", error.value), ("limit", error.limit)):
        if value is not None:
            yield f"{name}: {shorten(value, MAX_VALUE_CHARS)}"
    if error.remedy:
        yield f"remedy: {error.remedy}"
    yield from _failure_lines(error.failures)


def _failure_lines(failures: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the place where each part does not fit, and the next call to make, which is a complete edit."""
    for one in failures:
        if one["line"] is not None:
            quoted, found = (shorten(one[name] or "", MAX_VALUE_CHARS) for name in ("quoted", "found"))
            yield f"{one['part']}: line {one['line']} is {found!r}, not {quoted!r}"
        elif places := ", ".join(str(place["first"]) for place in one["candidates"]):
            yield f"{one['part']}: it may belong to line {places}"
        if one["next"]:
            yield f"next: code_edit = {one['next']}"


def _lines(outcome: EditOutcome, *, is_alone: bool) -> Iterator[str]:
    path, result = outcome.path, outcome.result
    if outcome.status == "asked":
        yield from _question(outcome, is_alone=is_alone)
        if isinstance(result, ApplyResult):
            yield from _failure_lines([one.as_dict() for one in result.failures])
        return
    if isinstance(result, ApplyError):
        yield f"{path} was NOT written."
        yield from _error_lines(result)
        return
    would = "would be refused" if outcome.refused else "would be written"
    headline = {
        "written": f"Edited {path}.",
        "created": f"Created {path}.",
        "unchanged": f"{path} is unchanged: "
        + ("it has this edit already." if result.already_applied else "the edit is already there or says nothing."),
        "dry_run": f"Dry run: {path} {would}; nothing was.",
        "refused": f"{path} was NOT written: a check found an error in the result.",
    }[outcome.status]
    yield f"{headline} Decided by: {result.strategy}{f' ({result.model})' if result.model else ''}."
    yield from _findings(result, is_alone=is_alone)
    if outcome.refused:
        checks = json.dumps({verdict.check: "warn" for verdict in outcome.refused})
        yield f"Mend the edit; or, if the result below is right as it is, send it again with on_verdict {checks}."
    if result.diff:
        yield "\n" + _fenced(result.diff.removesuffix("\n"))


def _question(outcome: EditOutcome, *, is_alone: bool) -> Iterator[str]:
    """Yield what the edit may mean, and how the agent can say which reading is meant."""
    path, result, readings = outcome.path, outcome.result, outcome.readings
    asks = f"Which of these {len(readings)} readings of the edit is meant?" if readings[1:] else "Is this meant?"
    why = result.message if isinstance(result, ApplyError) else _doubt_of(result)
    yield f"{asks} {path} was NOT written: {why}"
    if isinstance(result, ApplyResult):
        yield from _findings(result, is_alone=is_alone, but=DOUBT)
    for name, one in readings:
        yield f"\nReading {name}{f' ({in_words(one.probability)})' if one.probability else ''}:"
        yield (
            _fenced("\n".join(short_diff(one.diff, outcome.original)))
            if one.diff
            else one.difference or "Nothing changes."
        )
    if not readings and isinstance(result, ApplyResult) and result.diff:
        yield "\n" + _fenced("\n".join(short_diff(result.diff, outcome.original)))
    name = " or ".join(name for name, _ in readings)
    takes = f"`reading`: {name}" if readings else '`on_verdict`: {"doubt": "warn"}'
    where = "the same arguments" if is_alone else f"the same code_edit, the path {path}"
    yield f"\nCall edit_file again with {where} and {takes}, to write it. If none is right, show more unchanged lines."


def _doubt_of(result: ApplyResult) -> str:
    """Return why the result is in doubt; empty if it is not."""
    return next((verdict.message for verdict in result.verdicts if verdict.check == DOUBT and not verdict.is_pass), "")


def _findings(result: ApplyResult, *, is_alone: bool, but: str = "") -> Iterator[str]:
    """Yield what the checks found, except the check named `but`."""
    for verdict in result.verdicts:
        if verdict.check == but or ((not is_alone) if verdict.check == OTHER_FILES else verdict.is_pass):
            continue
        place = ""
        if verdict.lines is not None:
            first, last = verdict.lines
            place = f" ({f'line {first}' if first == last else f'lines {first}-{last}'} of the {verdict.side} file)"
        yield f"{verdict.severity}: {verdict.check}: {verdict.message}{place}"


def _fenced(diff: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", diff)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{diff}\n{fence}"


def _fields(outcome: EditOutcome) -> dict[str, Any]:
    result, asked = outcome.result, {}
    if outcome.status == "asked":
        readings = [
            {"reading": name, **asdict(one), "diff": "\n".join(short_diff(one.diff or "", outcome.original))}
            for name, one in outcome.readings
        ]
        asked = {"readings": readings}
    if isinstance(result, ApplyError):
        error = {name: value for name, value in result.as_dict().items() if name != "readings"}
        return {"path": outcome.path, "status": outcome.status, "diff": "", "verdicts": [], "error": error, **asked}
    same = ("strategy", "model", "confidence", "confidence_kind", "source_sha256", "result_sha256", "encoding")
    return {
        "path": outcome.path,
        "status": outcome.status,
        "diff": result.diff or "",
        "certainty": str(result.certainty),
        **{name: getattr(result, name) for name in same},
        "verdicts": [{**asdict(v), "lines": None if v.lines is None else list(v.lines)} for v in result.verdicts],
        **asked,
    }
