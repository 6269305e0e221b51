"""Small edits: each is read in a worker process, and answered there where no target is needed.

So neither the engine's thread nor the event loop ever looks into an edit: one that takes too long to read is killed
with its process.  What needs a target comes back as it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NoReturn

from apply_service.pipeline import ReadEdit, Running, answer_without_target, run
from apply_service.runtime import Runtime
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, ApplyResult
from apply_service.workers.large_edits import count_chars
from apply_service.workers.messages import Ask, Work
from apply_service.workers.pool import WorkerPool


@dataclass(frozen=True, slots=True)
class SmallLane:
    """Where a service has its small edits read."""

    takes: Callable[[ApplyRequest], bool]
    read: Callable[[ApplyRequest], Work]
    """What a worker is to do: gives an `ApplyResult`, or a `ReadEdit`."""
    run: Callable[[ApplyRequest, Callable[[], bool], ReadEdit], Running]
    """As `pipeline.run`, for the engine's thread, of an edit that was read."""
    pool: WorkerPool
    n_workers: int


def open_small_lane(runtime: Runtime, settings: Settings) -> SmallLane | None:
    """A lane whose first process is being started; None where the settings want none."""
    if settings.small_edit_workers == 0:
        return None
    facts = {field.name: getattr(runtime, field.name) for field in fields(runtime) if field.name != "load"}
    pool = WorkerPool(settings.small_edit_workers)
    pool.start(do_nothing)
    return SmallLane(
        lambda request: count_chars(request) < settings.large_edit_chars,
        lambda request: partial(read_in_worker, request, facts),
        lambda request, cancelled, read: run(request, runtime, cancelled, read),
        pool,
        settings.small_edit_workers,
    )


# -- in the worker -----------------------------------------------------------------------------------------------------
def read_in_worker(request: ApplyRequest, facts: Mapping[str, Any], ask: Ask) -> ApplyResult | ReadEdit:  # noqa: ARG001
    """The answer where no target is needed, else the edit as it was read.  `facts` are those of the runtime but for its
    models.

    Raises:
        ApplyError: as `pipeline.run`.
    """
    return answer_without_target(request, Runtime(load=_no_target, **facts))


def do_nothing(ask: Ask) -> None:
    """So that a process is there when the first edit comes."""


def _no_target(model: str) -> NoReturn:
    raise AssertionError(f"{model} was asked for where no target is needed")
