"""One edit of a file on disk: read, applied, judged, written.

The file must lie in an allowed folder, is written only where no check found an error (or the caller accepts it), only
if it still is as it was read, and wholly or not at all.  Edits of one file wait for each other, so that an agent may
send several at once.  What the file held is kept for `apply-service undo`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from apply_service.backups import BackupStore
from apply_service.edits.envelope import is_same_file
from apply_service.edits.fidelity import SourceText, decode, encode, normalise
from apply_service.edits.markers import is_marker
from apply_service.edits.reply import named_files
from apply_service.errors import ApplyError, FileNotReadable, TooLarge
from apply_service.files import FileWrite, SourceFile, read_source
from apply_service.mcp.arguments import EditCall
from apply_service.roots import Roots
from apply_service.types import ApplyRequest, ApplyResult, Strategy, Verdict
from apply_service.verdict_rules import is_refused

Apply = Callable[[ApplyRequest], Awaitable[ApplyResult]]
EditStatus = Literal["written", "created", "unchanged", "dry_run", "refused"]


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """What became of a call."""

    path: str
    status: EditStatus
    result: ApplyResult
    refused: tuple[Verdict, ...] = ()
    """Findings that stand against writing the result: why it was refused, or would be."""


@dataclass(frozen=True, slots=True)
class FailedEdit:
    """Another file of a reply that could not be edited."""

    path: str
    error: ApplyError


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
        """`max_bytes`: larger files are refused unread."""
        self._max_bytes = max_bytes
        self._roots = roots
        self._apply = apply
        self._store = store
        self._strategy: Strategy = strategy
        self._locks: dict[Path, tuple[anyio.Lock, int]] = {}

    async def edit_all(self, call: EditCall) -> tuple[EditOutcome, list[EditOutcome | FailedEdit]]:
        """Carry out one call on its own file and, where the edit is a reply over several files with this one among
        them, on the others; each file for itself.

        Raises:
            ApplyError: the call's own file could not be edited; the others were left alone.
        """
        own = await self.edit(call)
        others: list[EditOutcome | FailedEdit] = []
        for path in await anyio.to_thread.run_sync(_other_files, call):
            try:
                others.append(await self.edit(replace(call, path=path, base_sha256=None)))
            except ApplyError as error:
                others.append(FailedEdit(path, error))
        return own, others

    async def edit(self, call: EditCall) -> EditOutcome:
        """Carry out one call.

        Raises:
            OutsideRoots, InvalidField, TooLarge: the file may not be edited.
            FileNotReadable, BadEncoding, FileChanged, FileNotWritable: it cannot be; nothing was written.
            ApplyError: the edit cannot be applied.
        """
        target = self._roots.resolve(call.path)
        async with self._alone(target):
            source = await anyio.to_thread.run_sync(self._read, target)
            await anyio.to_thread.run_sync(_refuse_gaps_of_nothing, source, call)
            text = decode(source.data, call.encoding)
            result = await self._apply(self._request(call, target, text))
            outcome = _judge(call, source, result)
            if outcome.status in ("written", "created"):
                await anyio.to_thread.run_sync(self._write, source, result, text)
        return outcome

    def _read(self, target: Path) -> SourceFile:
        with contextlib.suppress(OSError):  # no such file, or one that reading it says more about
            if (n_bytes := target.stat().st_size) > self._max_bytes:
                raise TooLarge(
                    "The file is too large.", value=n_bytes, limit=self._max_bytes, remedy="Edit it by other means."
                )
        return read_source(target, needs_folder=False)

    def _request(self, call: EditCall, target: Path, text: SourceText) -> ApplyRequest:
        root = next(root for root in self._roots.folders if target.is_relative_to(root))
        return ApplyRequest(
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

    def _write(self, source: SourceFile, result: ApplyResult, text: SourceText) -> None:
        data = encode(result.merged_code, replace(text, encoding=result.encoding))
        self._store.write_all([FileWrite(source, data)])

    @asynccontextmanager
    async def _alone(self, target: Path) -> AsyncIterator[None]:
        """No other edit of the same file meanwhile."""
        lock, n_waiting = self._locks.get(target, (anyio.Lock(), 0))
        self._locks[target] = (lock, n_waiting + 1)
        try:
            async with lock:
                yield
        finally:
            n_waiting = self._locks[target][1] - 1
            self._locks[target] = (lock, n_waiting)
            if n_waiting == 0:
                del self._locks[target]


def _other_files(call: EditCall) -> list[str]:
    """The other files that the edit names, where the call's own is one of those."""
    named = named_files(normalise(call.code_edit))
    others = [name for name in named if not is_same_file(name, call.path)]
    return others if len(others) < len(named) else []


def _refuse_gaps_of_nothing(source: SourceFile, call: EditCall) -> None:
    """A snippet that leaves out existing code is meant for a file that exists: its name is wrong."""
    if not source.exists and any(is_marker(line) for line in normalise(call.code_edit).split("\n")):
        raise FileNotReadable(
            f"{call.path} does not exist, but the edit leaves out existing code.",
            value=str(source.target),
            remedy="Correct the path, or send the whole new file without markers.",
        )


def _judge(call: EditCall, source: SourceFile, result: ApplyResult) -> EditOutcome:
    refused = tuple(v for v in result.verdicts if is_refused(v.check, v.severity, call.on_verdict))
    if call.is_dry_run:
        status: EditStatus = "dry_run"
    elif refused:
        status = "refused"
    elif not source.exists:
        status = "created"
    else:
        status = "written" if result.edits else "unchanged"
    return EditOutcome(call.path, status, result, refused)
