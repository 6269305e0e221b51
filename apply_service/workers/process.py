"""What runs in a worker process: one piece of work after the other, until the service hangs up."""

from __future__ import annotations

import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

from apply_service.errors import ApplyError
from apply_service.workers.messages import Crash, End, Question, Reply, Work


def serve(line: Connection[Any, Any]) -> None:
    """Work until the other end of the line is closed, or gone with its process.  No work is answered, too: a sign of
    life.

    An interrupt from the terminal reaches every process of the group; only the service decides what it means.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            _send(line, _end_of_next(line))
        except (EOFError, OSError):
            return


def _end_of_next(line: Connection[Any, Any]) -> End:
    """Raises EOFError, OSError: the service is gone."""

    def ask(question: Question) -> Reply:
        line.send(question)
        reply: Reply = line.recv()
        return reply

    try:
        work: Work | None = line.recv()
        return End(None if work is None else work(ask))
    except ApplyError as error:
        return End(error=error)
    except (EOFError, OSError):
        raise
    except BaseException as error:  # a panic of native code, too
        return End(crash=crash_of(error))


def _send(line: Connection[Any, Any], end: End) -> None:
    try:
        line.send(end)
    except OSError:
        raise
    except Exception as error:  # what can't be sent
        line.send(End(crash=crash_of(error)))


def crash_of(error: BaseException) -> Crash:
    return Crash(type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
