"""One edit of a file on disk: read, applied, judged, written.

The file must lie in an allowed folder, is written only where no check found an error (or the caller accepts it), only
if it still is as it was read, and wholly or not at all.  Edits of one file wait for each other, so that an agent may
send several at once.  What the file held is kept for `apply-service undo`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, SourceFile, read_source
from apply_service.disk.paths import Roots
from apply_service.edits.envelope import is_same_file
from apply_service.edits.fidelity import decode, encode, normalise
from apply_service.edits.markers import is_marker
from apply_service.edits.reply import named_files
from apply_service.errors import ApplyError, FileNotReadable, TooLarge
from apply_service.types import ApplyRequest, ApplyResult, Strategy, Verdict, is_refused

Apply = Callable[[ApplyRequest], Awaitable[ApplyResult]]
EditStatus = Literal["written", "created", "unchanged", "dry_run", "refused"]


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
        self._roots = roots
        self._apply = apply
        self._store = store
        self._strategy: Strategy = strategy
        self._max_bytes = max_bytes
        self._locks: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()

    async def edit_all(self, call: EditCall) -> tuple[EditOutcome, list[EditOutcome | FailedEdit]]:
        """Carry out one call on its own file and, where the edit is a reply over several files with this one among
        them, on the others; each file for itself.

        Raises:
            ApplyError: the call's own file could not be edited; the others were left alone.
        """
        own = await self._edit(call)
        named = await anyio.to_thread.run_sync(named_files, normalise(call.code_edit))
        paths = [name for name in named if not is_same_file(name, call.path)]
        others: list[EditOutcome | FailedEdit] = []
        for path in paths if len(paths) < len(named) else ():
            try:
                others.append(await self._edit(replace(call, path=path, base_sha256=None)))
            except ApplyError as error:
                others.append(FailedEdit(path, error))
        return own, others

    async def _edit(self, call: EditCall) -> EditOutcome:
        """Carry out one call on one file, while no other edit of it runs.  Raises ApplyError: nothing was written."""
        target = self._roots.resolve(call.path)
        lock = self._locks.setdefault(target, anyio.Lock())
        async with lock:
            source = await anyio.to_thread.run_sync(self._read, target)
            # A snippet that leaves out existing code is meant for a file that exists: its name is wrong.
            if not source.exists and await anyio.to_thread.run_sync(_has_marker, call.code_edit):
                raise FileNotReadable(
                    f"{call.path} does not exist, but the edit leaves out existing code",
                    value=str(source.target),
                    remedy="correct the path, or send the whole new file without markers",
                )
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
            status: EditStatus = "written" if result.edits else "unchanged"
            if call.is_dry_run:
                status = "dry_run"
            elif refused:
                status = "refused"
            elif not source.exists:
                status = "created"
            if status in ("written", "created"):
                data = encode(result.merged_code, replace(text, encoding=result.encoding))
                await anyio.to_thread.run_sync(self._store.write_all, [FileWrite(source, data)])
        return EditOutcome(call.path, status, result, refused)

    def _read(self, target: Path) -> SourceFile:
        with contextlib.suppress(OSError):  # no such file, or one that reading it says more about
            if (n_bytes := target.stat().st_size) > self._max_bytes:
                remedy = "edit it by other means"
                raise TooLarge("the file is too large", value=n_bytes, limit=self._max_bytes, remedy=remedy)
        return read_source(target, needs_folder=False)


def _has_marker(code_edit: str) -> bool:
    """Whether it leaves out existing code.  In the length of the edit: not for the event loop."""
    return any(map(is_marker, normalise(code_edit).split("\n")))
