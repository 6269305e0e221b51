"""Makes a target write a text that is given, to hear what it thinks of every token: scoring by forced decoding.

Drafter and constraint of a `Decoding` in one: it proposes the text and allows nothing else.  Log probabilities are
those before masking, so they are the target's opinion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apply_service.protocols import Constraint, Draft, TokenSet


class Forced:
    """One object a text of `ids`, stop token included.  `rules`: what the target would be held to if it were free;
    they say where it would have had a choice."""

    def __init__(self, ids: Sequence[int], rules: Constraint | None) -> None:
        self.ids = list(ids)
        self.rules = rules
        self.decisions: list[bool] = []
        """For every token of a window so far whether the target would have had a choice."""
        self.is_allowed = True
        """Whether the rules allow the text, as far as it was looked at."""

    # -- as a drafter --------------------------------------------------------------------------------------------------
    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        """What comes next in the text."""
        at = len(output_ids)
        return Draft(self.ids[at : at + max(0, limit)], 1.0, "predicted")

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Nothing to learn: every token is accepted."""

    def close(self) -> None:
        """Nothing to free."""

    # -- as a constraint -----------------------------------------------------------------------------------------------
    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        """One token allowed at each place."""
        at = len(output_ids)
        wanted = self.ids[at : at + len(draft_ids) + 1]
        free = [None] * len(wanted) if self.rules is None else self.rules.masks(output_ids, draft_ids)
        self.is_allowed &= all(mask is None or i in mask for i, mask in zip(wanted, free, strict=True))
        self.decisions[at:] = [mask is None or len(mask) > 1 for mask in free]
        return list(np.array(wanted, dtype=np.int64).reshape(-1, 1))
