"""One HTTP request as operations sees it: who asks, under which id, and what became of it.

`middleware` makes a `Call` for each request and puts it where everything below finds it, the request's tickets
included: a context variable.  Logs, metrics, limits and kept answers read it; no dialect has to.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from apply_service.errors import ApplyError
from apply_service.types import ApplyResult

ANONYMOUS = "anonymous"


@dataclass(slots=True)
class Call:
    """One request on its way.  Results and errors come from the engine's thread too, by appending alone."""

    request_id: str
    caller: str = ANONYMOUS
    """Name of the API key."""
    results: list[ApplyResult] = field(default_factory=list)
    errors: list[ApplyError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """What the response carries besides its own headers."""

    def note_error(self, error: ApplyError) -> None:
        """Remember an error once, however many places it passes."""
        if not any(error is known for known in self.errors):
            self.errors.append(error)


_current: ContextVar[Call | None] = ContextVar("apply_call", default=None)


def current_call() -> Call | None:
    """The call that this task, or this ticket's context, belongs to; None outside of any."""
    return _current.get()


def note_error(error: ApplyError) -> None:
    """Let the current call, if there is one, remember an error that its client is told of."""
    if (call := _current.get()) is not None:
        call.note_error(error)


def enter_call(call: Call) -> None:
    """Make it the current call of this task and of what it starts."""
    _current.set(call)
