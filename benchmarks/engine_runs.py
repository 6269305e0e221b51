"""Our engine as a contender: one drafter on one edit or a batch of them, through the packed scheduler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from uuid import uuid4

import torch

from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.errors import EngineFailure
from apply_service.target import Target, open_decoding
from benchmarks.bench_case import Case
from benchmarks.bench_sample import Sample
from benchmarks.peer_runs import is_right, text_of


@dataclass(frozen=True, slots=True)
class EngineContender:
    """`drafter` on `target`, whose engine is the padded one, or for undrafted decoding its `plain`."""

    name: str
    target: Target
    drafter: str

    @property
    def max_batch(self) -> int | None:
        return None

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Sample:
        """Decode the edits together, each at most `cap` tokens; timed from the requests on.

        Of a batch all prompts are read before the first token is written, so that all edits decode together; prompts
        that an earlier batch has read may come from the prefix cache.  An edit alone reads its prompt anew.
        """
        owner = "batches" if len(cases) > 1 else uuid4().hex
        started_s = time.perf_counter()
        with ExitStack() as stack:
            decodings = [stack.enter_context(self._open(case, cap, owner)) for case in cases]
            read_prompts(decodings)
            wait_for_device()
            decode_started_s = time.perf_counter()
            first_s = write_outputs(decodings)
            ended_s = time.perf_counter()
            texts = [text_of(self.target, decoding.output_ids) for decoding in decodings]
            last_s = time.perf_counter()
        stats = [decoding.stats for decoding in decodings]
        return Sample(
            target=self.target.name,
            contender=self.name,
            batch=len(cases),
            group=group,
            n_prompt_tokens=sum(s.prompt_tokens for s in stats),
            n_tokens=sum(s.completion_tokens for s in stats),
            n_chars=sum(map(len, texts)),
            decode_s=ended_s - decode_started_s,
            first_token_s=statistics.median(first_s) - started_s,
            passes=sum(s.passes for s in stats),
            drafted=sum(s.drafted_tokens for s in stats),
            accepted=sum(s.accepted_tokens for s in stats),
            rejections=sum(s.rejections for s in stats),
            is_capped=cap is not None,
            end_to_end_s=None if cap is not None else last_s - started_s,
            draft_s=sum(s.draft_s for s in stats),
            n_exact=sum(is_right(text, case, cap) for text, case in zip(texts, cases, strict=True)),
        )

    def _open(self, case: Case, cap: int | None, owner: str) -> Decoding:
        limit = case.n_output if cap is None else min(cap, case.n_output)
        request = replace(case.request, drafter=self.drafter, max_tokens=limit, owner=owner)
        return open_decoding(case.reread(), request, self.target, self.drafter)


def wait_for_device() -> None:
    """Until a GPU has done what it was given: passes that only read prompts are not waited for by the engine."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def refuse(error: Exception) -> None:
    """Sequences whose pass failed would go on one by one: another thing than what is measured."""
    raise error


def read_prompts(decodings: Sequence[Decoding]) -> None:
    """Prefill all of them.

    Raises:
        EngineFailure: they do not fit together.
    """
    scheduler = Scheduler(on_failure=refuse)
    while reading := [d for d in decodings if d.session is None or d.session.n_pending]:
        n_before = sum(d.stats.prefill_passes for d in reading)
        _raise_errors(scheduler.run_pass(reading))
        if sum(d.stats.prefill_passes for d in reading) == n_before and any(d.session is None for d in reading):
            raise EngineFailure(
                "the engine has no room for the whole batch",
                value=len(decodings),
                limit=sum(d.session is not None for d in decodings),
                remedy="give it more memory for keys and values, or decode fewer edits together",
            )


def write_outputs(decodings: Sequence[Decoding]) -> list[float]:
    """Decode all of them to their ends; when each had its first token, on the clock of `perf_counter`."""
    scheduler = Scheduler(on_failure=refuse)
    first_s: dict[Decoding, float] = {}
    while active := [d for d in decodings if d.finish_reason is None]:
        outcomes = scheduler.run_pass(active)
        _raise_errors(outcomes)
        now_s = time.perf_counter()
        for decoding, outcome in zip(active, outcomes, strict=True):
            if outcome is not None:
                first_s.setdefault(decoding, now_s)
    return [first_s[decoding] for decoding in decodings]


def _raise_errors(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
