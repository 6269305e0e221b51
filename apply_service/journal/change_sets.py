"""Several files written together: all of them or none, whatever happens in between.

A change set is noted in a journal on disk before its first file is touched: what each file was, where its bytes are
kept, and what it is to become.  Then everything new is staged beside its place, and only renames and deletions are
left.  The note's removal is the moment at which the change set stands.  Whatever ends before (an error, a file that
someone else changed, `kill -9`, a power cut) is rolled back: at once, or by the next command that writes (`recover`).

One lock for each state folder keeps change sets apart, so that what lies in the journal while the lock is free belongs
to a process that died.  `backups` keeps the bytes that the journal speaks of.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from apply_service.errors import ApplyError, FileNotReadable, FileNotWritable
from apply_service.files import FileWrite, make_folder, publish, refuse_if_changed, remove, stage, sync_folder
from apply_service.journal.note import FileState, Note, Step, sha256_of

LOCK_TIMEOUT_S = 60.0
"""How long a change set waits for another to be written; that takes milliseconds a file."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What became of an interrupted change set.  Where `conflicts` names files, somebody changed them since: nothing
    was touched, and the note stays in the journal."""

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

        Raises:
            FileChanged, FileNotWritable: no file is changed, or the remedy says that some could not be rolled back.
        """
        with self.locked():
            number = secrets.token_hex(8)
            steps = tuple(_step(write, place, number) for write, place in zip(writes, kept, strict=True))
            note = Note(steps, _missing_folders(writes))
            path = self._write(note, number)
            n_begun = 0
            try:
                for n_begun in _carry_out(writes, note):  # noqa: B007 - how far it came when an error ends it
                    pass
            except BaseException as error:
                if not self._undo(path, note, n_begun) and isinstance(error, ApplyError):
                    error.remedy += " Some files could not be rolled back: see apply-service recover."
                raise
            self._remove(path)

    def recover(self) -> tuple[Recovery, ...]:
        """Roll back every change set that a dead process left.

        Raises:
            FileNotReadable, FileNotWritable: a note or a file cannot be used; the note stays.
        """
        if not self.open_notes():
            return ()
        with self.locked():
            return tuple(self._recover(path) for path in self.open_notes())

    def forget(self) -> tuple[str, ...]:
        """Take every interrupted change set off the journal and leave its files as they are; the notes taken off."""
        with self.locked():
            forgotten = []
            for path in self.open_notes():
                with contextlib.suppress(FileNotReadable):
                    _clean(_read(path))
                self._remove(path)
                forgotten.append(str(path))
            return tuple(forgotten)

    def open_notes(self) -> list[Path]:
        """The notes of change sets that have not ended, dead or alive, newest first."""
        return sorted(self._folder.glob("*.json"), key=_written_ns, reverse=True)

    def needs(self, kept: Path) -> bool:
        """Whether a change set that has not ended may yet be rolled back with the bytes kept there.  A damaged note may
        name any bytes."""
        return any(_may_name(path, kept) for path in self.open_notes())

    # -- one change set ------------------------------------------------------------------------------------------------
    def _recover(self, path: Path) -> Recovery:
        note = _read(path)
        conflicts = tuple(step.target for step in note.steps if not step.can_be_undone)
        if conflicts:
            return Recovery(str(path), note.started, conflicts=conflicts)
        restored = _roll_back(note.steps)
        self._end(path, note)
        return Recovery(str(path), note.started, restored)

    def _undo(self, path: Path, note: Note, n_begun: int) -> bool:
        """Roll back a change set whose writing failed.  What cannot be rolled back stays noted for `recover`."""
        begun = note.steps[:n_begun]
        done = [*begun[:-1], *(step for step in begun[-1:] if step.is_done)]
        if not all(step.can_be_undone for step in done):
            return False
        _roll_back(done)
        self._end(path, note)
        return True

    def _end(self, path: Path, note: Note) -> None:
        _clean(note)
        self._remove(path)

    def _write(self, note: Note, number: str) -> Path:
        path = self._folder / f"{number}.json"
        draft = path.with_suffix(".draft")
        try:
            with draft.open("w", encoding="ascii") as file:
                json.dump(asdict(note), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            sync_folder(self._folder)
        except OSError as error:
            raise _no_journal(self._folder, error) from error
        return path

    def _remove(self, path: Path) -> None:
        path.unlink()
        sync_folder(self._folder)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While it is open, nobody else with this state folder writes.

        Raises:
            FileNotWritable: the folder can't be used, or others write for too long.
        """
        from filelock import FileLock, Timeout  # most commands never write

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self._folder / "lock")
            lock.acquire(timeout=LOCK_TIMEOUT_S)
        except Timeout as error:
            raise FileNotWritable(
                "Other changes are being written.",
                value=str(self._folder / "lock"),
                limit=LOCK_TIMEOUT_S,
                remedy="Try again when they are done.",
            ) from error
        except OSError as error:
            raise _no_journal(self._folder, error) from error
        try:
            for draft in self._folder.glob("*.draft"):  # of a process that died while writing it
                draft.unlink(missing_ok=True)
            yield
        finally:
            lock.release()


# -- writing -----------------------------------------------------------------------------------------------------------
def _step(write: FileWrite, kept: Path, number: str) -> Step:
    source, target = write.source, write.source.target
    before = FileState(sha256_of(source.data) if source.exists else None, source.mode)
    after = FileState(None if write.data is None else sha256_of(write.data), write.mode)
    # Without the number, two files that start alike could share a place.
    name = f".{target.name[:64]}.{number}.{sha256_of(os.fsencode(target))[:8]}.apply-tmp"
    return Step(str(target), before, after, str(kept), str(target.parent / name))


def _missing_folders(writes: Sequence[FileWrite]) -> tuple[str, ...]:
    parents = {parent for write in writes for parent in write.source.target.parents if write.data is not None}
    return tuple(str(parent) for parent in sorted(parents) if not parent.exists())


def _carry_out(writes: Sequence[FileWrite], note: Note) -> Iterator[int]:
    """Stage everything, then put it in place.  Yields how many steps may have been done, before each of them."""
    for write, step in zip(writes, note.steps, strict=True):
        if write.data is not None:
            make_folder(write.source)
            stage(Path(step.temporary), write.source, write.data, write.mode)
    for write in writes:
        refuse_if_changed(write.source)
    for number, (write, step) in enumerate(zip(writes, note.steps, strict=True), 1):
        yield number
        if write.data is None:
            remove(write.source)
        else:
            publish(Path(step.temporary), write.source)
    for folder in {write.source.target.parent for write in writes} | {Path(folder).parent for folder in note.folders}:
        sync_folder(folder)


# -- rolling back ------------------------------------------------------------------------------------------------------
def _roll_back(steps: Sequence[Step]) -> tuple[str, ...]:
    """Give the files back what they held, last one first; which had to be.  Doing it twice does no harm."""
    restored = []
    for step in reversed(steps):
        if not step.is_undone:
            step.undo()
            restored.append(step.target)
    return tuple(restored)


def _clean(note: Note) -> None:
    """Remove what was staged, and the folders that were created, where they are empty."""
    for step in note.steps:
        with contextlib.suppress(OSError):
            os.unlink(step.temporary)
    for folder in reversed(note.folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # its change set has ended meanwhile
        return 0


def _read(path: Path) -> Note:
    try:
        return Note.parse(path.read_text(encoding="ascii"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileNotReadable(
            f"The note of an interrupted change set is damaged ({type(error).__name__}).",
            value=str(path),
            remedy="Look at the files it names, then remove it.",
        ) from error


def _may_name(note: Path, kept: Path) -> bool:
    try:
        return any(step.kept == str(kept) for step in _read(note).steps)
    except FileNotReadable:
        return True


def _no_journal(folder: Path, error: OSError) -> FileNotWritable:
    return FileNotWritable(
        f"Cannot keep a journal in {folder}: {error.strerror or error}. No file was changed.",
        value=str(folder),
        remedy="Set state_dir (--state-dir, APPLY_STATE_DIR) to a folder that can be written.",
    )
