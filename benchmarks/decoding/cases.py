"""Edits made ready for a target: request, prompt, and for a replay target the known answer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Literal

from apply_eval.datasets import EditRecord
from apply_eval.replay import Replay
from apply_service.errors import ContextLimitExceeded
from apply_service.pipeline import read_edit
from apply_service.protocols import EditJob, PromptFormat
from apply_service.syntax.languages import detect_language
from apply_service.target import SPARE_TOKENS
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyRequest
from benchmarks.decoding.contenders import Case

Constrain = Literal["sources", "none"]


def make_cases(
    records: Sequence[EditRecord],
    prompt_format: PromptFormat,
    *,
    limit: int,
    max_tokens: int,
    seed: int,
    constrain: Constrain = "none",
) -> tuple[list[Case], int]:
    """At most `limit` cases drawn at random from those that take at most `max_tokens` of context, and how many were
    tried and found too long.

    Raises:
        ContextLimitExceeded: none fits.
    """
    order = list(records)
    random.Random(seed).shuffle(order)
    cases: list[Case] = []
    n_too_long = 0
    for record in order:
        if len(cases) >= limit:
            break
        case = make_case(record, prompt_format, constrain)
        if case.n_needed <= max_tokens:
            cases.append(case)
        else:
            n_too_long += 1
    if not cases:
        remedy = "use smaller files or a longer context"
        raise ContextLimitExceeded("no edit fits the context", value=n_too_long, limit=max_tokens, remedy=remedy)
    return cases, n_too_long


def make_case(
    record: EditRecord,
    prompt_format: PromptFormat,
    constrain: Constrain = "none",
    *,
    request: ApplyRequest | None = None,
) -> Case:
    """Read the edit and encode it.  `request`: another way to ask for it than by its snippet."""
    request = request or ApplyRequest(
        original=record.before, update=record.update, path=record.path, strategy="model", constrain=constrain
    )
    job = _read(request)
    after = normalise(record.after)
    answer = prompt_format.encode_output(after) if isinstance(prompt_format, Replay) else None
    longest = len(prompt_format.encode_sources(job).predicted.ids) + SPARE_TOKENS if answer is None else len(answer)
    return Case(
        id=record.id,
        request=request,
        job=job,
        after=after,
        prompt_ids=tuple(prompt_format.encode_prompt(job)),
        answer_ids=None if answer is None else tuple(answer),
        n_output=longest,
        reread=partial(_read, request),
    )


def _read(request: ApplyRequest) -> EditJob:
    return read_edit(request, detect_language(name=None, path=request.path))
