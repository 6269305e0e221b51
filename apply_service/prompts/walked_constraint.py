"""What constraints have in common that walk along the output: a state that each token advances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Generic, TypeVar

from apply_service.protocols import TokenSet

State = TypeVar("State")


class WalkedConstraint(ABC, Generic[State]):
    """A `Constraint`.  One object a request; the state is copied once a window, so it holds nothing that a shallow copy
    shares and `_advance` changes."""

    def __init__(self, start: State) -> None:
        self._state = start
        self._n_seen = 0

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        state = self._state_after(output_ids)
        masks = [self._allowed(state)]
        for token in draft_ids:
            self._advance(state, token)
            masks.append(self._allowed(state))
        return masks

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        """`draft_ids`, or in their place what must come after `output_ids` where they are against it or end before it
        does; at most `limit` tokens.

        As with `masks`, `output_ids` only ever grows between calls.
        """
        state = self._state_after(output_ids)
        sure: list[int] = []
        while len(sure) < limit and (token := self._only(state)) is not None:
            sure.append(token)
            self._advance(state, token)
        return draft_ids if list(draft_ids[: len(sure)]) == sure else sure

    def _state_after(self, output_ids: Sequence[int]) -> State:
        """A copy, free to be advanced."""
        for token in output_ids[self._n_seen :]:
            self._advance(self._state, token)
        self._n_seen = len(output_ids)
        return copy(self._state)

    def _only(self, state: State) -> int | None:
        """The one token that may come; None where there is a choice, or the output is over."""
        allowed = self._allowed(state)
        return int(allowed[0]) if allowed is not None and len(allowed) == 1 else None

    @abstractmethod
    def _advance(self, state: State, token: int) -> None:
        """Take one more token; one that was not allowed may leave the state anyhow."""

    @abstractmethod
    def _allowed(self, state: State) -> TokenSet | None: ...
