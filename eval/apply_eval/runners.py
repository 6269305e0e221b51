"""Runners answer records and are measured; here those of our own service, in this process or over HTTP.

A runner answers one record and tells the cost.  `scores` judges the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from apply_eval.datasets import EditRecord
from apply_service import errors
from apply_service.errors import ApplyError, Cancelled, EngineFailure, NotReady, Overloaded, ServiceError
from apply_service.pipeline import run_alone
from apply_service.syntax.languages import find_language
from apply_service.target import Runtime
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent, Strategy, TokenEvent

MISSING_IN_PROCESS: tuple[type[ApplyError], ...] = (Cancelled, NotReady, Overloaded)
MISSING_OVER_HTTP: tuple[type[ApplyError], ...] = (
    *(ServiceError, errors.NotFound, errors.MethodNotAllowed, errors.RequestTimeout, errors.Unauthorized),
    *(errors.OriginRefused, errors.UnknownModel, errors.UnknownDrafter),
)
"""From outside, a broken connection and a crashed service look alike; and a wrong URL, key or name is a mistake of
whoever measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The cost of an answer, and its own findings and confidence.  None means "not known here", never zero."""

    latency_s: float | None = None
    """From the request to the last byte, on the caller's clock."""
    ttft_s: float | None = None
    """To the first piece of text."""
    n_prompt_tokens: int | None = None
    n_tokens: int | None = None
    """Generated; 0 where a program answered."""
    tok_s: float | None = None
    """Generated tokens a second, without the prefill if the runner can tell it apart."""
    passes: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    rejections: int | None = None
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    """Names of the checks that found something."""
    confidence: float | None = None
    certainty: str | None = None
    strategy: str | None = None
    agreement: bool | None = None


@dataclass(frozen=True, slots=True)
class Answer(Told):
    """The merged text, its cost and findings."""

    text: str


class Runner(Protocol):
    """One contestant of a run: a drafter on a target, a peer, a service."""

    name: str
    missing: tuple[type[ApplyError], ...]
    """Errors that are not the contestant's fault.  The sample is then missing, not wrong."""

    def answer(self, record: EditRecord) -> Answer:
        """Answer one edit.  Raises ApplyError: a refusal, or one of `missing`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of all requests of a run."""

    strategy: Strategy = "auto"
    constrain: Literal["sources", "none"] | None = None
    seed: int = 0
    timeout_s: float = 600.0
    by_subject: bool = False
    """Whether an edit is asked for by its commit's subject, as an instruction, in place of its snippet."""


def request_of(
    record: EditRecord, options: RequestOptions, *, drafter: str | None = None, model: str | None = None
) -> ApplyRequest:
    """A greedy request for the record's edit.  Without a language if the service does not know the record's."""
    return ApplyRequest(
        original=record.before,
        update="" if options.by_subject else record.update,
        instruction=record.subject if options.by_subject else "",
        path=record.path,
        language=record.language if find_language(record.language) is not None else None,
        strategy=options.strategy,
        constrain=options.constrain,
        drafter=drafter,
        model=model,
        seed=options.seed,
        timeout_s=options.timeout_s,
    )


def answer_of_result(result: ApplyResult, *, latency_s: float, ttft_s: float | None) -> Answer:
    """Our own service's result as an answer."""
    stats = result.stats
    return Answer(
        text=result.merged_code,
        latency_s=latency_s,
        ttft_s=ttft_s,
        n_prompt_tokens=stats.prompt_tokens,
        n_tokens=stats.completion_tokens,
        tok_s=stats.tokens_per_s or None,
        passes=stats.passes,
        n_drafted=stats.drafted_tokens,
        n_accepted=stats.accepted_tokens,
        rejections=stats.rejections,
        accepted_by_source=dict(stats.accepted_by_source),
        findings=tuple(dict.fromkeys(v.check for v in result.verdicts if not v.is_pass)),
        confidence=result.confidence,
        certainty=result.certainty.value,
        strategy=result.strategy,
        agreement=result.agreement,
    )


class OwnService:
    """Our own service with one drafter (None: its default).  `events` yields the events of the pipeline."""

    def __init__(
        self,
        name: str,
        events: Callable[[ApplyRequest], Iterator[ApplyEvent]],
        *,
        options: RequestOptions,
        drafter: str | None,
        model: str | None = None,
        missing: tuple[type[ApplyError], ...] = MISSING_IN_PROCESS,
    ) -> None:
        self.name, self.missing = name, missing
        self._events, self._options, self._drafter, self._model = events, options, drafter, model

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
        """Nothing is held."""


def alone(name: str, runtime: Runtime, *, options: RequestOptions, drafter: str | None) -> OwnService:
    """One request at a time, straight through the pipeline."""
    return OwnService(name, lambda request: run_alone(request, runtime), options=options, drafter=drafter)
