"""Writes several files together: all of them or none, whatever happens in between.

A change set is noted in a journal on disk before its first file is touched.  This record is called a note.  It says
what each file was, where the file's old bytes are kept, and what the file shall become.  Then all new bytes are staged
beside their places, and only renames and deletions are left.  Removing the note completes the change set.  If anything
ends the change set before that (an error, a file that someone else changed, `kill -9`, a power cut), it is rolled back:
at once, or by the next command that writes (`recover`).

One lock for each state folder keeps change sets apart.  So a note that is found while the lock is free belongs to a
process that died.  `backups` keeps the old bytes.

A note is not trusted merely because it lies in the journal.  It names only files below the roots that it was made for.
The places of their old and new bytes follow from these names.  Each name is checked again when the note is read, with
links followed as they are then.  A note that fails a check is renamed and never acted on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from apply_service.disk import files
from apply_service.disk.files import FileWrite, Owner, read_source, sha256_of
from apply_service.disk.paths import Roots
from apply_service.disk.state import open_private, private_folder
from apply_service.errors import ApplyError, FileNotReadable, FileNotWritable

LOCK_TIMEOUT_S = 60.0
"""How long a change set waits while others are written.  Writing takes milliseconds a file."""
REJECTED = ".rejected"
"""The end of the name of a note that failed a check."""


class FileState(NamedTuple):
    """What a file holds.  `sha256`: None if there is no file.  `mode`: permission bits; None for the usual permissions.
    `owner`: None if the file need not be given to anybody."""

    sha256: str | None
    mode: int | None
    owner: Owner | None = None

    @classmethod
    def read(cls, values: Any) -> Self:
        """Return the state in these values of a note.  Raises ValueError or TypeError if the values are not a state."""
        sha256, mode, owner = values
        if not (sha256 is None or re.fullmatch("[0-9a-f]{64}", sha256)):
            raise ValueError("a hash is not one")
        return cls(sha256, read_mode(mode), read_owner(owner))


def read_mode(value: Any) -> int | None:
    """Return the permission bits in a value of a note.  Raises ValueError."""
    if value is None or (type(value) is int and 0 <= value <= 0o7777):
        return value
    raise ValueError("no permission bits")


def read_owner(value: Any) -> Owner | None:
    """Return the owner in a value of a note.  Raises ValueError, TypeError."""
    if value is None:
        return None
    uid, gid = value
    if type(uid) is int and type(gid) is int and min(uid, gid) >= 0:  # -1 would leave the owner as it is
        return Owner(uid, gid)
    raise ValueError("no owner")


def kept_folder(state: Path, target: Path) -> tuple[Path, str, str]:
    """Return the place where the old bytes of a file are kept: the state folder, and the names of the folders below
    it."""
    return state, "backups", sha256_of(os.path.normcase(target).encode("utf-8", "surrogateescape"))[:32]


@dataclass(frozen=True, slots=True)
class FileStep:
    """What one file was and shall become.  `kept`: where its old bytes lie.  `temporary`: where its new bytes are
    staged.

    A note outlives the process that wrote it.  So the bytes in the file now, and not the note, tell what has been done.
    """

    target: str
    before: FileState
    after: FileState
    kept: Path
    temporary: Path

    @property
    def is_undone(self) -> bool:
        """Whether the file is as the change set found it."""
        return self._is(self.before)

    @property
    def is_done(self) -> bool:
        """Whether the file is as the change set made it."""
        return self._is(self.after)

    @property
    def can_be_undone(self) -> bool:
        return self.is_undone or (self.is_done and (self.before.sha256 is None or self._old_bytes() is not None))

    def undo(self) -> None:
        """Give the file its old bytes back.  Nothing happens if these are lost.  Raises FileError."""
        source = read_source(self.target, needs_folder=False)
        if self.before.sha256 is None:
            files.write_atomic(source, None)
        elif (data := self._old_bytes()) is not None:
            mode, owner = self.before.mode, self.before.owner
            files.write_atomic(source, data, mode=mode, owner=owner, temporary=self.temporary)

    def _is(self, state: FileState) -> bool:
        try:
            now = read_source(self.target, needs_folder=False)
        except FileNotReadable:
            return False
        # The mode counts only if both states have the same bytes.
        return now.sha256 == state.sha256 and (now.mode == state.mode or self.before.sha256 != self.after.sha256)

    def _old_bytes(self) -> bytes | None:
        """Return the old bytes; None if there was no file or the bytes are lost."""
        with contextlib.suppress(OSError), open(open_private(self.kept, os.O_RDONLY), "rb") as file:
            data = file.read()
            if self.before.sha256 == sha256_of(data):
                return data
        return None


@dataclass(frozen=True, slots=True)
class Note:
    """One change set in the journal.  `roots`: the folders that its files lie in.  `folders`: the folders that it
    creates, outermost first."""

    steps: tuple[FileStep, ...]
    folders: tuple[str, ...]
    started: str
    roots: tuple[str, ...]

    @classmethod
    def of(cls, writes: Sequence[FileWrite], kept: Sequence[Path], number: str, roots: Sequence[Path]) -> Note:
        steps = []
        for i, (write, place) in enumerate(zip(writes, kept, strict=True)):
            source, target = write.source, write.source.target
            before = FileState(source.sha256, source.mode, source.owner)
            after = FileState(None if write.data is None else sha256_of(write.data), write.mode)
            steps.append(FileStep(str(target), before, after, place, _temporary(target, number, i)))
        parents = {parent for write in writes for parent in write.source.target.parents if write.data is not None}
        folders = tuple(str(parent) for parent in sorted(parents) if not parent.exists())
        return cls(tuple(steps), folders, datetime.now(UTC).isoformat(timespec="seconds"), tuple(map(str, roots)))

    def save(self, path: Path) -> None:
        """Write the note to the journal.  Raises OSError."""
        steps = [{"target": s.target, "before": s.before, "after": s.after, "kept": s.kept.name} for s in self.steps]
        values = {"roots": self.roots, "started": self.started, "folders": self.folders, "steps": steps}
        files.save_json(path, values)

    @classmethod
    def read(cls, path: Path, state: Path, guarded: Sequence[Path]) -> Note:
        """Return the note after checking each of its names again; `guarded` are places that no edit may touch.  Raises
        FileNotReadable if a check fails."""
        try:
            with open(open_private(path, os.O_RDONLY), encoding="ascii") as file:
                values = json.load(file)
            roots = Roots(values["roots"], [state, *guarded])
            if list(map(str, roots.folders)) != values["roots"]:
                raise ValueError("an allowed folder is reached through a link")
            steps = []
            for i, step in enumerate(values["steps"]):
                target = roots.resolve(step["target"])
                if str(target) != step["target"] or not re.fullmatch(r"\d{8,}\.bytes", step["kept"]):
                    raise ValueError("a file is not named by its full path")
                kept = Path(*kept_folder(state, target), step["kept"])
                before, after = FileState.read(step["before"]), FileState.read(step["after"])
                steps.append(FileStep(str(target), before, after, kept, _temporary(target, path.stem, i)))
            above = {parent for step in steps for parent in Path(step.target).parents}
            for folder in values["folders"]:
                if str(roots.resolve(folder)) != folder or Path(folder) not in above - set(roots.folders):
                    raise ValueError("a folder holds none of its files")
            return cls(tuple(steps), tuple(values["folders"]), str(values["started"]), tuple(values["roots"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ApplyError) as error:
            why = error.message if isinstance(error, ApplyError) else f"{type(error).__name__}: {error}"
            message = f"A note about an interrupted edit is damaged: {why}"
            raise FileNotReadable(message, value=str(path), remedy=f"Look at {path}, then remove it.") from error


def _temporary(target: Path, number: str, i: int) -> Path:
    return files.temporary_beside(target, f"{number}-{i}")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What became of an interrupted change set.  `conflicts`: files that somebody has changed since.  If there are such
    files, nothing was touched, and the note stays in the journal.  `rejected`: why the note was renamed and not acted
    on."""

    note: str
    started: str
    restored: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    rejected: str = ""


