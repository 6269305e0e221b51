"""Drafts from the longest suffix of the output that occurred before, in prompt or output, of whatever length.

After SuffixDecoding's idea (Oliaro et al. 2024) that the length of a match and the counts of what followed it tell how
much to draft, for a single request: one automaton instead of trees, built as the text grows.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.drafting.acceptance import Acceptance, Counts, worthwhile_length
from apply_service.drafting.prompt_lookup import cycle, kind_of_length
from apply_service.drafting.suffix_automaton import SuffixAutomaton
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext

LONGEST_KIND = 32
LEAST_CHANCE = 0.005
"""A draft ends where its next token is reached and accepted with less than this probability."""
PRIORS = {
    "1": Counts(0.4, 1.0),
    "2": Counts(2.4, 1.6),
    "4": Counts(2.8, 1.2),
    "8": Counts(6.0, 1.0),
    "16": Counts(12.0, 1.0),
    "32": Counts(30.0, 1.0),
    "1 sole": Counts(2.0, 1.3),
    "2 sole": Counts(6.5, 1.0),
    "4 sole": Counts(9.0, 1.0),
    "8 sole": Counts(14.0, 1.0),
    "16 sole": Counts(30.0, 1.0),
    "32 sole": Counts(50.0, 1.0),
}
"""By the length of the match, rounded down to a power of two, and whether one token alone has followed it so far; means
measured on mined edits (docs/log.md)."""


class Suffix:
    """The second drafter of a chain, or a drafter of its own.  The prompt is read at the first `propose`."""

    def __init__(self, context: DraftContext) -> None:
        self._n_prompt = len(context.prompt_ids)
        self._known = list(context.prompt_ids)
        self._automaton = SuffixAutomaton()
        self._acceptance = Acceptance(PRIORS)
        self._kind = "1"
        self._drafted: list[int] = []

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._known += output_ids[len(self._known) - self._n_prompt :]
        self._automaton.extend(self._known[self._automaton.n_tokens :])
        self._drafted = []
        repeat = self._automaton.repeat
        if limit <= 0 or not repeat.length:
            return EMPTY_DRAFT
        self._kind = kind_of_length(repeat.length, longest=LONGEST_KIND) + (" sole" if repeat.n_next == 1 else "")
        acceptance = self._acceptance.expected(self._kind)
        n_tokens = worthwhile_length(acceptance, LEAST_CHANCE, limit)
        self._drafted = cycle(self._known[repeat.end : repeat.end + n_tokens], n_tokens)
        return Draft(self._drafted, acceptance, "prompt" if repeat.end < self._n_prompt else "output")

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Learns how such drafts fare."""
        is_rejected = n_accepted < len(self._drafted) and self._drafted[n_accepted] != next_id
        if self._drafted:
            self._acceptance.learn(self._kind, n_accepted=n_accepted, is_rejected=is_rejected)

    def close(self) -> None:
        """Holds nothing."""
