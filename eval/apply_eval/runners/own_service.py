"""Our own service as a runner: one drafter on a target, alone or packed with other requests, here or over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import MISSING_IN_PROCESS, Answer, answer_of_result
from apply_eval.runners.request import RequestOptions, request_of
from apply_service.build import open_service
from apply_service.errors import ApplyError, EngineFailure
from apply_service.pipeline import run_alone
from apply_service.runtime import Runtime
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, TokenEvent

Events = Callable[[ApplyRequest], Iterator[ApplyEvent]]
PATIENCE_S = 86_400.0
"""A measurement never loses a request to a deadline or a full queue of its own."""


class OwnService:
    """One drafter; None leaves the choice to the service.  `events` answers a request as the pipeline does."""

    def __init__(
        self,
        name: str,
        events: Events,
        *,
        options: RequestOptions,
        drafter: str | None,
        model: str | None = None,
        is_concurrent: bool = False,
        missing: tuple[type[ApplyError], ...] = MISSING_IN_PROCESS,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.is_concurrent = is_concurrent
        self.missing = missing
        self._events = events
        self._options = options
        self._drafter = drafter
        self._model = model
        self._close = close

    def answer(self, record: EditRecord) -> Answer:
        request = request_of(record, self._options, drafter=self._drafter, model=self._model)
        started = time.perf_counter()
        ttft_s: float | None = None
        for event in self._events(request):
            elapsed_s = time.perf_counter() - started
            if ttft_s is None and isinstance(event, TokenEvent):
                ttft_s = elapsed_s
            if isinstance(event, FinalEvent):
                return answer_of_result(event.result, latency_s=elapsed_s, ttft_s=ttft_s)
        raise EngineFailure("The pipeline ended without an answer.")

    def close(self) -> None:
        self._close()


def alone(name: str, runtime: Runtime, *, options: RequestOptions, drafter: str | None) -> OwnService:
    """One request at a time, straight through the pipeline."""
    return OwnService(name, lambda request: run_alone(request, runtime), options=options, drafter=drafter)


def packed(
    name: str, runtime: Runtime, *, options: RequestOptions, drafter: str | None, concurrency: int
) -> OwnService:
    """Through the service's queue and engine thread, which packs what is active."""
    service = open_service(
        runtime,
        Settings(
            max_active=concurrency,
            queue_limit=max(64, 2 * concurrency),
            default_timeout_s=PATIENCE_S,
            max_timeout_s=PATIENCE_S,
        ),
    )
    return OwnService(
        name,
        lambda request: _ticket_events(service, request),
        options=options,
        drafter=drafter,
        is_concurrent=True,
        close=service.close,
    )


def _ticket_events(service: Service, request: ApplyRequest) -> Iterator[ApplyEvent]:
    return iter(service.submit(request).events())
