"""What another user of the machine may do: a call in a child process with his numbers.  Needs root."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)


def let_in(folder: Path) -> None:
    """Let all users into a folder of a test, and write in it."""
    for parent in (folder.parent, *folder.parent.parents):
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith(("pytest-", "popen-")):
            parent.chmod(parent.stat().st_mode | 0o711)
    folder.chmod(0o777)


def as_user(call: Callable[[], object], uid: int, gid: int, groups: Sequence[int] = ()) -> None:
    """Run `call` as the user; fail with what it printed if it raised."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(list(groups))
            os.setgid(gid)
            os.setuid(uid)
            call()
            code = 0
        except BaseException:
            os.write(write, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        told = said.read().decode()
    assert os.waitpid(child, 0)[1] == 0, told
