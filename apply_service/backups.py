"""What `--in-place` overwrote, kept so that `undo` can bring it back.

A folder of state holds, for each file edited, the bytes before the last few edits and the hash of the bytes after them.
`undo` takes back the newest edit, and only if the file still is what that edit made of it.  The folder holds code, so
it is readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from apply_service.errors import FileChanged, FileNotWritable, NoBackup
from apply_service.files import SourceFile, read_source, remove, write_atomic


@dataclass(frozen=True, slots=True)
class Backup:
    """One edit that can be taken back."""

    path: str
    existed: bool
    before_sha256: str
    after_sha256: str


class BackupStore:
    """The backups under one folder, which is created when the first is kept."""

    def __init__(self, state_path: Path, n_kept: int) -> None:
        self._root = state_path / "backups"
        self._n_kept = n_kept

    def replace(self, source: SourceFile, data: bytes) -> None:
        """Write `data` over the file, keeping what it held.

        Raises:
            FileChanged, FileNotWritable: nothing was written.
        """
        kept = self._keep(source, data)
        try:
            write_atomic(source, data)
        except BaseException:
            _discard(kept)
            raise
        self._prune(kept.parent)

    def undo(self, path: str | Path) -> Backup:
        """Take back the newest edit of the file.

        Raises:
            NoBackup: there is none left, or it is damaged.
            FileChanged: the file is not what the edit made of it.
        """
        source = read_source(path)
        entry, backup, before = self._newest(source)
        if not source.exists or _sha256(source.data) != backup.after_sha256:
            raise FileChanged(
                f"{source.path} was changed after the edit; it was left alone.",
                value=str(source.path),
                remedy=f"The bytes before the edit are in {entry}.",
            )
        if backup.existed:
            write_atomic(source, before)
        else:
            remove(source)
        _discard(entry)
        return backup

    def _keep(self, source: SourceFile, data: bytes) -> Path:
        backup = Backup(str(source.target), source.exists, _sha256(source.data), _sha256(data))
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
        return self._root / _sha256(os.path.normcase(source.target).encode("utf-8", "surrogateescape"))[:32]


def _was_interrupted(backup: Backup, source: SourceFile) -> bool:
    """Whether the process died after keeping the backup and before replacing the file."""
    is_as_before = backup.existed == source.exists and backup.before_sha256 == _sha256(source.data)
    return is_as_before and backup.before_sha256 != backup.after_sha256


def _read(entry: Path, source: SourceFile) -> tuple[Backup, bytes]:
    """What the note says, and the bytes it speaks of."""
    try:
        backup = Backup(**json.loads(_note_path(entry).read_text(encoding="utf-8")))
        before = entry.read_bytes()
        if _sha256(before) != backup.before_sha256:
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
    draft.write_text(json.dumps(asdict(backup)), encoding="utf-8")
    os.replace(draft, _note_path(entry))


def _entries(folder: Path) -> list[Path]:
    """Complete backups, oldest first."""
    return sorted(entry for entry in folder.glob("*.bytes") if _note_path(entry).is_file())


def _note_path(entry: Path) -> Path:
    return entry.with_suffix(".json")


def _discard(entry: Path) -> None:
    for path in (_note_path(entry), entry):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
