"""What runs in a worker process: one call after the other, until the service hangs up."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from apply_service.errors import ApplyError


@dataclass(frozen=True, slots=True)
class Crash:
    """An exception that is no `ApplyError`: its class, and where it came from, without its message, which may quote
    code."""

    kind: str
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Crash:
        return cls(type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))


@dataclass(frozen=True, slots=True)
class End:
    """How a call ended: with a value, or with an error."""

    value: Any = None
    error: ApplyError | Crash | None = None


def serve(line: Connection[Any, Any]) -> None:
    """Call what comes over the line and send back its `End`, until the other side is gone.  None is a sign of life, and
    answered by another.

    An interrupt from the terminal reaches every process of the group; only the service decides what it means.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            end = _next_end(line)
            try:
                line.send(end)
            except OSError:
                raise
            except Exception as error:  # the value can't be sent
                line.send(End(error=Crash.of(error)))
        except (EOFError, OSError):
            return


def _next_end(line: Connection[Any, Any]) -> End:
    """Raises EOFError, OSError: the service is gone."""
    try:
        call: Callable[[], Any] | None = line.recv()
    except (EOFError, OSError):
        raise
    except BaseException as error:  # what was sent can't be read here
        return End(error=Crash.of(error))
    try:
        return End(None if call is None else call())
    except ApplyError as error:
        return End(error=error)
    except BaseException as error:  # a panic of native code, too
        return End(error=Crash.of(error))
