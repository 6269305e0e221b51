"""Opens the program's own folders and files.  Only their user can read them, and a planted link is never followed.

Later commands trust what lies in the state folder: bytes to bring back, notes to roll back, a key, a log.  So
`private_folder` opens every folder of it, and `open_private` every file.  Windows has no such owners; there, the folder
of the user's profile protects the state folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

from apply_service.errors import FileNotWritable


def private_folder(state: Path, *names: str) -> Path:
    """Return the state folder, or the folder of these names below it; missing folders are created.  The path contains
    no links.

    The state folder may be a link that the user or root made.  It must belong to the user, or to root if others can't
    rename what lies in it.  Others lose the right to write to it.  A folder below it must be a real folder of the
    user's, and gets mode 0700.  Raises FileNotWritable.
    """
    place = state
    try:
        if state.is_symlink() and not _is_ours(state.lstat(), or_root=True):
            raise PermissionError(errno.EPERM, "it is a link that another user made")
        place = Path(os.path.realpath(state))
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700, parents=True)
        _keep_others_out(place, is_state=True)
        for name in names:
            place /= name
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o700)
            _keep_others_out(place, is_state=False)
    except OSError as error:
        raise FileNotWritable(
            f"Cannot use the folder {place}: {error.strerror or error}.",
            value=str(place),
            remedy="Set state_dir (--state-dir, APPLY_SERVICE_STATE_DIR) to a folder of yours that can be written.",
        ) from error
    return place


def open_private(path: Path, flags: int) -> int:
    """Open a file in a private folder, as `os.open` does, and return the descriptor.  A new file gets mode 0600.
    Raises OSError for a symbolic link, for anything but a regular file, for another user's file, and with `O_TRUNC` for
    a hard link.  The file that a link leads to is not changed in these cases."""
    if path.is_symlink():  # Windows has no O_NOFOLLOW
        raise OSError(errno.ELOOP, "it is a link", str(path))
    more = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # O_NONBLOCK: else a named pipe blocks
    descriptor = os.open(path, (flags & ~os.O_TRUNC) | more | getattr(os, "O_BINARY", 0), 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if not _is_ours(found):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        if flags & os.O_TRUNC and found.st_nlink > 1:  # a copied folder may consist of hard links; those are only read
            raise OSError(errno.EMLINK, "it is a hard link", str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _keep_others_out(folder: Path, *, is_state: bool) -> None:
    """Take away the right of others to write.  Raises OSError if the path is not a folder, or not the user's folder."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        what = "it is a link" if stat.S_ISLNK(found.st_mode) else "it is not a folder"
        raise NotADirectoryError(errno.ENOTDIR, what)
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(found.st_mode)
    wanted = mode if is_state else 0o700
    # In a sticky folder, such as the system's folder for temporary files, nobody can rename another user's files.
    if is_open := bool(mode & 0o022 and not mode & stat.S_ISVTX):
        wanted &= ~0o022
    if not _is_ours(found, or_root=is_state and not is_open):
        raise PermissionError(errno.EPERM, "it belongs to another user")
    if mode != wanted:
        os.chmod(folder, wanted)


def _is_ours(found: os.stat_result, *, or_root: bool = False) -> bool:
    if sys.platform == "win32":
        return True
    return found.st_uid == os.geteuid() or (or_root and found.st_uid == 0)
