"""Reads one file as bytes, and writes it wholly or not at all.

A file is replaced only if it still holds what was read.  It keeps its mode, its access list on Linux, and its group and
owner if the system allows it.  A symbolic link stays a link, and its target is written.  If the group can't be kept,
nobody gains rights: the new group and all others get only the rights that both the old group and all others had.  Hard
links are lost (the other names keep the old bytes), and so are extended attributes.  Some microseconds lie between the
last look at the file and its replacement; what another program writes during them may be overwritten.  `journal` writes
several files at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from apply_service.disk.state import open_private
from apply_service.errors import FileChanged, FileNotReadable, FileNotWritable, OutsideRoots, TooLarge

N_WRITERS = 8
MANY = 64
"""From this many files on, `N_WRITERS` threads write them."""
PART_BYTES = 2**20
"""Files are read in parts of this size, so that reading an endless file stops at the limit."""
ACCESS_LIST = "system.posix_acl_access"
"""The extended attribute in which Linux keeps the access list."""
_UMASK_LOCK = threading.Lock()


class Owner(NamedTuple):
    """The user and the group that a file belongs to."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was read.  A file that does not exist yet holds no bytes."""

    path: Path
    """The path as the user gave it."""
    target: Path
    """The absolute path, with symbolic links resolved."""
    data: bytes
    exists: bool
    mode: int | None = None
    """The file's permission bits; None for a file that does not exist."""
    owner: Owner | None = None

    @property
    def sha256(self) -> str | None:
        """Hash of the file's bytes; None for a file that does not exist."""
        return sha256_of(self.data) if self.exists else None


@dataclass(frozen=True, slots=True)
class FileWrite:
    """The new state of a file."""

    source: SourceFile
    data: bytes | None
    """The new bytes; None if the file is to be deleted."""
    is_executable: bool | None = None
    """Whether the file shall be executable; None leaves this as it is.  It has no meaning on Windows."""
    like: SourceFile | None = None
    """The file that this one is moved or copied from.  A new file gets the rights of that file."""

    @property
    def mode(self) -> int | None:
        """The permission bits to set; None if nothing need be set."""
        mode = self.source.mode
        if mode is None and self.like is not None:
            mode = self.like.mode
        if sys.platform == "win32" or (self.is_executable is None and mode == self.source.mode):
            return None
        mode = 0o666 & ~_umask() if mode is None else mode
        if self.is_executable is None:
            return mode
        return mode | (mode & 0o444) >> 2 if self.is_executable else mode & ~0o111

    @property
    def owner(self) -> Owner | None:
        """The owner to set; None if nothing need be set."""
        return None if self.like is None or self.source.exists else self.like.owner

    @property
    def is_change(self) -> bool:
        if self.data is None or not self.source.exists:
            return self.source.exists or self.data is not None
        return self.data != self.source.data or self.mode not in (None, self.source.mode)


