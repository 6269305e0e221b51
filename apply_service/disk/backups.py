"""What `--in-place` overwrote or deleted, kept so that `undo` can bring it back.

For each edited file a folder of state holds the bytes before the last few edits and the hash of the bytes after them.
`undo` takes back the newest edit, and only if the file still is what that edit made of it.  Where several files change
together, `journal` rolls back with the same bytes.  The folder holds code, so only its owner can read it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from apply_service.disk.files import FileWrite, SourceFile, at_once, read_source, save_json, sha256_of, write_atomic
from apply_service.disk.journal import Journal
from apply_service.errors import FileChanged, FileNotWritable, InvalidField, NoBackup


class Backup(NamedTuple):
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

    def write_all(self, writes: Sequence[FileWrite]) -> None:
        """Carry out all of the writes or none, keeping what the files held.  Writes that change nothing are left out.
        Raises FileChanged, FileNotWritable: no file is changed; InvalidField: two of the writes are to the same
        file."""
        _refuse_doubles([write.source for write in writes])
        # Deletions last: until the very end, nothing is gone.
        writes = sorted((write for write in writes if write.is_change), key=lambda write: write.data is None)
        kept: dict[int, Path] = {}

        def keep(i: int) -> None:
            kept[i] = self._keep(writes[i])

        try:
            at_once(keep, len(writes))
            if len(writes) == 1:  # is all or nothing by itself
                with self._journal.locked():  # else another writer could be overtaken between check and replacement
                    write_atomic(writes[0].source, writes[0].data, mode=writes[0].mode)
            elif writes:
                self._journal.commit(writes, [kept[i] for i in range(len(writes))])
        except BaseException:
            if not self._journal.open_notes():  # else one may yet be rolled back with these bytes
                for entry in kept.values():
                    _discard(entry)
            raise
        for entry in kept.values():
            for old in _entries(entry.parent)[: -self._n_kept]:
                _discard(old)

    def undo(self, path: str | Path) -> Backup:
        """Take back the newest edit of the file.  Raises NoBackup: there is none left, or it is damaged; FileChanged:
        the file is not what the edit made of it."""
        source = read_source(path, needs_folder=False)
        for entry in reversed(_entries(self._folder(source))):
            try:
                backup = Backup(**json.loads(_note_path(entry).read_text(encoding="utf-8")))
                before = entry.read_bytes()
                if sha256_of(before) != backup.before_sha256:
                    raise ValueError("other bytes than were kept")
            except (OSError, ValueError, TypeError) as error:
                message = f"The newest backup of {source.path} is damaged; the file was left alone."
                remedy = f"What is left of the backups is in {entry.parent}."
                raise NoBackup(message, value=str(entry), remedy=remedy) from error
            held = backup.before_sha256 if backup.existed else None
            if held != source.sha256 or held == backup.after_sha256:
                break
            _discard(entry)  # its edit was never made, or rolled back
        else:
            message = f"There is no edit of {source.path} to take back."
            remedy = "Only edits made by --in-place can be undone."
            raise NoBackup(message, value=str(source.path), remedy=remedy)
        if source.sha256 != backup.after_sha256:
            message = f"{source.path} was changed after the edit; it was left alone."
            raise FileChanged(message, value=str(source.path), remedy=f"The bytes before the edit are in {entry}.")
        with self._journal.locked():
            write_atomic(source, before if backup.existed else None, mode=backup.mode)
        _discard(entry)
        return backup

    def _keep(self, write: FileWrite) -> Path:
        """Keep what the file holds; where."""
        source, folder = write.source, self._folder(write.source)
        after = None if write.data is None else sha256_of(write.data)
        mode = source.mode if write.data is None or write.mode is not None else None
        backup = Backup(str(source.target), source.exists, sha256_of(source.data), after, mode)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self._root, 0o700)
            number = max((int(entry.stem) for entry in _entries(folder)), default=0)
            while True:
                number += 1  # unless it is taken, by an edit that was killed or by another writer
                entry = folder / f"{number:08d}.bytes"
                with contextlib.suppress(FileExistsError), entry.open("xb") as file:
                    file.write(source.data)
                    file.flush()
                    os.fsync(file.fileno())
                    break
            save_json(_note_path(entry), backup._asdict())
        except OSError as error:
            message = f"Cannot keep a backup in {folder}: {error.strerror or error}. The file was left alone."
            remedy = "Set state_dir (--state-dir, APPLY_STATE_DIR) to a folder that can be written."
            raise FileNotWritable(message, value=str(folder), remedy=remedy) from error
        return entry

    def _folder(self, source: SourceFile) -> Path:
        return self._root / sha256_of(os.path.normcase(source.target).encode("utf-8", "surrogateescape"))[:32]


def _refuse_doubles(sources: Sequence[SourceFile]) -> None:
    """Raises InvalidField where two names are of one file: by the name, or by the file's number where there is one."""
    names: dict[object, Path] = {}
    for source in sources:
        identities: list[object] = [os.path.normcase(source.target)]
        with contextlib.suppress(OSError):
            number = source.target.stat()
            identities.append((number.st_dev, number.st_ino))
        for identity in identities:
            if identity in names:
                message, remedy = f"{names[identity]} and {source.path} are the same file.", "Change each file once."
                raise InvalidField(message, value=[str(names[identity]), str(source.path)], remedy=remedy)
        names |= dict.fromkeys(identities, source.path)


def _entries(folder: Path) -> list[Path]:
    """Complete backups, oldest first: those with a note."""
    return sorted(entry for entry in folder.glob("*.bytes") if _note_path(entry).is_file())


def _note_path(entry: Path) -> Path:
    return entry.with_suffix(".json")


def _discard(entry: Path) -> None:
    for path in (_note_path(entry), entry):
        path.unlink(missing_ok=True)
