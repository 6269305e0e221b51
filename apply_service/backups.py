"""What `--in-place` overwrote or deleted, kept so that `undo` can bring it back.

A folder of state holds, for each file edited, the bytes before the last few edits and the hash of the bytes after them.
`undo` takes back the newest edit, and only if the file still is what that edit made of it.  Where several files change
together, the same bytes are what `journal` rolls back with.  The folder holds code, so it is readable by its owner
alone.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from apply_service.errors import FileChanged, FileNotWritable, InvalidField, NoBackup
from apply_service.files import (
    FileWrite,
    SourceFile,
    carry_out,
    make_folder,
    read_source,
    remove,
    sync_folder,
    write_atomic,
)
from apply_service.journal.change_sets import Journal, Recovery
from apply_service.journal.note import sha256_of


@dataclass(frozen=True, slots=True)
class Backup:
    """One edit that can be taken back."""

    path: str
    existed: bool
    before_sha256: str
    after_sha256: str | None
    """None: the edit deleted the file."""
    mode: int | None = None
    """Permission bits before the edit, where it changed them or deleted the file."""


class BackupStore:
    """The backups under one folder, which is created when the first is kept."""

    def __init__(self, state_path: Path, n_kept: int) -> None:
        self._root = state_path / "backups"
        self._n_kept = n_kept
        self._journal = Journal(state_path)

    def replace(self, source: SourceFile, data: bytes) -> None:
        """Write `data` over the file, keeping what it held.

        Raises:
            FileChanged, FileNotWritable: nothing was written.
        """
        self.write_all([FileWrite(source, data)])

    def write_all(self, writes: Sequence[FileWrite]) -> None:
        """Carry out all of the writes or none, keeping what the files held.  Writes that change nothing are left out.

        Raises:
            FileChanged, FileNotWritable: no file is changed.
            InvalidField: two of the writes are to the same file.
        """
        _refuse_doubles(writes)
        # Deletions last: until the very end, nothing is gone.
        writes = sorted((write for write in writes if write.is_change), key=lambda write: write.data is None)
        kept: list[Path] = []
        try:
            kept += (self._keep(write) for write in writes)
            if len(writes) == 1:
                with self._journal.locked():  # else another writer could be overtaken between check and replacement
                    carry_out(writes[0])  # is all or nothing by itself
            elif writes:
                self._journal.commit(writes, kept)
        except BaseException:
            for entry in kept:
                if not self._journal.needs(entry):
                    _discard(entry)
            raise
        for entry in kept:
            self._prune(entry.parent)

    def recover(self) -> tuple[Recovery, ...]:
        """Roll back what a process that died had begun to write.  Raises FileError."""
        return self._journal.recover()

    def undo(self, path: str | Path) -> Backup:
        """Take back the newest edit of the file.

        Raises:
            NoBackup: there is none left, or it is damaged.
            FileChanged: the file is not what the edit made of it.
        """
        source = read_source(path, needs_folder=False)
        entry, backup, before = self._newest(source)
        if _held(source) != backup.after_sha256:
            raise FileChanged(
                f"{source.path} was changed after the edit; it was left alone.",
                value=str(source.path),
                remedy=f"The bytes before the edit are in {entry}.",
            )
        with self._journal.locked():
            if backup.existed:
                make_folder(source)
                write_atomic(source, before, mode=backup.mode)
            else:
                remove(source)
        _discard(entry)
        return backup

    def _keep(self, write: FileWrite) -> Path:
        source = write.source
        after = None if write.data is None else sha256_of(write.data)
        mode = source.mode if write.data is None or write.mode is not None else None
        backup = Backup(str(source.target), source.exists, sha256_of(source.data), after, mode)
        folder = self._folder(source)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self._root, 0o700)
            entry = _write_new(folder, source.data)
            _write_note(entry, backup)
        except OSError as error:
            raise FileNotWritable(
                f"Cannot keep a backup in {folder}: {error.strerror or error}. The file was left alone.",
                value=str(folder),
                remedy="Set state_dir (--state-dir, APPLY_STATE_DIR) to a folder that can be written.",
            ) from error
        return entry

    def _newest(self, source: SourceFile) -> tuple[Path, Backup, bytes]:
        for entry in reversed(_entries(self._folder(source))):
            backup, before = _read(entry, source)
            if not _was_interrupted(backup, source):
                return entry, backup, before
            _discard(entry)
        raise NoBackup(
            f"There is no edit of {source.path} to take back.",
            value=str(source.path),
            limit=self._n_kept,
            remedy="Only edits made by --in-place can be undone.",
        )

    def _prune(self, folder: Path) -> None:
        for entry in _entries(folder)[: -self._n_kept]:
            _discard(entry)

    def _folder(self, source: SourceFile) -> Path:
        return self._root / sha256_of(os.path.normcase(source.target).encode("utf-8", "surrogateescape"))[:32]


def _refuse_doubles(writes: Sequence[FileWrite]) -> None:
    names: dict[object, Path] = {}
    for write in writes:
        for name in _identities(write.source.target):
            if name in names:
                raise InvalidField(
                    f"{names[name]} and {write.source.path} are the same file.",
                    value=[str(names[name]), str(write.source.path)],
                    remedy="Change each file once.",
                )
        names |= dict.fromkeys(_identities(write.source.target), write.source.path)


def _identities(target: Path) -> list[object]:
    """What tells that two names are of one file: the name itself, and the file's number where there is one."""
    identities: list[object] = [os.path.normcase(target)]
    with contextlib.suppress(OSError):
        number = target.stat()
        identities.append((number.st_dev, number.st_ino))
    return identities


def _held(source: SourceFile) -> str | None:
    return sha256_of(source.data) if source.exists else None


def _was_interrupted(backup: Backup, source: SourceFile) -> bool:
    """Whether the process died after keeping the backup and before changing the file, or was rolled back."""
    before = backup.before_sha256 if backup.existed else None
    return before == _held(source) and before != backup.after_sha256


def _read(entry: Path, source: SourceFile) -> tuple[Backup, bytes]:
    """What the note says, and the bytes it speaks of."""
    try:
        backup = Backup(**json.loads(_note_path(entry).read_text(encoding="utf-8")))
        before = entry.read_bytes()
        if sha256_of(before) != backup.before_sha256:
            raise ValueError("other bytes than were kept")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NoBackup(
            f"The newest backup of {source.path} is damaged; the file was left alone.",
            value=str(entry),
            remedy=f"What is left of the backups is in {entry.parent}.",
        ) from error
    return backup, before


def _write_new(folder: Path, data: bytes) -> Path:
    numbers = [int(entry.stem) for entry in _entries(folder)]
    number = max(numbers, default=0) + 1
    while True:
        entry = folder / f"{number:08d}.bytes"
        with contextlib.suppress(FileExistsError), entry.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return entry
        number += 1


def _write_note(entry: Path, backup: Backup) -> None:
    """The note makes the backup complete, so it appears whole."""
    draft = entry.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(asdict(backup), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, _note_path(entry))
    sync_folder(entry.parent)


def _entries(folder: Path) -> list[Path]:
    """Complete backups, oldest first."""
    return sorted(entry for entry in folder.glob("*.bytes") if _note_path(entry).is_file())


def _note_path(entry: Path) -> Path:
    return entry.with_suffix(".json")


def _discard(entry: Path) -> None:
    for path in (_note_path(entry), entry):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
