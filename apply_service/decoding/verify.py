"""The decoding loop: propose a draft, verify it in one pass, commit what stands, observe, repeat.

Lossless by construction: every committed token is the target's own choice given the committed prefix; a draft only
decides how many of them one pass can commit.  Knows token ids, not text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from apply_service.errors import Cancelled, DeadlineExceeded
from apply_service.protocols import (
    Constraint,
    Draft,
    Drafter,
    Engine,
    SamplingParams,
    Session,
    StopFinder,
    TokenSet,
    Verification,
    Window,
)
from apply_service.types import DecodeStats, FinishReason, PassCount


class Step(NamedTuple):
    """What one pass committed.  `logprobs[i]` belongs to `ids[i]`; `decisions[i]` says that more than one token was
    allowed."""

    ids: list[int]
    logprobs: list[float] | None
    decisions: list[bool]


@dataclass(slots=True)
class Decoding:
    """One sequence being decoded; iterate `steps()` to the end, then read `finish_reason` and `output_ids`."""

    engine: Engine
    prompt_ids: Sequence[int]
    drafter: Drafter
    max_new_tokens: int
    stop_ids: frozenset[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    constraint: Constraint | None = None
    find_stop: StopFinder | None = None
    cancelled: Callable[[], bool] = lambda: False
    deadline: float | None = None
    """`time.monotonic()` at which to give up."""
    stats: DecodeStats = field(default_factory=DecodeStats)
    output_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    def steps(self) -> Generator[Step, None, None]:
        """Yields after every pass.  Session and drafter are closed on every way out, generator close included.

        Raises:
            ContextLimitExceeded, Cancelled, DeadlineExceeded: nothing that was yielded is an answer then.
        """
        started = time.perf_counter()
        self.stats.prompt_tokens = len(self.prompt_ids)
        with (
            closing(self.drafter),
            self.engine.open(self.prompt_ids, self.max_new_tokens, poll=self._check_patience) as session,
        ):
            self.stats.prefill_s = time.perf_counter() - started
            self.stats.prefill_passes = session.prefill_passes
            last_id = self.prompt_ids[-1]
            while self.finish_reason is None:
                self._check_patience()
                started = time.perf_counter()
                step = self._step(session, last_id)
                self.stats.decode_s += time.perf_counter() - started
                last_id = step.ids[-1]
                yield step

    def _check_patience(self) -> None:
        if self.cancelled():
            self.finish_reason = FinishReason.CANCELLED
            raise Cancelled("the request was cancelled while decoding")
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.finish_reason = FinishReason.DEADLINE
            raise DeadlineExceeded(
                "the deadline passed while decoding", remedy="allow more time or send a smaller edit"
            )

    def _step(self, session: Session, last_id: int) -> Step:
        draft, allowed = self._propose()
        window = Window(session, last_id, draft.token_ids, self.sampling, allowed)
        verification = self.engine.step([window])[0]
        self.drafter.observe(verification.n_accepted, verification.choices[-1])
        step = self._commit(verification, allowed)
        self._count(draft, verification.n_accepted, len(step.ids))
        return step

    def _propose(self) -> tuple[Draft, Sequence[TokenSet | None] | None]:
        started = time.perf_counter()
        room = self.max_new_tokens - len(self.output_ids) - 1
        draft = self.drafter.propose(self.output_ids, min(self.engine.max_draft, room))
        allowed = None if self.constraint is None else self.constraint.masks(self.output_ids, draft.token_ids)
        self.stats.draft_s += time.perf_counter() - started
        return draft, allowed

    def _count(self, draft: Draft, n_accepted: int, n_new: int) -> None:
        """Where the output ended inside the draft, what was drafted beyond its end was neither accepted nor
        rejected."""
        is_ended_inside = n_new <= n_accepted
        n_drafted = n_new if is_ended_inside else len(draft.token_ids)
        n_accepted = min(n_accepted, n_new)
        self.stats.passes += 1
        self.stats.drafted_tokens += n_drafted
        self.stats.accepted_tokens += n_accepted
        self.stats.rejections += n_accepted < n_drafted
        self.stats.pass_counts.append(PassCount(n_new, n_drafted, n_accepted, draft.source if n_drafted else ""))
        if n_accepted:
            by_source = self.stats.accepted_by_source
            by_source[draft.source] = by_source.get(draft.source, 0) + n_accepted

    def _commit(self, verification: Verification, allowed: Sequence[TokenSet | None] | None) -> Step:
        ids = list(verification.choices)
        n_new = self._cut(ids)
        self.output_ids.extend(ids[:n_new])
        self.stats.completion_tokens = len(self.output_ids)
        masks = [None] * n_new if allowed is None else list(allowed[:n_new])
        logprobs = None if verification.logprobs is None else list(verification.logprobs[:n_new])
        return Step(ids[:n_new], logprobs, [mask is None or len(mask) > 1 for mask in masks])

    def _cut(self, ids: Sequence[int]) -> int:
        """How many of the new tokens count; sets the finish reason where the output ends among them."""
        n_new = next((i + 1 for i, token in enumerate(ids) if token in self.stop_ids), len(ids))
        is_stopped = n_new < len(ids) or ids[-1] in self.stop_ids
        closed_at = None if self.find_stop is None else self.find_stop(ids[:n_new])
        if closed_at is not None:
            n_new, is_stopped = closed_at + 1, True
        if is_stopped:
            self.finish_reason = FinishReason.STOP
        elif len(self.output_ids) + n_new >= self.max_new_tokens:
            self.finish_reason = FinishReason.LENGTH
        return n_new
