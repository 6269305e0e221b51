"""One request while the engine thread works on it: the pipeline's generator, driven from pass to pass.

Whatever the generator raises becomes the ticket's terminal error; the generator is closed on every way out, which
frees its slots.  `service` runs many of these at once.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Generator

from apply_service.decoding.scheduler import Answer, Elsewhere, Need, NextPass
from apply_service.decoding.verify import Decoding, Step
from apply_service.errors import ApplyError, Cancelled, EngineFailure
from apply_service.ticket import Terminal, Ticket, cancelled_error
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent

Running = Generator[ApplyEvent | Need, tuple[Step | None, ...] | None, None]
Run = Callable[[ApplyRequest, Callable[[], bool]], Running]
"""The pipeline (`pipeline.run`); polls the callable and stops where it says so."""

log = logging.getLogger(__name__)


class Task:
    """A ticket being answered.  `decodings` are what it needs a pass of, `elsewhere` what it waits for; neither once it
    has ended."""

    def __init__(self, ticket: Ticket, run: Run) -> None:
        self.ticket = ticket
        self.decodings: tuple[Decoding, ...] = ()
        self.elsewhere: Elsewhere | None = None
        self._events = _started(run, ticket)

    @property
    def is_active(self) -> bool:
        """Whether it needs anything more."""
        return bool(self.decodings) or self.elsewhere is not None

    @property
    def has_news(self) -> bool:
        """Whether it can go on without a pass: there is news from elsewhere, or nobody waits for it any more."""
        return self.elsewhere is not None and (self.ticket.is_stopped() or self.elsewhere.has_news())

    def advance(self, outcome: Answer | None) -> None:
        """Send in what the last pass did, and pass on events until the request needs something again or has ended."""
        self.decodings, self.elsewhere = (), None
        try:
            terminal = self._advance(outcome)
        except ApplyError as error:
            terminal = error
        except BaseException as error:  # whatever it is, the thread goes on and the caller gets an answer
            terminal = self.ticket.context.copy().run(crash_error, error)
        if terminal is not None:
            self.end(terminal)

    def end(self, terminal: Terminal) -> None:
        """End the request and free what it holds."""
        self.decodings, self.elsewhere = (), None
        try:
            self._events.close()
        except BaseException as error:
            terminal = self.ticket.context.copy().run(crash_error, error)
        if isinstance(terminal, Cancelled) and self.ticket.is_late:
            self.ticket.expire()
        self.ticket.end(terminal)

    def _advance(self, outcome: Answer | None) -> Terminal | None:
        if self.ticket.is_stopped():
            return cancelled_error()
        try:
            item = self._events.throw(outcome) if isinstance(outcome, BaseException) else self._events.send(outcome)
            while not isinstance(item, NextPass | Elsewhere):
                if isinstance(item, FinalEvent):
                    return item
                self.ticket.put(item)
                if self.ticket.is_stopped():
                    return cancelled_error()
                item = next(self._events)
        except StopIteration:
            return (
                cancelled_error() if self.ticket.is_stopped() else EngineFailure("The engine ended without an answer.")
            )
        if isinstance(item, Elsewhere):
            self.elsewhere = item
            return None
        self.decodings = item.decodings
        return None if self.decodings else EngineFailure("The engine was asked for a pass of nothing.")


def _started(run: Run, ticket: Ticket) -> Running:
    """Calls `run` at the first step only, where its errors are caught, whatever it is."""
    return (yield from run(ticket.request, ticket.is_stopped))


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
