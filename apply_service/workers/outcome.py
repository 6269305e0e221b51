"""What the end of an errand means to whoever waits: a value, or an error of ours."""

from __future__ import annotations

import logging
from typing import Any

from apply_service.errors import EngineFailure
from apply_service.workers.messages import Crash, End

log = logging.getLogger(__name__)


def value_of(end: End) -> Any:
    """The result.

    Raises:
        ApplyError: what the work raised.
        EngineFailure: it crashed, or its process died.
    """
    if end.error is not None:
        raise end.error
    if end.crash is not None:
        raise crash_failure(end.crash)
    return end.value


def crash_failure(crash: Crash) -> EngineFailure:
    """A crash of a worker as an error of ours; logs where it came from."""
    log.error("worker crashed: %s\n%s", crash.kind, crash.trace)
    return EngineFailure(
        f"The process that worked on this request failed ({crash.kind}).",
        value=crash.kind,
        remedy="See the service's log; other requests go on.",
    )
