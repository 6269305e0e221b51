"""The program's own folders and files: only their user's, and never reached through a link that somebody planted.

What lies in the state folder is trusted later: bytes to bring back, notes to roll back, a key, a log.  So every folder
of it is opened by `private_folder` and every file by `open_private`.  Windows has no owners of this kind: there the
folder of the user's profile is what protects it.
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
    """Return the state folder, or the folder of these names below it, created where there is none; its path has no link
    left.

    The state folder may be a link if the user, or root, made it.  It must belong to the user, or to root where others
    can't rename what lies in it; others' right to write is taken away.  A folder below it must be a real folder of the
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
    """Open a file in a private folder, with mode 0600 where it is created, as `os.open` does; the descriptor.  Raises
    OSError, also for a link of either kind, for anything but a regular file, and for a file of another user: what it
    leads to is then as it was, `O_TRUNC` or not."""
    if path.is_symlink():  # Windows has no O_NOFOLLOW
        raise OSError(errno.ELOOP, "it is a link", str(path))
    more = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a named pipe would be waited for
    descriptor = os.open(path, (flags & ~os.O_TRUNC) | more | getattr(os, "O_BINARY", 0), 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if not _is_ours(found):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        if flags & os.O_TRUNC and found.st_nlink > 1:  # a copy of the folder may be one of links; it is only read
            raise OSError(errno.EMLINK, "it is a hard link", str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _keep_others_out(folder: Path, *, is_state: bool) -> None:
    """Raises OSError: the folder is not the user's, or is none."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        what = "it is a link" if stat.S_ISLNK(found.st_mode) else "it is not a folder"
        raise NotADirectoryError(errno.ENOTDIR, what)
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(found.st_mode)
    wanted = mode if is_state else 0o700
    # Where a folder is sticky, as the system's for temporary files, nobody renames what is not his.
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
