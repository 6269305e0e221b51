"""Drafters that try to break the lossless law: public test doubles, never a choice of a user."""

from __future__ import annotations

import random
from collections.abc import Sequence

from apply_service.protocols import Draft, Session, Verification


class RandomDraft:
    """Random lengths (empty ones too) of random tokens, with pieces of the right answer mixed in where it is given."""

    def __init__(self, n_vocab: int, *, seed: int = 0, answer: Sequence[int] = ()) -> None:
        self._random = random.Random(seed)
        self._n_vocab = n_vocab
        self._answer = answer

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        length = self._random.randint(0, max(0, limit))
        right = list(self._answer[len(output_ids) : len(output_ids) + length])
        n_right = self._random.randint(0, len(right))
        noise = [self._random.randrange(self._n_vocab) for _ in range(length - n_right)]
        return Draft(right[:n_right] + noise, 0.5, "random")

    def begin(self, session: Session) -> None:
        """Looks at nothing."""

    def observe(self, verification: Verification) -> None:
        """Learns nothing."""

    def close(self) -> None:
        """Holds nothing."""


class AlwaysWrong:
    """Drafts the right answer with its first token changed: every draft is rejected whole."""

    def __init__(self, answer: Sequence[int], n_vocab: int) -> None:
        self._answer = answer
        self._n_vocab = n_vocab

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        ids = list(self._answer[len(output_ids) : len(output_ids) + max(0, limit)])
        if ids:
            ids[0] = (ids[0] + 1) % self._n_vocab
        return Draft(ids, 0.0, "always_wrong")

    def begin(self, session: Session) -> None:
        """Looks at nothing."""

    def observe(self, verification: Verification) -> None:
        """Learns nothing."""

    def close(self) -> None:
        """Holds nothing."""


def told(n_accepted: int, next_id: int) -> Verification:
    """What a drafter is told: so many of its tokens were accepted, then the target chose this one."""
    return Verification([-2] * n_accepted + [next_id], None)
