"""Drafts by n-gram lookup: where the output's last tokens occurred before, in prompt or output, go on as it did there.

The longest n-gram counts; of its places the nearest one after the place that the last draft was copied from, as
copying goes forward, else the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apply_service.drafting.acceptance import Acceptance, Counts, worthwhile_length
from apply_service.drafting.suffix_match import Positions, agreement
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext

MAX_NGRAM = 8
"""Tokens; the same place after so many is settled by which is nearest."""
LEAST_CHANCE = 0.005
"""A draft ends where its next token is reached and accepted with less than this probability."""
PRIORS = {
    "1": Counts(2.0, 2.0),
    "2": Counts(5.0, 1.0),
    "4": Counts(8.0, 1.0),
    "8": Counts(20.0, 1.0),
}
"""By the length of the n-gram, rounded down to a power of two; means measured on mined edits (docs/log.md)."""


class PromptLookup:
    """The second drafter of a chain, or a drafter of its own."""

    def __init__(self, context: DraftContext) -> None:
        self._n_prompt = self._n_known = len(context.prompt_ids)
        self._known = np.zeros(self._n_prompt + max(64, context.max_new_tokens), dtype=np.int64)
        self._known[: self._n_prompt] = context.prompt_ids
        self._acceptance = Acceptance(PRIORS)
        self._pointer = 0
        self._kind = "1"
        self._drafted: list[int] = []

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._learn(output_ids)
        self._drafted = []
        tail = self._known[max(0, self._n_known - MAX_NGRAM) : self._n_known].tolist()
        places = np.flatnonzero(self._known[: self._n_known - 1] == tail[-1]) if tail else np.zeros(0, np.int64)
        if limit <= 0 or not len(places):
            return EMPTY_DRAFT
        lengths = agreement(self._known, places, tail, MAX_NGRAM)
        start = self._nearest(places[lengths == lengths.max()] + 1)
        self._kind = kind_of_length(int(lengths.max()), longest=MAX_NGRAM)
        acceptance = self._acceptance.expected(self._kind)
        n_tokens = worthwhile_length(acceptance, LEAST_CHANCE, limit)
        self._drafted = cycle(self._known[start : min(start + n_tokens, self._n_known)].tolist(), n_tokens)
        self._pointer = start
        return Draft(self._drafted, acceptance, "prompt" if start < self._n_prompt else "output")

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Learns how such drafts fare, and how far the copying has come."""
        self._pointer += n_accepted + 1
        is_rejected = n_accepted < len(self._drafted) and self._drafted[n_accepted] != next_id
        if self._drafted:
            self._acceptance.learn(self._kind, n_accepted=n_accepted, is_rejected=is_rejected)

    def close(self) -> None:
        """Holds nothing."""

    def _learn(self, output_ids: Sequence[int]) -> None:
        """Take in what was written since the last time."""
        new = output_ids[self._n_known - self._n_prompt :]
        n_needed = self._n_known + len(new)
        if n_needed > len(self._known):
            self._known = np.concatenate([self._known, np.zeros(n_needed, dtype=np.int64)])
        self._known[self._n_known : n_needed] = new
        self._n_known = n_needed

    def _nearest(self, starts: Positions) -> int:
        ahead = starts[starts >= self._pointer]
        return int(ahead[0]) if len(ahead) else int(starts[-1])


def kind_of_length(n_tokens: int, *, longest: int) -> str:
    """The length of a match rounded down to a power of two, at most `longest`."""
    return str(1 << (min(n_tokens, longest).bit_length() - 1))


def cycle(piece: list[int], n_tokens: int) -> list[int]:
    """`piece`, over and over until it has `n_tokens`: how a run goes on past what is written of it."""
    return (piece * -(-n_tokens // len(piece)))[:n_tokens] if piece else []
