"""What every runner gives back, and what a runner is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from apply_eval.datasets import EditRecord
from apply_service import errors
from apply_service.errors import ApplyError, Cancelled, NotReady, Overloaded, ServiceError
from apply_service.types import ApplyResult, PassCount


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer and its cost.  None is "not known here", never zero."""

    text: str
    latency_s: float
    """From the request to the last byte, on the caller's clock."""
    ttft_s: float | None = None
    """To the first piece of text."""
    n_prompt_tokens: int | None = None
    n_tokens: int | None = None
    """Generated; 0 where a program answered."""
    tok_s: float | None = None
    """Generated tokens a second, prefill aside where the runner can tell it apart."""
    passes: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    rejections: int | None = None
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    pass_counts: tuple[PassCount, ...] = ()
    findings: tuple[str, ...] = ()
    """Names of the checks that found something."""
    confidence: float | None = None
    certainty: str | None = None
    strategy: str | None = None
    agreement: bool | None = None


LABELS = frozenset({"replay"})
"""Verdicts that label an answer and say nothing of whether it is right."""


class Runner(Protocol):
    """One contestant of a run: a drafter on a target, a peer, a service."""

    name: str
    is_concurrent: bool
    """Whether `answer` may be called from several threads at a time."""
    missing: tuple[type[ApplyError], ...]
    """Errors that say nothing of the contestant: the sample is missing then, not wrong."""

    def answer(self, record: EditRecord) -> Answer:
        """Answer one edit.  Raises ApplyError: a refusal, or one of `missing`."""
        ...

    def close(self) -> None: ...


MISSING_IN_PROCESS: tuple[type[ApplyError], ...] = (Cancelled, NotReady, Overloaded)
MISSING_OVER_HTTP: tuple[type[ApplyError], ...] = (
    ServiceError,
    errors.NotFound,
    errors.MethodNotAllowed,
    errors.RequestTimeout,
    errors.Unauthorized,
    errors.OriginRefused,
    errors.UnknownModel,
    errors.UnknownDrafter,
)
"""From outside, a broken connection and a service that fell over look alike; and a wrong URL, key or name is the
measurer's mistake."""


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
        pass_counts=tuple(stats.pass_counts),
        findings=tuple(dict.fromkeys(v.check for v in result.verdicts if not v.is_pass and v.check not in LABELS)),
        confidence=result.confidence,
        certainty=result.certainty.value,
        strategy=result.strategy,
        agreement=result.agreement,
    )
