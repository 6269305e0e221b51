"""Reading a file to edit and writing it back, wholly or not at all.

Works on bytes; what they mean is `edits.fidelity`'s concern.  The command line reads a `SourceFile`, has the edit
applied, and hands the new bytes back together with what it read: the file is replaced only if it still holds that.
Several files at once are `journal`'s work.

Kept: the mode, the owner where the system allows it, and a symbolic link (its target is written).  Not kept: hard links
(the other names keep the old bytes), access lists and extended attributes.  Between the last look at the file and its
replacement lie some microseconds in which another writer could still be overtaken.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apply_service.errors import FileChanged, FileNotReadable, FileNotWritable


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was read.  A file that does not exist yet holds no bytes."""

    path: Path
    """As the user named it."""
    target: Path
    """Absolute, symbolic links resolved."""
    data: bytes
    exists: bool
    mode: int | None = None
    """Its permission bits; None for a file that does not exist."""


@dataclass(frozen=True, slots=True)
class FileWrite:
    """What a file is to become."""

    source: SourceFile
    data: bytes | None
    """None: it is deleted."""
    is_executable: bool | None = None
    """None: as it is.  Without meaning on Windows."""

    @property
    def mode(self) -> int | None:
        """The permission bits it is to have; None for the ones that a file like it has anyway."""
        if self.is_executable is None or os.name == "nt":
            return None
        mode = 0o666 & ~_umask() if self.source.mode is None else self.source.mode
        return mode | (mode & 0o444) >> 2 if self.is_executable else mode & ~0o111

    @property
    def is_change(self) -> bool:
        if self.data is None or not self.source.exists:
            return self.source.exists or self.data is not None
        return self.data != self.source.data or self.mode not in (None, self.source.mode)


def read_source(path: str | Path, *, needs_folder: bool = True) -> SourceFile:
    """The file's bytes; a file that does not exist, in a folder that does (or need not), is empty.

    Raises:
        FileNotReadable: not a regular file, no such folder, or not allowed.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise _unreadable(path, "it is a folder")
    if needs_folder and not os.path.isdir(target.parent):
        raise _unreadable(path, "there is no such folder")
    try:
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise _unreadable(path, "it is not a regular file")
        return SourceFile(path, target, target.read_bytes(), exists=True, mode=stat.S_IMODE(mode))
    except FileNotFoundError:
        return SourceFile(path, target, b"", exists=False)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def carry_out(write: FileWrite) -> None:
    """Make the file what it is to become, wholly or not at all; folders that lack are created.  Raises as
    `write_atomic` does."""
    if write.data is None:
        remove(write.source)
        return
    make_folder(write.source)
    write_atomic(write.source, write.data, mode=write.mode)


def write_atomic(source: SourceFile, data: bytes, *, mode: int | None = None) -> None:
    """Replace the file by `data`: after a crash at any moment it is wholly old or wholly new.  `mode`: permission bits
    in the place of those it has.

    Raises:
        FileChanged: the file no longer holds `source.data`; nothing was written.
        FileNotWritable: the file or its folder; nothing was written.
    """
    refuse_if_changed(source)
    with _writing(source), _temporary_beside(source.target) as temporary:
        stage(temporary, source, data, mode)
        publish(temporary, source)
        sync_folder(source.target.parent)


def stage(temporary: Path, source: SourceFile, data: bytes, mode: int | None) -> None:
    """Write what is to take the file's place beside it, on disk to the last byte, with the file's rights.

    Raises:
        FileNotWritable: the file is read-only, or the folder takes no new one.
    """
    with _writing(source):
        if source.exists and not os.access(source.target, os.W_OK):
            raise _unwritable(source, "it is read-only")
        _fill(temporary, data, source, mode)


def publish(temporary: Path, source: SourceFile) -> None:
    """Put what `stage` wrote in the file's place, if that still is as it was read.

    Raises:
        FileChanged, FileNotWritable: nothing was replaced.
    """
    refuse_if_changed(source)
    with _writing(source):
        _move(temporary, source)


def remove(source: SourceFile) -> None:
    """Delete the file.  Raises as `write_atomic` does."""
    refuse_if_changed(source)
    with _writing(source):
        source.target.unlink()
        sync_folder(source.target.parent)


def make_folder(source: SourceFile) -> None:
    """Create the folders above the file that lack.  Raises FileNotWritable."""
    with _writing(source):
        source.target.parent.mkdir(parents=True, exist_ok=True)


def refuse_if_changed(source: SourceFile) -> None:
    """Raises FileChanged unless the file still is as it was read."""
    now = read_source(source.path, needs_folder=False)
    if (now.exists, now.target, now.data) != (source.exists, source.target, source.data):
        raise _changed(source)


@contextlib.contextmanager
def _writing(source: SourceFile) -> Iterator[None]:
    """The system's errors as ours."""
    try:
        yield
    except FileExistsError as error:
        raise _changed(source) from error
    except OSError as error:
        raise _unwritable(source, error.strerror or str(error)) from error


@contextlib.contextmanager
def _temporary_beside(target: Path) -> Iterator[Path]:
    # In the same folder, hence on the same file system: only there is a rename atomic.
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", suffix=".apply-tmp", dir=target.parent)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _fill(temporary: Path, data: bytes, source: SourceFile, mode: int | None) -> None:
    with open(temporary, "wb", opener=_open_private) as file:
        file.write(data)
        file.flush()
        _copy_rights(temporary, source, mode)
        os.fsync(file.fileno())


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # until it has the rights of the file it stands for


def _copy_rights(temporary: Path, source: SourceFile, mode: int | None) -> None:
    if not source.exists:
        os.chmod(temporary, 0o666 & ~_umask() if mode is None else mode)
        return
    rights = source.target.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(temporary, rights.st_uid, rights.st_gid)
    os.chmod(temporary, stat.S_IMODE(rights.st_mode) if mode is None else mode)


def _move(temporary: Path, source: SourceFile) -> None:
    if source.exists:
        os.replace(temporary, source.target)
    elif os.name == "nt":
        os.rename(temporary, source.target)  # fails where the name is taken meanwhile
    else:
        _link_new(temporary, source.target)


def _link_new(temporary: Path, target: Path) -> None:
    """As a rename, but fails where the name is taken meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.replace(temporary, target)
    else:
        os.unlink(temporary)


def sync_folder(folder: Path) -> None:
    """Make renames in the folder outlive a power cut."""
    if os.name == "nt":  # folders cannot be opened there; the rename itself is journalled
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _unreadable(path: Path, why: str) -> FileNotReadable:
    return FileNotReadable(f"Cannot read {path}: {why}.", value=str(path), remedy="Name a regular file you may read.")


def _unwritable(source: SourceFile, why: str) -> FileNotWritable:
    return FileNotWritable(
        f"Cannot write {source.path}: {why}.",
        value=str(source.path),
        remedy="Check the rights of the file and its folder.",
    )


def _changed(source: SourceFile) -> FileChanged:
    return FileChanged(
        f"{source.path} changed on disk since it was read; it was left alone.",
        value=str(source.path),
        remedy="Run the command again on the file as it is now.",
    )
