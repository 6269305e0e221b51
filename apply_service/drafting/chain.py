"""Drafters by name, alone or two in a chain: `merged_edit+suffix` copies with the first and asks the second for novel
text.

The one place that says which names are legal; pipeline, settings and `doctor` ask here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apply_service.drafting.acceptance import expected_tokens
from apply_service.errors import UnknownDrafter, UnsupportedParameter
from apply_service.protocols import CompletingConstraint, Draft, DraftContext, Drafter
from apply_service.registry import COPY_DRAFTERS, DRAFTERS, NOVEL_DRAFTERS, resolve

NO_DRAFTS = "none"
DRAFT_MODEL = "draft_model"
CONSTRAINT = "constraint"
"""The source of drafts that a constraint determines."""
SURE = 0.9
"""A copy that is expected to be accepted with at least this probability is not compared with anything."""


def drafter_names(*, has_draft_model: bool) -> Iterator[str]:
    """Every legal name."""
    novel = [name for name in NOVEL_DRAFTERS if has_draft_model or name != DRAFT_MODEL]
    yield from (name for name in DRAFTERS if name not in NOVEL_DRAFTERS)
    yield from novel
    yield from (f"{first}+{second}" for first in COPY_DRAFTERS for second in novel)


def check_drafter(name: str, *, has_draft_model: bool) -> None:
    """
    Raises:
        UnknownDrafter: no such drafter or chain; names those there are.
        UnsupportedParameter: it needs a draft model, and none is configured.
    """
    legal = list(drafter_names(has_draft_model=has_draft_model))
    if name in legal:
        return
    if name not in drafter_names(has_draft_model=True):
        raise UnknownDrafter("no such drafter", value=name, limit=legal, remedy="name one of these")
    raise UnsupportedParameter(
        "this service has no draft model",
        value=name,
        limit=legal,
        remedy="name another drafter, or set draft_model to a smaller model with the target's tokenizer",
    )


def open_drafter(name: str, context: DraftContext, constraint: CompletingConstraint | None = None) -> Drafter:
    """The drafter of a legal name, for one request whose output is held to `constraint`; `none` never drafts."""
    first, *second = (resolve(DRAFTERS, part)(context) for part in name.split("+"))
    drafter: Drafter = Chain(first, second[0]) if second else first
    return drafter if constraint is None or name == NO_DRAFTS else Completed(drafter, constraint)


class Chain:
    """Copies with `first` while it knows its way; else the better of its guess and what `second` expects.

    Both follow what the target writes, whoever drafted it, so neither observes the other's drafts.
    """

    def __init__(self, first: Drafter, second: Drafter) -> None:
        self._first, self._second = first, second
        self._used = first

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._used, copied = self._first, self._first.propose(output_ids, limit)
        if copied.expected_acceptance >= SURE or limit <= 0:
            return copied
        novel = self._second.propose(output_ids, limit)
        if expected_tokens(novel) <= expected_tokens(copied):
            return copied
        self._used = self._second
        return novel

    def observe(self, n_accepted: int, next_id: int) -> None:
        self._used.observe(n_accepted, next_id)

    def close(self) -> None:
        self._first.close()
        self._second.close()


class Completed:
    """`drafter`, but where the constraint leaves one way to go on, that is the draft.

    Such a stretch of the output then costs no pass of its own: it is verified in the window of the next decision.  The
    drafter does not observe a draft that took the place of its own.
    """

    def __init__(self, drafter: Drafter, constraint: CompletingConstraint) -> None:
        self._drafter = drafter
        self._constraint = constraint
        self._is_own = True

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        draft = self._drafter.propose(output_ids, limit)
        ids = draft.token_ids if limit <= 0 else self._constraint.completed(output_ids, draft.token_ids, limit)
        self._is_own = ids is draft.token_ids
        return draft if self._is_own else Draft(ids, 1.0, CONSTRAINT)

    def observe(self, n_accepted: int, next_id: int) -> None:
        if self._is_own:
            self._drafter.observe(n_accepted, next_id)

    def close(self) -> None:
        self._drafter.close()
