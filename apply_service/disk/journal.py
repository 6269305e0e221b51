"""Several files written together: all of them or none, whatever happens in between.

A change set is noted in a journal on disk before its first file is touched: what each file was, where its old bytes are
kept, and what it is to become.  Then everything new is staged beside its place, and only renames and deletions are
left.  Removing the note completes the change set.  Whatever ends before that (an error, a file that someone else
changed, `kill -9`, a power cut) is rolled back: at once, or by the next command that writes (`recover`).

One lock for each state folder keeps change sets apart, so that a note found while the lock is free belongs to a process
that died.  `backups` keeps the old bytes.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from apply_service.disk import files
from apply_service.disk.files import FileWrite, read_source, sha256_of
from apply_service.errors import ApplyError, FileNotReadable, FileNotWritable

LOCK_TIMEOUT_S = 60.0
"""How long a change set waits for another to be written; that takes milliseconds a file."""


class FileState(NamedTuple):
    """What a file holds.  `sha256`: None where there is no file.  `mode`: permission bits; None for those that a file
    like it has anyway."""

    sha256: str | None
    mode: int | None


@dataclass(frozen=True, slots=True)
class FileStep:
    """What one file was and is to become.  `kept`: where its old bytes lie.  `temporary`: where the new are staged.

    The bytes that lie there now show what has been done: a note outlives the process that wrote it.
    """

    target: str
    before: FileState
    after: FileState
    kept: str
    temporary: str

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
        """Give the file back what it held, where that is still kept.  Raises FileError."""
        source = read_source(self.target, needs_folder=False)
        if self.before.sha256 is None:
            files.write_atomic(source, None)
        elif (data := self._old_bytes()) is not None:
            files.write_atomic(source, data, mode=self.before.mode, temporary=Path(self.temporary))

    def _is(self, state: FileState) -> bool:
        try:
            now = read_source(self.target, needs_folder=False)
        except FileNotReadable:
            return False
        # The mode counts only where both states have the same bytes.
        return now.sha256 == state.sha256 and (now.mode == state.mode or self.before.sha256 != self.after.sha256)

    def _old_bytes(self) -> bytes | None:
        """The bytes before; None where there was no file, or they are lost."""
        with contextlib.suppress(OSError):
            data = Path(self.kept).read_bytes()
            if self.before.sha256 == sha256_of(data):
                return data
        return None


@dataclass(frozen=True, slots=True)
class Note:
    """One change set in the journal.  `folders`: those that it creates, outermost first."""

    steps: tuple[FileStep, ...]
    folders: tuple[str, ...]
    started: str

    @classmethod
    def of(cls, writes: Sequence[FileWrite], kept: Sequence[Path], number: str) -> Note:
        steps = []
        for i, (write, place) in enumerate(zip(writes, kept, strict=True)):
            source, target = write.source, write.source.target
            before = FileState(source.sha256, source.mode)
            after = FileState(None if write.data is None else sha256_of(write.data), write.mode)
            temporary = files.temporary_beside(target, f"{number}-{i}")
            steps.append(FileStep(str(target), before, after, str(place), str(temporary)))
        parents = {parent for write in writes for parent in write.source.target.parents if write.data is not None}
        folders = tuple(str(parent) for parent in sorted(parents) if not parent.exists())
        return cls(tuple(steps), folders, datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def read(cls, path: Path) -> Note:
        """Raises FileNotReadable for what is not a note."""
        try:
            values = json.loads(path.read_text(encoding="ascii"))
            steps = [
                FileStep(**{**step, "before": FileState(*step["before"]), "after": FileState(*step["after"])})
                for step in values["steps"]
            ]
            return cls(tuple(steps), tuple(values["folders"]), values["started"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            message = f"The note of an interrupted change set is damaged ({type(error).__name__})."
            remedy = "Look at the files it names, then remove it."
            raise FileNotReadable(message, value=str(path), remedy=remedy) from error


@dataclass(frozen=True, slots=True)
class Recovery:
    """What became of an interrupted change set.  `conflicts`: files that somebody changed since; where there are any,
    nothing was touched, and the note stays in the journal."""

    note: str
    started: str
    restored: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


class Journal:
    """The change sets of one state folder."""

    def __init__(self, state_path: Path) -> None:
        self._folder = state_path / "journal"

    def commit(self, writes: Sequence[FileWrite], kept: Sequence[Path]) -> None:
        """Carry out all of the writes, in order, or none.  `kept`: where the bytes lie that each file holds now.
        Raises FileChanged, FileNotWritable: no file is changed, or the remedy says that some could not be rolled
        back."""
        with self.locked():
            number = secrets.token_hex(8)
            note, path = Note.of(writes, kept, number), self._folder / f"{number}.json"
            try:
                files.save_json(path, asdict(note))
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
                        files.publish(Path(step.temporary), write.source)
                folders = {write.source.target.parent for write in writes}
                for folder in folders | {Path(folder).parent for folder in note.folders}:
                    files.sync_folder(folder)
            except BaseException as error:
                begun = note.steps[:n_begun]
                # The last one may have failed before it changed its file, which may then be another writer's.
                done = [*begun[:-1], *(step for step in begun[-1:] if step.is_done)]
                if self._take_back(path, note, done).conflicts and isinstance(error, ApplyError):
                    error.remedy += " Some files could not be rolled back: see apply-service recover."
                raise
            self._remove(path)

    def recover(self) -> tuple[Recovery, ...]:
        """Roll back every change set that a dead process left.  Raises FileNotReadable, FileNotWritable: a note or a
        file cannot be used; the note stays."""
        if not self.open_notes():
            return ()
        recoveries = []
        with self.locked():
            for path in self.open_notes():
                note = Note.read(path)
                recoveries.append(self._take_back(path, note, note.steps))
        return tuple(recoveries)

    def forget(self) -> tuple[str, ...]:
        """Take every interrupted change set off the journal and leave its files as they are; the notes taken off."""
        with self.locked():
            notes = self.open_notes()
            for path in notes:
                with contextlib.suppress(FileNotReadable):
                    _clean(Note.read(path))
                self._remove(path)
        return tuple(str(path) for path in notes)

    def open_notes(self) -> list[Path]:
        """The notes of change sets that have not ended, whether their process lives or not, newest first."""
        times: dict[Path, int] = {}
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # its change set has ended meanwhile
                times[path] = path.stat().st_mtime_ns
        return sorted(times, key=lambda path: times[path], reverse=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While it is open, nobody else with this state folder writes.  Raises FileNotWritable: the folder can't be
        used, or others write for too long."""
        from filelock import FileLock, Timeout  # most commands never write

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self._folder / "lock")
            lock.acquire(timeout=LOCK_TIMEOUT_S)
        except Timeout as error:
            message, limit, remedy = "Other changes are being written.", LOCK_TIMEOUT_S, "Try again when they are done."
            raise FileNotWritable(message, value=str(self._folder / "lock"), limit=limit, remedy=remedy) from error
        except OSError as error:
            raise self._unusable(error) from error
        try:
            for draft in self._folder.glob("*.draft"):  # of a process that died while writing it
                draft.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def _take_back(self, path: Path, note: Note, steps: Sequence[FileStep]) -> Recovery:
        """Undo the steps that were done, the last one first, and end the change set.  Doing it twice does no harm."""
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
            remedy="Set state_dir (--state-dir, APPLY_STATE_DIR) to a folder that can be written.",
        )


def _stage(write: FileWrite, step: FileStep) -> None:
    if write.data is not None:
        files.make_folder(write.source)
        files.stage(Path(step.temporary), write.source, write.data, write.mode)


def _clean(note: Note) -> None:
    """Remove what was staged, and the folders that were created, where they are empty."""
    for step in note.steps:
        with contextlib.suppress(OSError):
            Path(step.temporary).unlink()
    for folder in reversed(note.folders):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
