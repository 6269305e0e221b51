"""How likely drafted tokens are to be accepted, learnt while the request runs.

The scheduler shares the rows of a pass over requests by it, and a chain of drafters chooses by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apply_service.protocols import EMPTY_DRAFT, Draft

COUNTED_TOKENS = 16
"""Only the first tokens of a draft count: rows are scarce when drafts are short, and one long draft that was accepted
would otherwise hide how many fail at once."""

Counts = tuple[float, float]
"""Accepted and rejected tokens, seen or assumed."""


class LearningDrafter:
    """Base of drafters that estimate the acceptance of their drafts, by kind (source, and how surely it was found).

    Each kind has a Beta estimate that starts from its prior and moves with what becomes of this request's drafts.
    `propose` returns what `draft` makes.
    """

    def __init__(self, priors: Mapping[str, Counts]) -> None:
        self._counts = dict(priors)
        self._drafted: Sequence[int] = ()
        self._drafted_kind = ""

    def expected(self, kind: str) -> float:
        """The probability that a token of such a draft is accepted, given that those before it were."""
        accepted, rejected = self._counts[kind]
        return accepted / (accepted + rejected)

    def draft(self, ids: Sequence[int], kind: str, source: str) -> Draft:
        """A draft of this kind, which the next `observe` is about."""
        self._drafted, self._drafted_kind = ids, kind
        return Draft(ids, self.expected(kind), source) if ids else EMPTY_DRAFT

    def observe(self, n_accepted: int, next_id: int) -> None:
        """A draft that was cut is rejected only where the target chose another token than it would have had next."""
        drafted, self._drafted = self._drafted, ()
        if drafted:
            is_rejected = n_accepted < min(len(drafted), COUNTED_TOKENS) and drafted[n_accepted] != next_id
            accepted, rejected = self._counts[self._drafted_kind]
            self._counts[self._drafted_kind] = accepted + min(n_accepted, COUNTED_TOKENS), rejected + is_rejected

    def close(self) -> None:
        """Holds nothing."""


def expected_tokens(draft: Draft) -> float:
    """How many tokens of the draft are expected to be accepted."""
    acceptance, n_drafted = draft.expected_acceptance, len(draft.token_ids)
    if acceptance >= 1.0:
        return float(n_drafted)
    return acceptance * (1.0 - acceptance**n_drafted) / (1.0 - acceptance)


def worthwhile_length(acceptance: float, least: float, limit: int) -> int:
    """How many tokens to draft so that each is reached and accepted with a probability of at least `least`."""
    n_tokens, reached = 0, acceptance
    while n_tokens < limit and reached >= least:
        n_tokens, reached = n_tokens + 1, reached * acceptance
    return n_tokens
