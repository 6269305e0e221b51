"""What a worker and its service say to each other: questions about the target one way, replies the other, one end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from apply_service.errors import ApplyError


class Known(Enum):
    """What both sides have, and is not sent: the request of the edit, and the way to learn that it was cancelled."""

    REQUEST = "request"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Question:
    """A method of a target to be called where the target is; no method: only what it says of itself."""

    model: str
    method: str | None = None
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by name."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the method gave, or raised."""

    value: Any = None
    error: ApplyError | None = None
    is_generator: bool = False
    """Whether it was a generator, whose result is the value."""


@dataclass(frozen=True, slots=True)
class Crash:
    """An exception that is no `ApplyError`: its class, and where it came from, without its message, which may quote
    code."""

    kind: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """The last message: a result, an error, or neither where the work crashed or the process died."""

    value: Any = None
    error: ApplyError | None = None
    crash: Crash | None = None


class Ask(Protocol):
    """Puts a question to the service and waits for its reply."""

    def __call__(self, question: Question) -> Reply: ...


Work = Callable[[Ask], Any]
"""What a worker is given: it can be sent to another process, as a function of a module with its arguments."""
