"""Around any drafter: where a constraint leaves one way to go on, that is the draft.

A stretch of the output with a single candidate then costs no pass of its own, whatever the drafter believes: it is
verified in the window of the next decision.  Changes no answer, as no draft does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apply_service.drafting.chain import open_drafter
from apply_service.protocols import Constraint, Draft, DraftContext, Drafter

NO_DRAFTS = "none"

Complete = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]
"""(output so far, draft, limit) -> the draft, or what must come in its place."""

SOURCE = "constraint"


def open_held_drafter(name: str, context: DraftContext, constraint: Constraint | None) -> Drafter:
    """The drafter of a legal name for an output that is held to `constraint`; `none` stays the oracle, undrafted."""
    drafter = open_drafter(name, context)
    complete: Complete | None = getattr(constraint, "completed", None)
    return drafter if complete is None or name == NO_DRAFTS else Completed(drafter, complete)


class Completed:
    """`drafter`, but never against what is determined.

    A drafter follows what the target writes by itself, whoever drafted it, so it is not told of drafts in its place.
    """

    def __init__(self, drafter: Drafter, complete: Complete) -> None:
        self._drafter = drafter
        self._complete = complete
        self._is_own = False

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        draft = self._drafter.propose(output_ids, limit)
        ids = draft.token_ids if limit <= 0 else self._complete(output_ids, draft.token_ids, limit)
        self._is_own = ids is not draft.token_ids
        return Draft(ids, 1.0, SOURCE) if self._is_own else draft

    def observe(self, n_accepted: int, next_id: int) -> None:
        if not self._is_own:
            self._drafter.observe(n_accepted, next_id)

    def close(self) -> None:
        self._drafter.close()
