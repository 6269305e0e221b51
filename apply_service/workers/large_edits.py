"""A large edit: the whole pipeline runs in a worker process, and only what the target decides comes back to the engine
thread, which goes on with the edits beside it meanwhile.

A request that is cancelled, or whose deadline passes, ends at once: its process is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from apply_service.decoding.scheduler import Elsewhere, Need
from apply_service.decoding.verify import Step
from apply_service.errors import ApplyError
from apply_service.pipeline import Running, run
from apply_service.runtime import Runtime
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent, TokenEvent
from apply_service.workers.messages import Ask, Known, Question, Reply
from apply_service.workers.outcome import value_of
from apply_service.workers.pool import WorkerPool
from apply_service.workers.stand_in import facts_of, never_cancelled, open_stand_in

HEAVY_CHARS = 1_000_000
"""A process that has merged more than this is not kept: it holds hundreds of megabytes that nobody may need again."""


def count_chars(request: ApplyRequest) -> int:
    """How large an edit is."""
    return len(request.original) + len(request.update)


@dataclass(frozen=True, slots=True)
class LargeLane:
    """Where a service runs its large edits."""

    run: Callable[[ApplyRequest, Callable[[], bool]], Running]
    is_large: Callable[[ApplyRequest], bool]
    pool: WorkerPool
    n_workers: int
    """How many run at a time."""


def open_lane(runtime: Runtime, settings: Settings) -> LargeLane | None:
    """A lane with processes that are started when the first large edit comes; None where the settings want none."""
    if settings.large_edit_workers == 0:
        return None
    pool = WorkerPool(settings.large_edit_workers)
    return LargeLane(
        lambda request, cancelled: run_large(request, runtime, cancelled, pool),
        lambda request: count_chars(request) >= settings.large_edit_chars,
        pool,
        settings.large_edit_workers,
    )


# -- in the worker -----------------------------------------------------------------------------------------------------
def apply_in_worker(request: ApplyRequest, facts: Mapping[str, Any], ask: Ask) -> ApplyResult:
    """The pipeline, with a stand-in for the target.  `facts` are those of the runtime but for its models.

    Raises:
        ApplyError: as `pipeline.run`.
    """
    runtime = Runtime(load=lambda model: open_stand_in(model, request, ask), **facts)
    for event in run(request, runtime, never_cancelled):
        if isinstance(event, FinalEvent):
            return event.result
    raise AssertionError("a run ends in a final event or an error; a stand-in needs no passes")


# -- in the service ----------------------------------------------------------------------------------------------------
def run_large(request: ApplyRequest, runtime: Runtime, cancelled: Callable[[], bool], pool: WorkerPool) -> Running:
    """As `pipeline.run`, in a process of the pool.

    Raises:
        EngineFailure: the process crashed.  Otherwise as `pipeline.run`.
    """
    facts = {field.name: getattr(runtime, field.name) for field in fields(runtime) if field.name != "load"}
    errand = pool.start(partial(apply_in_worker, request, facts), is_heavy=count_chars(request) > HEAVY_CHARS)
    try:
        while True:
            yield Elsewhere(errand.has_news)
            if not errand.has_news():
                continue
            news = errand.take()
            if not isinstance(news, Question):
                break
            errand.reply((yield from _answer(news, request, runtime, cancelled)))
    finally:
        errand.stop()
    yield FinalEvent(value_of(news))


Answering = Generator[TokenEvent | Need, tuple[Step | None, ...] | None, Reply]


def _answer(question: Question, request: ApplyRequest, runtime: Runtime, cancelled: Callable[[], bool]) -> Answering:
    """What the target here says; its passes are the caller's to run."""
    ours = {Known.REQUEST: request, Known.CANCELLED: cancelled}

    def known(value: Any) -> Any:
        return ours[value] if isinstance(value, Known) else value

    try:
        target = runtime.load(question.model)
        if question.method is None:
            return Reply(facts_of(target))
        options = {key: known(value) for key, value in question.options.items()}
        value = getattr(target, question.method)(*map(known, question.arguments), **options)
        if isinstance(value, Generator):
            return Reply((yield from value), is_generator=True)
    except ApplyError as error:
        return Reply(error=error)
    return Reply(value)
