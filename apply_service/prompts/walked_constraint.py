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
        for token in output_ids[self._n_seen :]:
            self._advance(self._state, token)
        self._n_seen = len(output_ids)
        state = copy(self._state)
        masks = [self._allowed(state)]
        for token in draft_ids:
            self._advance(state, token)
            masks.append(self._allowed(state))
        return masks

    @abstractmethod
    def _advance(self, state: State, token: int) -> None:
        """Take one more token; one that was not allowed may leave the state anyhow."""

    @abstractmethod
    def _allowed(self, state: State) -> TokenSet | None: ...
