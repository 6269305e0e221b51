"""How likely drafted tokens are to be accepted: one honest number a draft, learnt while the request runs.

The scheduler shares the rows of a pass over requests by it, and a chain of drafters chooses by it.  Drafts are told
apart by kind (source, and how surely it was found); each kind has a Beta estimate that starts from a prior measured on
mined edits and moves with what becomes of this request's drafts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from apply_service.protocols import EMPTY_DRAFT, Draft

COUNTED_TOKENS = 16
"""Only the first tokens of a draft count: rows are scarce when drafts are short, and one long draft that was accepted
would otherwise hide how many fail at once."""


class Counts(NamedTuple):
    """Accepted and rejected tokens, seen or assumed."""

    accepted: float
    rejected: float

    @property
    def mean(self) -> float:
        return self.accepted / (self.accepted + self.rejected)


class Acceptance:
    """Estimates by kind of draft.  `priors` holds every kind there is."""

    def __init__(self, priors: Mapping[str, Counts]) -> None:
        self._counts = dict(priors)

    def expected(self, kind: str) -> float:
        """The probability that a token of such a draft is accepted, given that those before it were."""
        return self._counts[kind].mean

    def learn(self, kind: str, *, n_accepted: int, is_rejected: bool) -> None:
        """A draft of this kind had `n_accepted` tokens accepted; `is_rejected`: the next one was not."""
        accepted, rejected = self._counts[kind]
        is_rejected = is_rejected and n_accepted < COUNTED_TOKENS
        self._counts[kind] = Counts(accepted + min(n_accepted, COUNTED_TOKENS), rejected + is_rejected)


class LearningDrafter:
    """What drafters that learn from their drafts have in common; `propose` returns what `draft` makes."""

    def __init__(self, priors: Mapping[str, Counts]) -> None:
        self.acceptance = Acceptance(priors)
        self._drafted: Sequence[int] = ()
        self._drafted_kind = ""

    def draft(self, ids: Sequence[int], kind: str, source: str) -> Draft:
        """A draft of this kind, which the next `observe` is about."""
        self._drafted, self._drafted_kind = ids, kind
        return Draft(ids, self.acceptance.expected(kind), source) if ids else EMPTY_DRAFT

    def observe(self, n_accepted: int, next_id: int) -> None:
        """A draft that was cut is rejected only where the target chose another token than it would have had next."""
        drafted, self._drafted = self._drafted, ()
        if drafted:
            is_rejected = n_accepted < len(drafted) and drafted[n_accepted] != next_id
            self.acceptance.learn(self._drafted_kind, n_accepted=n_accepted, is_rejected=is_rejected)

    def close(self) -> None:
        """Holds nothing."""


def expected_tokens(acceptance: float, n_drafted: int) -> float:
    """How many of `n_drafted` tokens are expected to be accepted where each has that probability after the one
    before."""
    if acceptance >= 1.0:
        return float(n_drafted)
    return acceptance * (1.0 - acceptance**n_drafted) / (1.0 - acceptance)


def worthwhile_length(acceptance: float, least: float, limit: int) -> int:
    """How many tokens to draft so that each is reached and accepted with a probability of at least `least`."""
    n_tokens, reached = 0, acceptance
    while n_tokens < limit and reached >= least:
        n_tokens, reached = n_tokens + 1, reached * acceptance
    return n_tokens
