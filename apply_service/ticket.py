"""One accepted request, seen from both sides: the engine thread puts events in, one consumer takes them out.

However a request ends (answer, error, deadline, cancelled, service closed), the first end stands and is the only one
the consumer sees.  The deadline is kept by the consumer's own clock too, so it holds where the engine hangs.
`service.Service` makes tickets.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator

from apply_service.deadline import Deadline, cancelled_error, late_error
from apply_service.errors import ApplyError
from apply_service.pipeline import ReadEdit
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent

Terminal = FinalEvent | ApplyError


class Ticket:
    """One accepted request.  Thread-safe; its events go to one consumer, `events` or `events_async`."""

    def __init__(self, request: ApplyRequest, timeout_s: float, on_end: Callable[[Ticket], None]) -> None:
        self.context = contextvars.copy_context()
        """Of whoever submitted it, so that logs and traces of it, on whatever thread, find their request."""
        self.request = request
        self.deadline = Deadline(timeout_s)
        """Cancelled when the request ends, in whatever way."""
        self.edit: ReadEdit | None = None
        """The edit as it was read, where that was done before the request waits for a target."""
        self._submitted = time.monotonic()
        self._started: float | None = None
        self._on_end = on_end
        self._changed = threading.Condition()
        self._items: deque[ApplyEvent | ApplyError] = deque()
        self._terminal: Terminal | None = None
        self._listener: Callable[[], None] | None = None

    @property
    def terminal(self) -> Terminal | None:
        """How the request ended; None while it has not."""
        return self._terminal

    @property
    def queue_s(self) -> float:
        """How long it has waited for the engine, or did before it was taken up."""
        return (time.monotonic() if self._started is None else self._started) - self._submitted

    @property
    def age_s(self) -> float:
        """Seconds since it was accepted."""
        return time.monotonic() - self._submitted

    def cancel(self) -> None:
        """End the request; decoding stops at its next pass.  Nothing happens to one that has ended."""
        self.end(cancelled_error())

    def events(self) -> Generator[ApplyEvent]:
        """Token events, then the final event.  Closing the iterator cancels the request.

        Raises:
            ApplyError: the terminal error, after all events before it.
        """
        try:
            while True:
                item = self._wait()
                if isinstance(item, ApplyError):
                    raise item
                yield item
                if isinstance(item, FinalEvent):
                    return
        finally:
            self.cancel()

    async def events_async(self) -> AsyncGenerator[ApplyEvent]:
        """As `events`, for an event loop."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        self._listener = lambda: _call_in(loop, ready.set)
        try:
            while True:
                item = await self._wait_async(ready)
                if isinstance(item, ApplyError):
                    raise item
                yield item
                if isinstance(item, FinalEvent):
                    return
        finally:
            self.cancel()

    def expire(self) -> None:
        """End the request because its deadline has passed."""
        self.end(late_error(self.deadline.timeout_s))

    # -- engine side -----------------------------------------------------------------------------------------------
    def start(self) -> None:
        """The engine takes it up; its time in the queue is over."""
        self._started = time.monotonic()

    def put(self, event: ApplyEvent) -> None:
        """Hand the consumer an event; nothing happens after the end."""
        with self._changed:
            if self._terminal is None:
                self._items.append(event)
                self._changed.notify_all()
        self._tell_listener()

    def end(self, terminal: Terminal) -> None:
        """End the request; the first end stands, a later one is dropped."""
        with self._changed:
            if self._terminal is not None:
                return
            self._terminal = terminal
        self.deadline.cancel()
        self._on_end(self)  # before the consumer learns of it, so that whatever counts ends has counted it by then
        with self._changed:
            self._items.append(terminal)
            self._changed.notify_all()
        self._tell_listener()

    def _tell_listener(self) -> None:
        if (listener := self._listener) is not None:
            listener()

    # -- consumer side ---------------------------------------------------------------------------------------------
    def _wait(self) -> ApplyEvent | ApplyError:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._items), max(0.0, self.deadline.remaining_s))
                if self._items:
                    return self._items.popleft()
            self.expire()

    async def _wait_async(self, ready: asyncio.Event) -> ApplyEvent | ApplyError:
        # An item put after the look into `_items` sets `ready` after the clear: the setting runs in this loop.
        while True:
            ready.clear()
            with self._changed:
                if self._items:
                    return self._items.popleft()
            try:
                async with asyncio.timeout(max(0.0, self.deadline.remaining_s)):
                    await ready.wait()
            except TimeoutError:
                self.expire()


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
        loop.call_soon_threadsafe(callback)
