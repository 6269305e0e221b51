"""Drafts that are written token after token, by a smaller model or inside the target's engine.

Each token costs something, so how many are written follows from what the target has accepted so far.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.drafting.drafter import Counts, LearningDrafter, worthwhile_length
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext

WRITTEN_PRIOR: Counts = (4.0, 1.0)


class WritingDrafter(LearningDrafter):
    """Base class: drafts what `write` returns, under the name `kind`.

    A draft has at most `most` tokens.  It ends where its next token is reached and accepted with less than the
    probability `least`: the share of a pass of the target that a token costs.
    """

    def __init__(self, context: DraftContext, kind: str, *, most: int, least: float) -> None:
        super().__init__(context, {kind: WRITTEN_PRIOR})
        self._kind, self._most, self._least = kind, most, least

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        if limit <= 0:
            return EMPTY_DRAFT
        n_tokens = worthwhile_length(self.expected(self._kind), self._least, min(limit, self._most))
        # At least one token is drafted: otherwise the estimate could never rise again.
        return self.draft(self.write(output_ids, max(1, n_tokens)), self._kind, self._kind)

    def write(self, output_ids: Sequence[int], n_tokens: int) -> list[int]:
        """Return at most `n_tokens` tokens that may follow; none if nothing can be said here."""
        raise NotImplementedError
