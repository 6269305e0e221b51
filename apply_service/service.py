"""Admission and the engine thread: between the front ends, which are many, and the pipeline, which is one.

A front end submits a request and gets a `Ticket`; one thread takes the tickets in order and drives the pipeline for
each.  Every accepted request ends in exactly one terminal item: a final event, or an `ApplyError`.  A bounded queue
refuses what it cannot hold, a deadline is kept even where the engine hangs, a caller who goes away stops the decoding
at the next pass, and a crash costs only the request that caused it.

It knows neither HTTP nor what the pipeline does; both are handed in.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from apply_service.errors import ApplyError, Cancelled, EngineFailure, InvalidField, NotReady, Overloaded
from apply_service.settings import Settings
from apply_service.ticket import Terminal, Ticket, cancelled_error
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent

if TYPE_CHECKING:
    from apply_service.strategies import Runtime

Run = Callable[[ApplyRequest, Callable[[], bool]], Generator[ApplyEvent]]
"""The pipeline: events of a request; polls the callable once a pass and stops where it says so."""

JOIN_TIMEOUT_S = 5.0
"""How long `close` waits for the pass in progress; a thread that hangs longer is left behind (it is a daemon)."""

log = logging.getLogger(__name__)


class Service:
    """The queue and the engine thread.  A context manager; leaving it closes it."""

    def __init__(
        self, run: Run, *, queue_limit: int = 64, default_timeout_s: float = 120.0, max_timeout_s: float = 600.0
    ) -> None:
        self._run = run
        self._queue_limit = queue_limit
        self._default_timeout_s = default_timeout_s
        self._max_timeout_s = max_timeout_s
        self._state = threading.Condition()
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._is_open = True
        self._n_accepted = 0
        self._n_ended = 0
        self._thread = threading.Thread(target=self._serve, name="apply-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine thread runs."""
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether a request would be accepted, the length of the queue aside."""
        return self._is_open and self.is_alive

    @property
    def queue_length(self) -> int:
        return len(self._waiting)

    def submit(self, request: ApplyRequest) -> Ticket:
        """Accept a request.

        Raises:
            Overloaded: the queue is full.
            NotReady: the service is closing.
            InvalidField: the deadline is longer than allowed.
        """
        ticket = Ticket(request, self._timeout_s(request), self._forget)
        with self._state:
            self._refuse_if_unable()
            self._waiting.append(ticket)
            self._n_accepted += 1
            self._state.notify_all()
        return ticket

    def apply(self, request: ApplyRequest) -> ApplyResult:
        """Submit and wait for the answer.  Raises the terminal error."""
        for event in self.submit(request).events():
            if isinstance(event, FinalEvent):
                return event.result
        raise AssertionError("a ticket ends in a final event or an error")

    def check_integrity(self) -> None:
        """To be called while idle.

        Raises:
            EngineFailure: a request has been lost, or answered twice, or the engine thread has died.
        """
        with self._state:
            lost = self._n_accepted - self._n_ended
            if lost or self._waiting or self._running is not None or self._thread.is_alive() != self._is_open:
                raise EngineFailure(
                    f"Integrity: {lost} requests without an end, {len(self._waiting)} waiting, "
                    f"running: {self._running is not None}, thread alive: {self._thread.is_alive()}."
                )

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Whether everything accepted has ended, and the engine is free, within the time."""
        with self._state:
            return self._state.wait_for(self._is_idle, timeout_s)

    def close(self, drain_timeout_s: float = 0.0) -> None:
        """Accept nothing more, let accepted requests finish for so long, end the rest with `NotReady`, stop the
        thread.  A second call does nothing."""
        with self._state:
            self._is_open = False
            self._state.notify_all()
            self._state.wait_for(self._is_idle, drain_timeout_s)
            left = [*self._waiting, *([self._running] if self._running is not None else [])]
        for ticket in left:
            ticket.end(closing_error())
        self._thread.join(JOIN_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- admission -------------------------------------------------------------------------------------------------
    def _timeout_s(self, request: ApplyRequest) -> float:
        timeout_s = self._default_timeout_s if request.timeout_s is None else request.timeout_s
        if not 0 < timeout_s <= self._max_timeout_s:
            raise InvalidField(
                "timeout_s is out of range.",
                value=timeout_s,
                limit=f"above 0, at most {self._max_timeout_s:g}",
                remedy="Ask for a deadline within the limit, or raise max_timeout_s.",
            )
        return timeout_s

    def _refuse_if_unable(self) -> None:
        if not self._is_open:
            raise closing_error()
        if len(self._waiting) >= self._queue_limit:
            raise Overloaded(
                "The queue is full.",
                value=len(self._waiting),
                limit=self._queue_limit,
                remedy="Wait a moment and send the request again.",
            )

    def _forget(self, ticket: Ticket) -> None:
        with self._state:
            self._n_ended += 1
            with contextlib.suppress(ValueError):
                self._waiting.remove(ticket)
            self._state.notify_all()

    def _is_idle(self) -> bool:
        return not self._waiting and self._running is None and self._n_accepted == self._n_ended

    # -- engine thread ---------------------------------------------------------------------------------------------
    def _serve(self) -> None:
        while (ticket := self._take_next()) is not None:
            self._answer(ticket)
            with self._state:
                self._running = None
                self._state.notify_all()

    def _take_next(self) -> Ticket | None:
        with self._state:
            self._state.wait_for(lambda: self._waiting or not self._is_open)
            if not self._waiting:
                return None
            self._running = self._waiting.popleft()
            return self._running

    def _answer(self, ticket: Ticket) -> None:
        try:
            terminal = self._drive(ticket)
        except ApplyError as error:
            terminal = error
        except BaseException as error:  # whatever it is, the thread goes on and the caller gets an answer
            terminal = crash_error(error)
        if isinstance(terminal, Cancelled) and ticket.is_late:
            ticket.expire()
        ticket.end(terminal)

    def _drive(self, ticket: Ticket) -> Terminal:
        """Run the pipeline to its end or until nobody waits; the events are closed either way, which frees the
        session."""
        if ticket.is_stopped():
            return cancelled_error()
        events = self._run(ticket.request, ticket.is_stopped)
        with contextlib.closing(events):
            for event in events:
                if isinstance(event, FinalEvent):
                    return event
                ticket.put(event)
                if ticket.is_stopped():
                    return cancelled_error()
        return cancelled_error() if ticket.is_stopped() else EngineFailure("The engine ended without an answer.")


def open_service(runtime: Runtime, settings: Settings) -> Service:
    """A service over the real pipeline."""
    from apply_service.pipeline import run

    return Service(
        lambda request, cancelled: run(request, runtime, cancelled),
        queue_limit=settings.queue_limit,
        default_timeout_s=settings.default_timeout_s,
        max_timeout_s=settings.max_timeout_s,
    )


# -- errors ------------------------------------------------------------------------------------------------------------
def closing_error() -> NotReady:
    return NotReady("The service is shutting down.", remedy="Send the request again when it is back.")


def crash_error(error: BaseException) -> EngineFailure:
    """A foreign exception as an error of ours; logs where it came from."""
    kind = type(error).__name__
    # The message of a foreign exception may quote the user's code, which logs do not hold.
    log.error("engine crashed: %s\n%s", kind, "".join(traceback.format_tb(error.__traceback__)))
    return EngineFailure(
        f"The engine failed on this request ({kind}).",
        value=kind,
        remedy="See the service's log; other requests go on.",
    )