def read_source(path: str | Path, *, needs_folder: bool = True, max_bytes: int | None = None) -> SourceFile:
    """Return the file with its bytes.  A file that does not exist is empty; its folder must exist if `needs_folder`.

    Raises:
        FileNotReadable: the path is not a regular file, its folder does not exist, or reading it is not allowed.
        TooLarge: the file has more than `max_bytes`.  A regular file's size is looked up before the file is read.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    why = ""
    try:
        if os.path.isdir(target):
            why = "it is a folder"
        elif needs_folder and not os.path.isdir(target.parent):
            why = "its folder does not exist"
        elif stat.S_ISREG((found := target.stat()).st_mode):
            with target.open("rb") as file:
                data = read_within(file, str(path), max_bytes)
            owner = Owner(found.st_uid, found.st_gid)
            return SourceFile(path, target, data, exists=True, mode=stat.S_IMODE(found.st_mode), owner=owner)
        else:
            why = "it is not a regular file"
    except FileNotFoundError:
        return SourceFile(path, target, b"", exists=False)
    except OSError as error:
        why = error.strerror or str(error)
    raise FileNotReadable(
        f"Cannot read {path}: {why}.", value=str(path), remedy="Name a regular file that you may read."
    )


def read_as_judged(place: Path, max_bytes: int) -> SourceFile:
    """Read a file whose path was resolved and allowed before.  Raises what `read_source` raises, and OutsideRoots if
    the path has since become a link to another place."""
    source = read_source(place, needs_folder=False, max_bytes=max_bytes)
    if source.target != place:
        message = f"{place} was moved or replaced by a link while this command ran."
        remedy = "Try again when no other program changes it."
        raise OutsideRoots(message, value=str(source.target), remedy=remedy)
    return source


def read_within(file: BinaryIO, name: str, max_bytes: int | None) -> bytes:
    """Return all that the open file holds.  Raises OSError, or TooLarge if the file has more than `max_bytes`, by its
    size or by what has been read so far."""
    n_bytes, size, parts = 0, 0, list[bytes]()
    with contextlib.suppress(OSError):  # `file` may be no file of the system's
        found = os.fstat(file.fileno())
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
    while max_bytes is None or max(size, n_bytes) <= max_bytes:
        if not (part := file.read(PART_BYTES)):
            return b"".join(parts)
        parts.append(part)
        n_bytes += len(part)
    message = f"{name} is too large."
    remedy = "Send a part of it, or raise the limit: max_file_bytes (--max-file-bytes)."
    raise TooLarge(message, value=max(size, n_bytes), limit=max_bytes, remedy=remedy)


def write_atomic(
    source: SourceFile,
    data: bytes | None,
    *,
    mode: int | None = None,
    owner: Owner | None = None,
    temporary: Path | None = None,
) -> None:
    """Make the file hold `data`, or delete it (None).  After a crash at any moment it is wholly old or wholly new.

    Missing folders are created.  `mode`: permission bits that replace the present bits.  `owner`: the owner of a new
    file.  `temporary`: the path beside the file at which the new bytes are staged; if None, a name that nobody else
    has.

    Raises:
        FileChanged: the file no longer holds `source.data`; nothing was written.
        FileNotWritable: the file or its folder cannot be written; nothing was written.
    """
    if data is None:
        remove(source)
        return
    refuse_if_changed(source)
    make_folder(source)
    temporary = temporary or temporary_beside(source.target, secrets.token_hex(8))
    try:
        stage(temporary, source, data, mode, owner)
        publish(temporary, source)
        with _writing(source):
            sync_folder(source.target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def temporary_beside(target: Path, number: str) -> Path:
    """Return the path at which new bytes are staged.  It is in the file's folder, because a rename is atomic only
    within a file system."""
    return target.with_name(f".{target.name[:40]}.{number}.apply-tmp")


def refuse_read_only(source: SourceFile) -> None:
    """Raise FileNotWritable if this user may not write the file, or it is marked as read-only.  The mark stops root
    too."""
    if source.mode is not None and not (source.mode & 0o222 and os.access(source.target, os.W_OK)):
        remedy = "Make it writable, or on the command line add --force."
        raise FileNotWritable(f"Cannot write {source.path}: it is read-only.", value=str(source.path), remedy=remedy)


def stage(temporary: Path, source: SourceFile, data: bytes, mode: int | None, owner: Owner | None = None) -> None:
    """Write the new bytes to `temporary`, on disk to the last byte, with the file's rights.  Raises FileNotWritable if
    the folder takes no new file."""
    with _writing(source):
        temporary.unlink(missing_ok=True)  # a dead process left it; it may be a link by now, so never write to it
        # Only the owner has rights to the new file until it gets the rights of the file that it replaces.
        with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            usual_mode = 0o666 & ~_umask()
            if source.exists:
                now = source.target.stat()
                usual_mode, owner = stat.S_IMODE(now.st_mode), Owner(now.st_uid, now.st_gid)
                with contextlib.suppress(
                    OSError, AttributeError
                ):  # without the list, the group would get all of its rights
                    os.setxattr(file.fileno(), ACCESS_LIST, os.getxattr(source.target, ACCESS_LIST))
            mode = usual_mode if mode is None else mode
            if hasattr(os, "fchown"):
                os.fchmod(file.fileno(), _owned(file.fileno(), mode, owner))
            else:
                os.chmod(temporary, mode)
            os.fsync(file.fileno())


def _owned(descriptor: int, mode: int, owner: Owner | None) -> int:
    """Give the new file to the owner, as far as the system allows it.  Return `mode` without the rights that somebody
    would gain because the group or the owner differs."""
    now = os.fstat(descriptor)
    if owner is not None and now.st_gid != owner.gid:  # set apart from the user: a member of the group may set it
        try:
            os.fchown(descriptor, -1, owner.gid)
        except OSError:
            both = mode >> 3 & mode & 0o007
            mode = (mode & ~(stat.S_ISGID | 0o077)) | both << 3 | both
    if owner is not None and now.st_uid != owner.uid:
        try:
            os.fchown(descriptor, owner.uid, -1)
        except OSError:
            mode &= ~stat.S_ISUID
    return mode


def publish(temporary: Path, source: SourceFile) -> None:
    """Put what `stage` wrote in the file's place.  Raises FileChanged if the file is not as it was read, or
    FileNotWritable; in both cases nothing was replaced."""
    refuse_if_changed(source)
    with _writing(source):
        if source.exists:
            os.replace(temporary, source.target)
        elif sys.platform == "win32":
            os.rename(temporary, source.target)  # fails if the name has been taken since
        else:
            try:
                os.link(temporary, source.target)  # fails as well; a rename would not
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                os.replace(temporary, source.target)
            else:
                os.unlink(temporary)


def remove(source: SourceFile) -> None:
    """Delete the file.  Raises what `publish` raises."""
    refuse_if_changed(source)
    with _writing(source):
        source.target.unlink()
        sync_folder(source.target.parent)


def make_folder(source: SourceFile) -> None:
    """Create the folders above the file that do not exist.  Raises FileNotWritable."""
    with _writing(source):
        source.target.parent.mkdir(parents=True, exist_ok=True)


def refuse_if_changed(source: SourceFile) -> None:
    """Raise FileChanged unless the file is as it was read."""
    try:
        now = read_source(source.path, needs_folder=False, max_bytes=len(source.data))
    except TooLarge as error:
        raise _changed(source) from error
    if (now.exists, now.target, now.data) != (source.exists, source.target, source.data):
        raise _changed(source)


def save_json(path: Path, values: object) -> None:
    """Write a small file of the program's own in a private folder.  The file appears whole and outlives a power cut, or
    does not appear at all.  Raises OSError."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    try:
        with open(open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="ascii") as file:
            json.dump(values, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in the folder outlive a power cut.  Raises OSError."""
    if sys.platform == "win32":  # cannot open folders; its file system keeps a journal of renames
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def at_once(call: Callable[[int], object], n: int) -> None:
    """Call `call` with each number from 0 to n - 1.  Many calls run on threads, because each waits for the disk.
    Raises what the first failed call raised; on threads, only after all calls have ended."""
    if n < MANY:
        for i in range(n):
            call(i)
        return
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(N_WRITERS) as pool:
        calls = [pool.submit(call, i) for i in range(n)]
        wait(calls)
    for one in calls:
        one.result()


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def _writing(source: SourceFile) -> Iterator[None]:
    """Turn the system's errors into FileChanged or FileNotWritable."""
    try:
        yield
    except FileExistsError as error:
        raise _changed(source) from error
    except OSError as error:
        message = f"Cannot write {source.path}: {error.strerror or error}."
        remedy = "Check that you may write the file and its folder."
        raise FileNotWritable(message, value=str(source.path), remedy=remedy) from error


def _umask() -> int:
    with _UMASK_LOCK:  # the mask can be read only by setting it, which affects all threads
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


def _changed(source: SourceFile) -> FileChanged:
    return FileChanged(
        f"{source.path} changed on disk since it was read; it was left alone.",
        value=str(source.path),
        remedy="Run the command again on the file as it is now.",
    )
