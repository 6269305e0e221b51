"""What a test may cost, without a clock that a slow machine could fail: lines counted, and an end for what hangs."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

HANGS_AFTER_S = 600
"""Takes seconds at most where it works, hours or for ever where it does not."""


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    """Ends its block by TimeoutError after ten minutes.  Nothing where the system has no alarm (Windows)."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _end)
    signal.alarm(HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _end(*_: object) -> None:
    raise TimeoutError(f"it hangs: not done after {HANGS_AFTER_S} s")


def count_lines(work: Callable[[], object]) -> int:
    """Lines of Python that `work` runs, each time it runs them."""
    n_lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal n_lines
        n_lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return n_lines
