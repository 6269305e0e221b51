"""Represents one accepted request as a ticket: the engine puts events in, and one consumer takes them out.

A request ends once: in an answer or in an error.  Later ends are dropped.  The consumer watches the deadline too, so
the deadline holds even if the engine hangs.  `service.Service` makes tickets, and moves them from state to state
(`MOVES`).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from enum import Enum

from apply_service.deadline import Deadline, cancelled_error, late_error
from apply_service.errors import REPORT_LOG, ApplyError, EngineFailure
from apply_service.strategies import ReadEdit
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent

Terminal = FinalEvent | ApplyError

log = logging.getLogger(__name__)


class State(Enum):
    """How far a request has come."""

    NEW = "not accepted yet"
    UNREAD = "waits for a worker process"
    READING = "a worker process reads its edit"
    WAITING = "waits for its target"
    RUNNING = "a thread answers it"
    FINISHING = "a worker process finishes its answer"
    ENDED = "nothing works on it any more"


MOVES: Mapping[State, frozenset[State]] = {
    State.NEW: frozenset({State.UNREAD, State.WAITING}),
    State.UNREAD: frozenset({State.READING, State.ENDED}),
    State.READING: frozenset({State.WAITING, State.ENDED}),
    State.WAITING: frozenset({State.RUNNING, State.ENDED}),
    State.RUNNING: frozenset({State.FINISHING, State.ENDED}),
    State.FINISHING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}
"""The states that may follow each state.  If the caller of a running request goes away, the request stays RUNNING until
its thread drops it."""


class Ticket:
    """One accepted request.  Thread-safe; its events go to one consumer, `events` or `events_async`."""

    def __init__(
        self,
        request: ApplyRequest,
        timeout_s: float,
        on_end: Callable[[Ticket], None],
        *,
        is_remote: bool = False,
        is_patient: bool = False,
    ) -> None:
        """`is_remote`: the request's target model is on another server.  `is_patient`: while it is read, it already has
        a place among the requests that wait for a target."""
        self.is_remote = is_remote
        self.is_patient = is_patient
        self.state = State.NEW
        """Changed by `move` only."""
        self.context = contextvars.copy_context()
        """The context of the code that submitted the request, so that log lines on any thread name the request."""
        self.request = request
        self.deadline = Deadline(timeout_s)
        """Cancelled when the request ends."""
        self.edit: ReadEdit | None = None
        """The edit, if it was read before the request had to wait for a target."""
        self.terminal: Terminal | None = None
        """How the request ended; None before the end."""
        self._submitted = time.monotonic()
        self._started: float | None = None
        self._on_end = on_end
        self._changed = threading.Condition()
        self._items: deque[ApplyEvent | ApplyError] = deque()
        self._wake: Callable[[], object] = lambda: None

    @property
    def queue_s(self) -> float:
        """Seconds that the request has waited for the engine, so far or in all."""
        return (time.monotonic() if self._started is None else self._started) - self._submitted

    def cancel(self) -> None:
        """End the request; decoding stops at the next pass.  Does nothing after the end."""
        self.end(cancelled_error())

    def expire(self) -> None:
        """End the request because its deadline has passed."""
        self.end(late_error(self.deadline.timeout_s))

    # -- engine side -----------------------------------------------------------------------------------------------
    def move(self, to: State) -> None:
        """Change the state.  The request's time in the queue ends when work on the request begins.  Raises
        EngineFailure if `MOVES` does not allow this change."""
        if to not in MOVES[self.state]:
            raise EngineFailure(f"internal fault: a request moved from {self.state.name} to {to.name}")
        self.state = to
        if to in (State.READING, State.RUNNING):
            self._started = time.monotonic()

    def put(self, event: ApplyEvent) -> None:
        """Give the consumer an event.  Does nothing after the end."""
        if self.terminal is None:
            self._add(event)

    def end(self, terminal: Terminal) -> None:
        """End the request.  Does nothing after the first end."""
        with self._changed:
            if self.terminal is not None:
                return
            self.terminal = terminal
        self.deadline.cancel()
        self.edit = None  # it may be large, and the ticket may live on
        self._on_end(self)  # before the consumer learns of the end, so that metrics have counted it by then
        self._add(terminal)

    def _add(self, item: ApplyEvent | ApplyError) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()
        self._wake()

    # -- consumer side ---------------------------------------------------------------------------------------------
    def events(self) -> Generator[ApplyEvent]:
        """Yield token events, then the final event.  Closing the iterator cancels the request.  If the request ends in
        an ApplyError, the iterator yields the earlier events and then raises the error."""
        try:
            item = None
            while not isinstance(item, FinalEvent):
                while not self._items:
                    with self._changed:
                        is_there = self._changed.wait_for(lambda: self._items, max(0.0, self.deadline.remaining_s))
                    if not is_there:
                        self.expire()
                yield (item := self._next())
        finally:
            self.cancel()

    async def events_async(self) -> AsyncGenerator[ApplyEvent]:
        """Yield what `events` yields, for an event loop."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ready.set)

        self._wake = wake
        try:
            item = None
            while not isinstance(item, FinalEvent):
                while not self._items:
                    try:
                        async with asyncio.timeout(max(0.0, self.deadline.remaining_s)):
                            await ready.wait()
                    except TimeoutError:
                        self.expire()
                    ready.clear()  # before the items are read: a later item sets it again
                yield (item := self._next())
        finally:
            self.cancel()

    async def result_async(self) -> ApplyResult:
        """Return the result, without the events before it.  Cancelling this coroutine cancels the request.  Raises the
        terminal error."""
        async with contextlib.aclosing(self.events_async()) as events:
            async for event in events:
                if isinstance(event, FinalEvent):
                    return event.result
        raise AssertionError("a ticket ends in a final event or an error")

    def _next(self) -> ApplyEvent:
        item = self._items.popleft()
        if isinstance(item, ApplyError):
            raise item
        return item


def crash_error(error: BaseException) -> EngineFailure:
    """Return the error for an exception that is no ApplyError.  Logs where the exception came from, but not its
    message, which may quote code."""
    kind = type(error).__name__
    log.error("engine crashed: %s\n%s", kind, "".join(traceback.format_tb(error.__traceback__)))
    return EngineFailure(
        f"the engine failed on this request ({kind})", value=kind, remedy=f"{REPORT_LOG}; other requests go on"
    )
