"""A record as the request that every runner of ours sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from apply_eval.datasets import EditRecord
from apply_service.syntax.languages import find_language
from apply_service.types import ApplyRequest, Strategy


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What all requests of a run have in common."""

    strategy: Strategy = "auto"
    constrain: Literal["sources", "none"] | None = None
    seed: int = 0
    timeout_s: float = 600.0


def request_of(
    record: EditRecord, options: RequestOptions, *, drafter: str | None = None, model: str | None = None
) -> ApplyRequest:
    """The record's edit; greedy.  A language that the service does not know is left for it to find by the path."""
    is_known = find_language(record.language) is not None
    return ApplyRequest(
        original=record.before,
        update=record.update,
        path=record.path,
        language=record.language if is_known else None,
        strategy=options.strategy,
        constrain=options.constrain,
        drafter=drafter,
        model=model,
        seed=options.seed,
        timeout_s=options.timeout_s,
    )
