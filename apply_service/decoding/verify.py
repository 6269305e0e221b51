"""One sequence being decoded: propose a draft, have it verified, commit what is accepted, observe, repeat.

Lossless by construction: every committed token is the target's own choice given the committed prefix; a draft only
decides how many of them one pass can commit.  Knows token ids, not text; `scheduler` runs the passes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from apply_service.deadline import Deadline
from apply_service.errors import EngineFailure
from apply_service.protocols import (
    EMPTY_DRAFT,
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


@dataclass(slots=True, eq=False)
class Decoding:
    """One sequence being decoded.  A context manager: leaving it frees its slots and closes its drafter.

    In turn, until `finish_reason` is set: `admit` until it has a session, prefill while that has pending tokens, then
    `propose`, `window` and `commit` once a pass.  `owner` is whose prompts the prefix cache may reuse.
    """

    engine: Engine
    prompt_ids: Sequence[int]
    drafter: Drafter
    max_new_tokens: int
    stop_ids: frozenset[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    constraint: Constraint | None = None
    find_stop: StopFinder | None = None
    deadline: Deadline = field(default_factory=Deadline)
    owner: str = ""
    stats: DecodeStats = field(default_factory=DecodeStats)
    output_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    session: Session | None = None
    last_pass: int = 0
    """Number of the scheduler's pass that last served this sequence."""
    is_closed: bool = False
    _draft: Draft = EMPTY_DRAFT
    _allowed: Sequence[TokenSet | None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free slots and drafter, the slots even where the drafter fails.  A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self.drafter.close()
        finally:
            if self.session is not None:
                self.session.close()

    # -- before a pass -------------------------------------------------------------------------------------------------
    def admit(self) -> bool:
        """Whether the engine has room for the sequence; asks for it where it has none yet.

        Raises:
            ContextLimitExceeded: it can never have.
        """
        if self.session is None:
            self.session = self.engine.open(self.prompt_ids, self.max_new_tokens, owner=self.owner)
            self.stats.prompt_tokens = len(self.prompt_ids)
            self.stats.cached_prompt_tokens = 0 if self.session is None else self.session.n_cached
        return self.session is not None

    def propose(self) -> Draft:
        """The drafter's word on what comes next; as much as one window holds and the limit allows, whatever it says."""
        started = time.perf_counter()
        limit = min(self.engine.max_draft, self.max_new_tokens - len(self.output_ids) - 1)
        draft = self.drafter.propose(self.output_ids, limit)
        self._draft = _cut(draft, limit)
        self.stats.draft_s += time.perf_counter() - started
        return self._draft

    def window(self, n_drafted: int) -> Window:
        """The window of the coming pass, with the first `n_drafted` tokens of the draft in it.

        Raises:
            EngineFailure: the constraint does not say what is allowed at every place of it.
        """
        assert self.session is not None
        started = time.perf_counter()
        self._draft = _cut(self._draft, n_drafted)
        constraint, draft_ids = self.constraint, self._draft.token_ids
        self._allowed = None if constraint is None else constraint.masks(self.output_ids, draft_ids)
        if self._allowed is not None and len(self._allowed) != len(draft_ids) + 1:
            raise EngineFailure("masks of another length than the window", value=len(self._allowed))
        self.stats.draft_s += time.perf_counter() - started
        last_id = self.output_ids[-1] if self.output_ids else self.prompt_ids[-1]
        return Window(self.session, last_id, draft_ids, self.sampling, self._allowed)

    # -- after a pass --------------------------------------------------------------------------------------------------
    def count_prefill(self, seconds: float) -> None:
        self.stats.prefill_passes += 1
        self.stats.prefill_s += seconds

    def commit(self, verification: Verification, seconds: float) -> Step:
        """Take what the target said of the last `window` in a pass of so many seconds."""
        self.drafter.observe(verification.n_accepted, verification.choices[-1])
        ids = list(verification.choices)
        n_new = self._cut(ids)
        self.output_ids.extend(ids[:n_new])
        self._count(verification.n_accepted, n_new, seconds)
        masks = [None] * n_new if self._allowed is None else list(self._allowed[:n_new])
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

    def _count(self, n_accepted: int, n_new: int, seconds: float) -> None:
        """Where the output ended inside the draft, what was drafted beyond its end was neither accepted nor
        rejected."""
        stats, draft = self.stats, self._draft
        n_drafted = n_new if n_new <= n_accepted else len(draft.token_ids)
        n_accepted = min(n_accepted, n_new)
        stats.passes += 1
        stats.decode_s += seconds
        stats.completion_tokens = len(self.output_ids)
        stats.drafted_tokens += n_drafted
        stats.accepted_tokens += n_accepted
        stats.rejections += n_accepted < n_drafted
        stats.pass_counts.append(PassCount(n_new, n_drafted, n_accepted, draft.source if n_drafted else ""))
        if n_accepted:
            stats.accepted_by_source[draft.source] = stats.accepted_by_source.get(draft.source, 0) + n_accepted


def _cut(draft: Draft, n_tokens: int) -> Draft:
    if len(draft.token_ids) <= n_tokens:
        return draft
    return Draft(draft.token_ids[:n_tokens], draft.expected_acceptance, draft.source)
