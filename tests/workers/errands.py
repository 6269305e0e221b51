"""Work for workers, as functions of a module: a test's own closures can't be sent to another process."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import NoReturn

from apply_service.errors import NeedsMoreContext
from apply_service.workers.messages import Ask, Question

USERS_CODE = "x = 'secret'"


def tell_pid(ask: Ask) -> int:
    return os.getpid()


def backtrack(ask: Ask) -> None:
    """Holds the interpreter for longer than anybody lives: no thread beside it would get a turn."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def sleep_long(ask: Ask) -> None:
    time.sleep(600)


def ask_twice(ask: Ask) -> list[object]:
    return [ask(Question("m", "first", (1,))).value, ask(Question("m", "second", (2,))).value]


def refuse(ask: Ask) -> NoReturn:
    raise NeedsMoreContext("no anchor", value=["x"], limit=1, remedy="show more")


def crash(ask: Ask) -> NoReturn:
    raise ValueError(USERS_CODE)


def panic(ask: Ask) -> NoReturn:
    raise BaseException


def be_killed(ask: Ask) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def give_unsendable(ask: Ask) -> object:
    return lambda: None


def is_deaf_to_interrupts(ask: Ask) -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return True