class Journal:
    """The change sets of one state folder."""

    def __init__(self, state_path: Path, guarded: Sequence[Path] = ()) -> None:
        """`guarded`: places, besides the state folder itself, where no change set is rolled back."""
        self._state = state_path
        self._folder = state_path / "journal"
        self._guarded = guarded

    def commit(self, writes: Sequence[FileWrite], kept: Sequence[Path], roots: Sequence[Path]) -> None:
        """Carry out all of the writes, in order, or none, while the journal is `locked`.  `kept`: where each file's
        present bytes are kept.  `roots`: the folders that the files lie in.  Raises FileChanged or FileNotWritable; in
        both cases no file is changed, unless the remedy says that some files could not be rolled back."""
        number = secrets.token_hex(8)
        note, path = Note.of(writes, kept, number, roots), self._folder / f"{number}.json"
        try:
            note.save(path)
        except OSError as error:
            raise self._unusable(error) from error
        n_begun = 0
        try:
            files.at_once(lambda i: _stage(writes[i], note.steps[i]), len(writes))
            for write in writes:
                files.refuse_if_changed(write.source)
            for n_begun, (write, step) in enumerate(zip(writes, note.steps, strict=True), 1):  # noqa: B007
                if write.data is None:
                    files.remove(write.source)
                else:
                    files.publish(step.temporary, write.source)
            folders = {write.source.target.parent for write in writes}
            for folder in folders | {Path(folder).parent for folder in note.folders}:
                files.sync_folder(folder)
        except BaseException as error:
            begun = note.steps[:n_begun]
            # The last step may have failed before it changed its file.  That file may be another writer's by now.
            done = [*begun[:-1], *(step for step in begun[-1:] if step.is_done)]
            if self._take_back(path, note, done).conflicts and isinstance(error, ApplyError):
                error.remedy += " Some files could not be rolled back: see apply-service recover."
            raise
        self._remove(path)

    def recover(self) -> tuple[Recovery, ...]:
        """Roll back every change set that a dead process left; a note that fails a check is renamed.  Raises FileError
        if a file or the journal cannot be used; in that case the note stays."""
        if not self.open_notes():
            return ()
        recoveries = []
        with self.locked():
            for path in self.open_notes():
                try:
                    note = Note.read(path, self._state, self._guarded)
                except FileNotReadable as error:
                    aside = path.with_name(path.name + REJECTED)
                    try:
                        os.replace(path, aside)
                    except OSError as fault:
                        raise self._unusable(fault) from fault
                    recoveries.append(Recovery(str(aside), "", rejected=error.message))
                else:
                    recoveries.append(self._take_back(path, note, note.steps))
        return tuple(recoveries)

    def forget(self) -> tuple[str, ...]:
        """Take every interrupted change set off the journal and leave its files as they are.  Return their notes."""
        with self.locked():
            notes = self.open_notes()
            for path in notes:
                with contextlib.suppress(FileNotReadable):
                    _clean(Note.read(path, self._state, self._guarded))
                self._remove(path)
        return tuple(str(path) for path in notes)

    def open_notes(self) -> list[Path]:
        """Return the notes of change sets that have not ended, whether their process lives or not, newest first."""
        times: dict[Path, int] = {}
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # its change set has ended since
                times[path] = path.lstat().st_mtime_ns
        return sorted(times, key=lambda path: times[path], reverse=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others who use this state folder from writing while the block runs.  Raises FileNotWritable if the
        folder can't be used, or others write for too long."""
        from filelock import FileLock, Timeout  # imported late, because most commands never write

        try:
            folder = private_folder(self._state, "journal")
            os.close(open_private(folder / "lock", os.O_RDWR | os.O_CREAT))  # the library would follow a link
            lock = FileLock(folder / "lock")
            lock.acquire(timeout=LOCK_TIMEOUT_S)
        except Timeout as error:
            message, limit = "Another apply-service process is writing files.", LOCK_TIMEOUT_S
            remedy = "Try again when it has finished."
            raise FileNotWritable(message, value=str(self._folder / "lock"), limit=limit, remedy=remedy) from error
        except OSError as error:
            raise self._unusable(error) from error
        try:
            for draft in self._folder.glob("*.draft"):  # left from a process that died while writing it
                draft.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def _take_back(self, path: Path, note: Note, steps: Sequence[FileStep]) -> Recovery:
        """Undo the steps that were carried out, the last one first, and end the change set.  A second call does no
        harm."""
        if conflicts := tuple(step.target for step in steps if not step.can_be_undone):
            return Recovery(str(path), note.started, conflicts=conflicts)
        restored = [step for step in reversed(steps) if not step.is_undone]
        for step in restored:
            step.undo()
        _clean(note)
        self._remove(path)
        return Recovery(str(path), note.started, restored=tuple(step.target for step in restored))

    def _remove(self, path: Path) -> None:
        path.unlink()
        files.sync_folder(self._folder)

    def _unusable(self, error: OSError) -> FileNotWritable:
        return FileNotWritable(
            f"Cannot keep a journal in {self._folder}: {error.strerror or error}. No file was changed.",
            value=str(self._folder),
            remedy="Set state_dir (--state-dir, APPLY_SERVICE_STATE_DIR) to a folder that can be written.",
        )


def _stage(write: FileWrite, step: FileStep) -> None:
    if write.data is not None:
        files.refuse_if_changed(write.source)  # this also fails if a folder above has become a link
        files.make_folder(write.source)
        files.stage(step.temporary, write.source, write.data, write.mode, write.owner)


def _clean(note: Note) -> None:
    """Remove what was staged, and the created folders that are empty."""
    for step in note.steps:
        with contextlib.suppress(OSError):
            step.temporary.unlink()
    for folder in reversed(note.folders):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
