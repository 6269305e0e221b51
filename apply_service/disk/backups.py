"""Keeps what `--in-place` overwrote or deleted, so that `undo` can bring it back.

Each edited file has a folder in the state folder.  It holds the bytes before each of the last few edits, and the hash
of the bytes after each.  `undo` takes back the newest edit, but only if the file is still as that edit left it.
`undo_all` does the same for every file that was written together with that one.  When several files change together,
`journal` uses the same bytes to roll the changes back.  The folder holds code, so only its owner can read it, and no
edit may write to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from apply_service.disk.files import (
    FileWrite,
    Owner,
    SourceFile,
    at_once,
    read_source,
    refuse_read_only,
    save_json,
    sha256_of,
    write_atomic,
)
from apply_service.disk.journal import Journal, kept_folder, read_mode, read_owner
from apply_service.disk.paths import Roots, lies_in
from apply_service.disk.state import open_private, private_folder
from apply_service.errors import FileChanged, FileError, FileNotWritable, InvalidField, NoBackup, OutsideRoots


class Backup(NamedTuple):
    """One edit that can be taken back."""

    path: str
    existed: bool
    before_sha256: str
    after_sha256: str | None
    """The hash of the bytes after the edit; None if the edit deleted the file."""
    mode: int | None = None
    """Permission bits before the edit; None if the edit kept them."""
    owner: Owner | None = None
    """The owner before the edit; None unless the edit deleted the file."""
    edit: str = ""
    """A name that all files written together share; empty in notes of earlier versions."""

    @classmethod
    def read(cls, entry: Path, source: SourceFile) -> Self:
        """Return the backup that keeps its bytes at `entry`.  Raises OSError, ValueError or TypeError if no valid
        backup is there, or if the one there belongs to a file other than `source`."""
        with open(open_private(_note_path(entry), os.O_RDONLY), encoding="ascii") as file:
            backup = cls(**json.load(file))
        if os.path.normcase(backup.path) != os.path.normcase(source.target):
            raise ValueError("of another file")
        return backup._replace(mode=read_mode(backup.mode), owner=read_owner(backup.owner))


class Undo(NamedTuple):
    """The bytes and rights that one file gets back."""

    source: SourceFile
    backup: Backup
    entry: Path
    before: bytes


class BackupStore:
    """The backups in one state folder, which is created when the first backup is kept."""

    def __init__(self, state_path: Path, n_kept: int) -> None:
        self._state = state_path
        self._n_kept = n_kept
        self._journal = Journal(state_path)

    def write_all(
        self, writes: Sequence[FileWrite], roots: Sequence[Path] = (), *, is_forced: bool = False, edit: str = ""
    ) -> None:
        """Carry out all of the writes or none, and keep what the files held.  Writes that change nothing are left out.

        `roots`: the folders that the files lie in; if empty, each file's own folder.  `is_forced`: write read-only
        files too.  `edit`: a name for an edit that takes several calls; if empty, a new one is made.

        Raises:
            FileChanged, FileNotWritable: a file is not as it was read, or cannot be written; in that case no file is
                changed.
            InvalidField: two of the writes are to the same file.
            OutsideRoots: a write is to a file of the state folder.
        """
        _refuse_doubles([write.source for write in writes])
        # Deletions come last: until then, nothing is gone.
        writes = sorted((write for write in writes if write.is_change), key=lambda write: write.data is None)
        if not writes:
            return
        for write in writes:
            self._refuse_own(write.source)
            if not is_forced:
                refuse_read_only(write.source)
        kept: dict[int, Path] = {}
        edit = edit or secrets.token_hex(8)

        def keep(i: int) -> None:
            kept[i] = self._keep(writes[i], edit)

        with self._journal.locked():  # keeps other writers out between the check and the replacement
            try:
                at_once(keep, len(writes))
                if len(writes) == 1:  # one write is all or nothing by itself
                    write_atomic(writes[0].source, writes[0].data, mode=writes[0].mode, owner=writes[0].owner)
                else:
                    places = roots or sorted({_nearest_folder(write.source.target) for write in writes})
                    self._journal.commit(writes, [kept[i] for i in range(len(writes))], places)
            except BaseException:
                if not self._journal.open_notes():  # a change set still in the journal may need these bytes
                    for entry in kept.values():
                        _discard(entry)
                raise
            for entry in kept.values():
                for old in _entries(entry.parent)[: -self._n_kept]:
                    _discard(old)

    def undo(self, path: str | Path, *, max_bytes: int | None = None, is_forced: bool = False) -> Backup:
        """Take back the newest edit of the file.

        Raises:
            NoBackup: no backup is left, or it is damaged.
            FileChanged: the file is not as the edit left it.
            FileNotWritable: the file cannot be written, or it is read-only and `is_forced` is not set.
            TooLarge: the file has more than `max_bytes`.
        """
        return self._take_back([self._newest(path, max_bytes)], is_forced=is_forced)[0]

    def undo_all(
        self, path: str | Path, roots: Roots, *, max_bytes: int | None = None, is_forced: bool = False
    ) -> list[Backup]:
        """Take back the newest edit of the file, in all files that were written with it.  If the checks before the
        first write fail for one of them, no file is touched.  Raises what `undo` raises, and OutsideRoots if another of
        the files lies outside `roots`."""
        asked = self._newest(path, max_bytes)
        found = set[str]()
        for note in (self._state / "backups").glob("*/*.json") if asked.backup.edit else ():
            with (
                contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError),
                open(open_private(note, os.O_RDONLY), encoding="ascii") as file,
            ):
                values = json.load(file)
                if values["edit"] == asked.backup.edit:
                    found.add(str(values["path"]))
        undos = [self._newest(roots.resolve(other), max_bytes) for other in sorted(found - {asked.backup.path})]
        for undo in undos:
            if undo.backup.edit != asked.backup.edit:
                message = f"{undo.source.path} has been edited again since then; no file was changed."
                remedy = f"Take back that edit first: apply-service undo {undo.source.path}"
                raise FileChanged(message, value=str(undo.source.path), remedy=remedy)
        return self._take_back([*undos, asked], is_forced=is_forced)

    def _newest(self, path: str | Path, max_bytes: int | None) -> Undo:
        """Find the newest edit of the file.  Raises what `undo` raises."""
        source = read_source(path, needs_folder=False, max_bytes=max_bytes)
        self._refuse_own(source)
        place = kept_folder(self._state, source.target)
        for entry in reversed(_entries(private_folder(*place) if Path(*place).exists() else Path(*place))):
            try:
                backup = Backup.read(entry, source)
                with open(open_private(entry, os.O_RDONLY), "rb") as file:
                    before = file.read()
                if sha256_of(before) != backup.before_sha256:
                    raise ValueError("other bytes than were kept")
            except (OSError, ValueError, TypeError, RecursionError) as error:
                message = f"The newest backup of {source.path} is damaged; the file was left alone."
                remedy = f"What is left of the backups is in {entry.parent}."
                raise NoBackup(message, value=str(entry), remedy=remedy) from error
            held = backup.before_sha256 if backup.existed else None
            if held != source.sha256 or held == backup.after_sha256:
                break
            _discard(entry)  # its edit was never made, or was rolled back
        else:
            message = f"There is no edit of {source.path} to take back."
            remedy = "Only edits made by --in-place can be undone."
            raise NoBackup(message, value=str(source.path), remedy=remedy)
        if source.sha256 != backup.after_sha256:
            message = f"{source.path} was changed after the edit; it was left alone."
            raise FileChanged(
                message, value=str(source.path), remedy=f"The file as it was before the edit is in {entry}."
            )
        return Undo(source, backup, entry, before)

    def _take_back(self, undos: Sequence[Undo], *, is_forced: bool) -> list[Backup]:
        """Give every file the bytes that it held before.  Raises FileChanged, FileNotWritable."""
        for undo in undos:
            if not is_forced:
                refuse_read_only(undo.source)
        done: list[Backup] = []
        with self._journal.locked():
            for source, backup, entry, before in undos:
                try:
                    write_atomic(source, before if backup.existed else None, mode=backup.mode, owner=backup.owner)
                except FileError as error:
                    if done:
                        error.remedy += (
                            f" {len(done)} of {len(undos)} files are back; the same command takes back the rest."
                        )
                    raise
                _discard(entry)
                done.append(backup)
        return done

    def _keep(self, write: FileWrite, edit: str) -> Path:
        """Keep what the file holds, and return the path where it is kept.  The caller holds the lock, so bytes without
        a note are leftovers of a process that died; they are removed."""
        source = write.source
        folder = private_folder(*kept_folder(self._state, source.target))
        after = None if write.data is None else sha256_of(write.data)
        mode = source.mode if write.data is None or write.mode is not None else None
        owner = source.owner if write.data is None else None
        backup = Backup(str(source.target), source.exists, sha256_of(source.data), after, mode, owner, edit)
        entries = _entries(folder)
        entry = folder / f"{max((int(one.stem) for one in entries), default=0) + 1:08d}.bytes"
        try:
            for orphan in {*folder.glob("*.bytes"), *folder.glob("*.draft")}.difference(entries):
                with contextlib.suppress(OSError):
                    orphan.unlink()
            with open(open_private(entry, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(source.data)
                file.flush()
                os.fsync(file.fileno())
            save_json(_note_path(entry), backup._asdict())
        except BaseException as error:
            with contextlib.suppress(OSError):
                _discard(entry)
            if not isinstance(error, OSError):
                raise
            message = f"Cannot keep a backup in {folder}: {error.strerror or error}. The file was left alone."
            remedy = "Set state_dir (--state-dir, APPLY_SERVICE_STATE_DIR) to a folder that can be written."
            raise FileNotWritable(message, value=str(folder), remedy=remedy) from error
        return entry

    def _refuse_own(self, source: SourceFile) -> None:
        """Raise OutsideRoots if the file lies in the state folder."""
        if lies_in(source.target, self._state):
            message = f"{source.path} belongs to apply-service's own data and is never edited."
            raise OutsideRoots(message, value=str(source.target), remedy="Name another file.")


def _nearest_folder(target: Path) -> Path:
    return next(parent for parent in target.parents if parent.is_dir())


def _refuse_doubles(sources: Sequence[SourceFile]) -> None:
    """Raise InvalidField if two paths name the same file: the paths are equal, or the system gives both the same file
    number."""
    names: dict[object, Path] = {}
    for source in sources:
        identities: list[object] = [os.path.normcase(source.target)]
        with contextlib.suppress(OSError):
            number = source.target.stat()
            identities.append((number.st_dev, number.st_ino))
        for identity in identities:
            if identity in names:
                message = f"{names[identity]} and {source.path} are the same file."
                remedy = "Combine their edits into one."
                raise InvalidField(message, value=[str(names[identity]), str(source.path)], remedy=remedy)
        names |= dict.fromkeys(identities, source.path)


def _entries(folder: Path) -> list[Path]:
    """Return the complete backups (the ones with a note), oldest first."""
    return sorted(entry for entry in folder.glob("*.bytes") if entry.stem.isdecimal() and _note_path(entry).is_file())


def _note_path(entry: Path) -> Path:
    return entry.with_suffix(".json")


def _discard(entry: Path) -> None:
    for path in (_note_path(entry), entry):
        path.unlink(missing_ok=True)
