"""Calls for workers, as functions of a module: a test's own closures can't be sent to another process."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import NoReturn

from apply_service.errors import NeedsMoreContext

USERS_CODE = "x = 'secret'"


def no_target(name: str) -> NoReturn:
    raise AssertionError(f"{name} was loaded for nothing")


def backtrack() -> None:
    """Holds the interpreter for longer than anybody lives: no thread beside it would get a turn."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def sleep_long(started: Path | None = None) -> None:
    """`started` is made when it begins."""
    if started is not None:
        started.touch()
    time.sleep(600)


def give_pid(text: str) -> int:
    """Looks at nothing."""
    return os.getpid()


def refuse() -> NoReturn:
    raise NeedsMoreContext("no anchor", value=["x"], limit=1, remedy="show more")


def crash() -> NoReturn:
    raise ValueError(USERS_CODE)


def panic() -> NoReturn:
    raise BaseException


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def be_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def give_unsendable() -> object:
    return lambda: None


def refuse_unsendably() -> NoReturn:
    raise NeedsMoreContext("no anchor", value=lambda: None)


def is_deaf_to_interrupts() -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return True
