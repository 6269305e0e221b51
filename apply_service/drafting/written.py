"""Writes drafts token by token, with a smaller model or inside the target's engine.

Each token costs time, so the length of a draft depends on what the target has accepted so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from apply_service.drafting.drafter import Counts, LearningDrafter, worthwhile_length
from apply_service.drafting.lookup import MAX_MATCH
from apply_service.errors import UnsupportedParameter
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, DraftWriter, Session

WRITTEN_PRIOR: Counts = (4.0, 1.0)


class WritingDrafter(LearningDrafter):
    """Base class of drafters that draft what their `write` yields, under the name `kind`.

    At most `most` tokens are written.  Writing ends before a token that would be reached and accepted with a
    probability below `least`.  That is about the share of a target's pass that one token costs.  As soon as the written
    tokens lead back into a source, the rest of the draft is copied from there.
    """

    def __init__(self, context: DraftContext, kind: str, *, most: int, least: float) -> None:
        super().__init__(context, {kind: WRITTEN_PRIOR})
        self._kind, self._most, self._least = kind, most, least
        self._resume = context.resume

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        if limit <= 0:
            return EMPTY_DRAFT
        n_tokens = worthwhile_length(self.expected(self._kind), self._least, min(limit, self._most))
        drafted: list[int] = []
        copied: Sequence[int] = ()
        # At least one token is drafted, because otherwise the estimate could never rise again.
        for token in islice(self.write(output_ids, max(1, n_tokens)), max(1, n_tokens)):
            drafted.append(token)
            tail = [*output_ids[-MAX_MATCH:], *drafted]
            if copied := self._resume(tail, limit - len(drafted)):
                break
        draft = self.draft(drafted, self._kind, self._kind)
        return replace(draft, token_ids=[*drafted, *copied]) if copied else draft

    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        """Yield at most `n_tokens` tokens that may follow `output_ids`, possibly none."""
        raise NotImplementedError


class HeadDrafter(WritingDrafter):
    """Drafts what the head of the target's engine writes, once the prompt is read.

    Raises UnsupportedParameter if the target has no head.
    """

    def __init__(self, context: DraftContext) -> None:
        head = context.head
        if head is None:
            message, remedy = "this model has no head that drafts", "name another drafter, or the service's first model"
            raise UnsupportedParameter(message, remedy=remedy)
        super().__init__(context, head.name, most=head.most, least=head.cost)
        self._head, self._sampling = head, context.sampling
        self._session: Session | None = None
        self._writer: DraftWriter | None = None

    def begin(self, session: Session) -> None:
        self._session = session

    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        session = self._session
        if session is None or session.length < len(session.prompt_ids) - 1 + len(output_ids):
            return iter(())  # the pass that reads the end of the prompt also writes the first token
        if self._writer is None:
            self._writer = self._head.open(session, self._sampling)
        return self._writer.write(output_ids, n_tokens)

    def close(self) -> None:
        """Free the head's keys and values."""
        self._session = self._writer = None
