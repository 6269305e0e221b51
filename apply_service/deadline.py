"""Keeps a request's deadline, in one object from the request's acceptance to its decoding."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from apply_service.errors import Cancelled, DeadlineExceeded


class Deadline:
    """A point in time, and whether the request was cancelled before it.  Thread-safe."""

    def __init__(self, timeout_s: float | None = None, *, spent_s: float = 0.0) -> None:
        """`timeout_s`: seconds from now on, less the `spent_s` that have already passed; None for no limit."""
        self.timeout_s = timeout_s
        self._is_cancelled = False
        self._at = math.inf if timeout_s is None else time.monotonic() + timeout_s - spent_s
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; infinite if there is no deadline."""
        return self._at - time.monotonic()

    @property
    def is_late(self) -> bool:
        return self.remaining_s <= 0

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def is_over(self) -> bool:
        """Tell whether nobody waits for the answer any more."""
        return self.is_cancelled or self.is_late

    def cancel(self) -> None:
        """Cancel the request: the caller went away or has its answer.  A second call does nothing."""
        with self._lock:
            self._is_cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the request is cancelled, on the thread that cancels it.  If the request is already
        cancelled, call `callback` now."""
        with self._lock:
            if not self._is_cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def check(self) -> None:
        """Raise DeadlineExceeded or Cancelled if nobody waits for the answer any more."""
        if self.is_late:
            raise late_error(self.timeout_s)
        if self.is_cancelled:
            raise cancelled_error()


def cancelled_error() -> Cancelled:
    return Cancelled("the request was cancelled", remedy="send it again")


def late_error(timeout_s: float | None) -> DeadlineExceeded:
    message = "the deadline passed before the edit was applied"
    remedy = "raise timeout_s, or try again when the service is less busy"
    return DeadlineExceeded(message, value=timeout_s, limit=timeout_s, remedy=remedy)
