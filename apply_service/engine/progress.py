"""Reports slow steps of a start: on standard error if it is a terminal, else in the log."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 1.0
"""Steps that take less time are not reported."""

log = logging.getLogger(__name__)


@contextmanager
def telling(text: str) -> Iterator[None]:
    """Report `text` if the block takes longer than `PATIENCE_S`."""

    def tell() -> None:
        if is_terminal():
            print(f"apply-service: {text} ...", file=sys.stderr, flush=True)
        else:
            log.info("%s", text)

    timer = threading.Timer(PATIENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def is_terminal() -> bool:
    """Tell whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
