"""One request while it is being answered: the pipeline's generator, driven from pass to pass.

Whatever the generator raises becomes the ticket's terminal error; the generator is closed on every way out, which
frees its slots.  `service` runs many of these at once.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from apply_service.deadline import Deadline, cancelled_error
from apply_service.decoding.scheduler import Answer, NextPass
from apply_service.decoding.verify import Decoding
from apply_service.errors import ApplyError, Cancelled, EngineFailure
from apply_service.pipeline import InWorker, Running
from apply_service.ticket import Terminal, Ticket
from apply_service.types import ApplyRequest, FinalEvent

Run = Callable[[ApplyRequest, Deadline], Running]
"""The pipeline (`pipeline.run`); stops where the deadline says so."""

log = logging.getLogger(__name__)


class Task:
    """A ticket being answered.  `decodings` are what it needs a pass of; none once it has ended."""

    def __init__(self, ticket: Ticket, run: Run) -> None:
        self.ticket = ticket
        self.decodings: tuple[Decoding, ...] = ()
        self.rest: InWorker | None = None
        """What is left to do, in a worker process, once it needs no more passes."""
        self._events = _started(run, ticket)

    def advance(self, outcome: Answer | None) -> None:
        """Send in what the last pass did, and pass on events until the request needs a pass again or has ended."""
        self.decodings = ()
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
        self.decodings = ()
        try:
            self._events.close()
        except BaseException as error:
            terminal = self.ticket.context.copy().run(crash_error, error)
        if isinstance(terminal, Cancelled) and self.ticket.deadline.is_late:
            self.ticket.expire()
        self.ticket.end(terminal)

    def _advance(self, outcome: Answer | None) -> Terminal | None:
        deadline = self.ticket.deadline
        if deadline.is_over():
            return cancelled_error()
        try:
            item = self._events.throw(outcome) if isinstance(outcome, BaseException) else self._events.send(outcome)
            while not isinstance(item, NextPass | InWorker):
                if isinstance(item, FinalEvent):
                    return item
                self.ticket.put(item)
                if deadline.is_over():
                    return cancelled_error()
                item = next(self._events)
        except StopIteration:
            return cancelled_error() if deadline.is_over() else EngineFailure("The engine ended without an answer.")
        if isinstance(item, InWorker):
            self.rest = item
            self._events.close()
            return None
        self.decodings = item.decodings
        return None if self.decodings else EngineFailure("The engine was asked for a pass of nothing.")


def _started(run: Run, ticket: Ticket) -> Running:
    """Calls `run` at the first step only, where its errors are caught, whatever it is."""
    return (yield from run(ticket.request, ticket.deadline))


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
