"""Reading a file to edit and writing it back, wholly or not at all.

Works on bytes; what they mean is `edits.fidelity`'s concern.  The command line reads a `SourceFile`, has the edit
applied, and hands the new bytes back together with what it read: the file is replaced only if it still holds that.

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


def read_source(path: str | Path) -> SourceFile:
    """The file's bytes; a file that does not exist, in a folder that does, is empty.

    Raises:
        FileNotReadable: not a regular file, no such folder, or not allowed.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise _unreadable(path, "it is a folder")
    if not target.parent.is_dir():
        raise _unreadable(path, "there is no such folder")
    try:
        if not stat.S_ISREG(target.stat().st_mode):
            raise _unreadable(path, "it is not a regular file")
        return SourceFile(path, target, target.read_bytes(), exists=True)
    except FileNotFoundError:
        return SourceFile(path, target, b"", exists=False)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def write_atomic(source: SourceFile, data: bytes) -> None:
    """Replace the file by `data`: after a crash at any moment it is wholly old or wholly new.

    Raises:
        FileChanged: the file no longer holds `source.data`; nothing was written.
        FileNotWritable: the file or its folder; nothing was written.
    """
    refuse_if_changed(source)
    if source.exists and not os.access(source.target, os.W_OK):
        raise _unwritable(source, "it is read-only")
    try:
        with _temporary_beside(source.target) as temporary:
            _fill(temporary, data, source)
            refuse_if_changed(source)
            _move(temporary, source)
        _sync_folder(source.target.parent)
    except FileExistsError as error:
        raise _changed(source) from error
    except OSError as error:
        raise _unwritable(source, error.strerror or str(error)) from error


def remove(source: SourceFile) -> None:
    """Delete the file.  Raises as `write_atomic` does."""
    refuse_if_changed(source)
    try:
        source.target.unlink()
        _sync_folder(source.target.parent)
    except OSError as error:
        raise _unwritable(source, error.strerror or str(error)) from error


def refuse_if_changed(source: SourceFile) -> None:
    """Raises FileChanged unless the file still is as it was read."""
    now = read_source(source.path)
    if (now.exists, now.target, now.data) != (source.exists, source.target, source.data):
        raise _changed(source)


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


def _fill(temporary: Path, data: bytes, source: SourceFile) -> None:
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        _copy_rights(temporary, source)
        os.fsync(file.fileno())


def _copy_rights(temporary: Path, source: SourceFile) -> None:
    if not source.exists:
        os.chmod(temporary, 0o666 & ~_umask())
        return
    rights = source.target.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(temporary, rights.st_uid, rights.st_gid)
    os.chmod(temporary, stat.S_IMODE(rights.st_mode))


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


def _sync_folder(folder: Path) -> None:
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
