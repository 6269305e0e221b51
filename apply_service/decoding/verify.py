"""Decodes one sequence: proposes a draft, lets the target verify it, commits the accepted tokens, observes, repeats.

Decoding is lossless by construction: every committed token is the target's own choice after the tokens before it.  A
draft only changes how many tokens one pass can commit.  This module knows token ids, not text.  `scheduler` runs the
passes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    """The tokens that one pass committed.  `logprobs[i]` is the log probability of `ids[i]`.  `decisions[i]` is true if
    more than one token was allowed there."""

    ids: list[int]
    logprobs: list[float] | None
    decisions: list[bool]


@dataclass(slots=True, eq=False)
class Decoding:
    """One sequence that is being decoded.  Leaving it as a context manager frees its slots and closes its drafter.

    Call `admit` until there is a session.  Read the prompt (`Prefill`) while the session has pending tokens.  Then call
    `propose`, `window` and `commit` once for each pass, until `finish_reason` is set.  The prefix cache reuses only
    prompts of the same `owner`.
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
    """The number of the scheduler's pass that last served this sequence."""
    is_closed: bool = False
    _draft: Draft = EMPTY_DRAFT
    _allowed: Sequence[TokenSet | None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the drafter and free the slots, even if the drafter fails.  A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self.drafter.close()
        finally:
            if self.session is not None:
                self.session.close()

    def admit(self) -> bool:
        """Open a session unless there is one, and tell whether there is one now.  Raises ContextLimitExceeded if the
        prompt and the output can never fit."""
        if self.session is None:
            self.session = self.engine.open(self.prompt_ids, self.max_new_tokens, owner=self.owner)
            self.stats.prompt_tokens = len(self.prompt_ids)
            if self.session is not None:
                self.stats.cached_prompt_tokens = self.session.n_cached
                self.drafter.begin(self.session)
        return self.session is not None

    def propose(self) -> Draft:
        """Return the drafter's proposal, cut to what fits into a window and into the remaining output."""
        started = time.perf_counter()
        limit = min(self.engine.max_draft, self.max_new_tokens - len(self.output_ids) - 1)
        draft = self.drafter.propose(self.output_ids, limit)
        self._draft = replace(draft, token_ids=draft.token_ids[:limit])
        self.stats.draft_s += time.perf_counter() - started
        return self._draft

    def window(self, n_drafted: int) -> Window:
        """Return the window of the next pass, with the first `n_drafted` tokens of the draft.  Raises EngineFailure if
        the constraint does not give one mask for each choice of the window."""
        assert self.session is not None
        started = time.perf_counter()
        draft_ids = self._draft.token_ids[:n_drafted]
        self._draft = replace(self._draft, token_ids=draft_ids)
        self._allowed = None if self.constraint is None else self.constraint.masks(self.output_ids, draft_ids)
        if self._allowed is not None and len(self._allowed) != len(draft_ids) + 1:
            raise EngineFailure(
                "internal fault: the allowed tokens are not known for every place", value=len(self._allowed)
            )
        self.stats.draft_s += time.perf_counter() - started
        last_id = self.output_ids[-1] if self.output_ids else self.prompt_ids[-1]
        return Window(self.session, last_id, draft_ids, self.sampling, self._allowed)

    def commit(self, verification: Verification, seconds: float) -> Step:
        """Commit the target's answer to the last `window`.  `seconds`: the time of the pass.  The output ends after a
        stop token, at the end that `find_stop` finds, or at the limit of new tokens."""
        self.drafter.observe(verification)
        ids = list(verification.choices)
        n_new = next((i + 1 for i, token in enumerate(ids) if token in self.stop_ids), len(ids))
        is_stopped = ids[n_new - 1] in self.stop_ids
        end = None if self.find_stop is None else self.find_stop(ids[:n_new])
        if end is not None:
            n_new, is_stopped = end + 1, True
        self.output_ids += ids[:n_new]
        if is_stopped:
            self.finish_reason = FinishReason.STOP
        elif len(self.output_ids) >= self.max_new_tokens:
            self.finish_reason = FinishReason.LENGTH
        # Draft tokens beyond the end of the output count as neither accepted nor rejected.
        stats, draft, n_accepted = self.stats, self._draft, min(verification.n_accepted, n_new)
        n_drafted = n_new if n_new <= verification.n_accepted else len(draft.token_ids)
        stats.passes += 1
        stats.decode_s += seconds
        stats.completion_tokens = len(self.output_ids)
        stats.drafted_tokens += n_drafted
        stats.accepted_tokens += n_accepted
        stats.rejections += n_accepted < n_drafted
        stats.pass_counts.append(PassCount(n_new, n_drafted, n_accepted, draft.source if n_drafted else ""))
        if n_accepted:
            stats.accepted_by_source[draft.source] = stats.accepted_by_source.get(draft.source, 0) + n_accepted
        masks = [None] * n_new if self._allowed is None else self._allowed[:n_new]
        logprobs = None if verification.logprobs is None else list(verification.logprobs[:n_new])
        return Step(ids[:n_new], logprobs, [mask is None or len(mask) > 1 for mask in masks])
