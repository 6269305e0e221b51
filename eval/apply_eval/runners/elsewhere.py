"""A target's tokens decoded by somebody else's loop: everything around the decoding is ours, so that answers compare.

The request goes through our reading, prompt, stop rule, byte restoring and checks; `Generate` gets prompt ids and
limits and gives back output ids.  Always the target's own answer (strategy `model`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import Answer, answer_of_result
from apply_eval.runners.request import RequestOptions, request_of
from apply_service.decider import TargetInfo
from apply_service.decoding.verify import Decoding
from apply_service.errors import ContextLimitExceeded, Truncated
from apply_service.pipeline import finish, read_request
from apply_service.protocols import EditJob
from apply_service.runtime import Runtime
from apply_service.strategies import Outcome
from apply_service.target import Target, in_process, open_decoding
from apply_service.types import DecodeStats


class Generated(NamedTuple):
    """What somebody's loop wrote, the stop token included, and when."""

    ids: list[int]
    passes: int
    ttft_s: float
    tok_s: float | None
    """After the first pass, which holds the prefill; None where it wrote all."""


Generate = Callable[[Target, Decoding, EditJob], Generated]
"""Decode the decoding's prompt, which asks for the job, up to its stop.  Raises ApplyError."""


def answer_elsewhere(
    record: EditRecord, runtime: Runtime, generate: Generate, *, name: str, options: RequestOptions, is_drafted: bool
) -> Answer:
    """The record answered by `generate` on the runtime's target.  Raises ApplyError.

    How many tokens the other loop drafted is not known; a pass that gave n tokens accepted n - 1 of them.
    """
    request = replace(request_of(record, options, drafter="none"), strategy="model")
    started = time.perf_counter()
    edit = read_request(request, runtime)
    job = edit.job
    target = in_process(runtime.load(runtime.models[0]))
    decoding = open_decoding(job, request, target, request.drafter or runtime.default_drafter)
    _refuse_past_context(len(decoding.prompt_ids), decoding.max_new_tokens, target.engine.context_limit)
    before_s = time.perf_counter() - started
    generated = generate(target, decoding, job)
    merged = target.prompt_format.decode_output(generated.ids)
    stats = DecodeStats(prompt_tokens=len(decoding.prompt_ids), completion_tokens=len(generated.ids))
    agreement = None if target.is_replay else merged == job.prediction.text
    outcome = Outcome(merged, "model", stats, TargetInfo.of(target), name, agreement=agreement)
    result = finish(request, edit, outcome)
    latency_s = time.perf_counter() - started
    answer = answer_of_result(result, latency_s=latency_s, ttft_s=before_s + generated.ttft_s)
    return replace(
        answer,
        tok_s=generated.tok_s,
        passes=generated.passes,
        n_drafted=None if is_drafted else 0,
        n_accepted=len(generated.ids) - generated.passes if is_drafted else 0,
        rejections=None if is_drafted else 0,
    )


def timed(ids: list[int], puts: Sequence[tuple[float, int]]) -> Generated:
    """`puts`: when the tokens came and how many, pass by pass, in seconds since the request."""
    first_s, n_first = puts[0]
    after_s, n_after = puts[-1][0] - first_s, len(ids) - n_first
    tok_s = n_after / after_s if n_after > 0 and after_s > 0 else None
    return Generated(ids, len(puts), first_s, tok_s)


def cut(ids: list[int], decoding: Decoding, stopped_at: int | None) -> list[int]:
    """Up to the token with which the output is complete.

    Raises:
        Truncated: it never was.
    """
    ends = [i for i, token in enumerate(ids) if token in decoding.stop_ids]
    ends += [] if stopped_at is None else [stopped_at]
    if not ends:
        raise Truncated("the output reached its token limit", value=len(ids), limit=decoding.max_new_tokens)
    return ids[: min(ends) + 1]


def _refuse_past_context(n_prompt: int, n_new: int, limit: int) -> None:
    if n_prompt + n_new > limit:
        raise ContextLimitExceeded(
            f"{n_prompt} prompt tokens and up to {n_new} new ones exceed the context limit",
            value=n_prompt + n_new,
            limit=limit,
            remedy="send a smaller file, or use a model with a longer context",
        )
