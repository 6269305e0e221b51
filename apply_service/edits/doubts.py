"""What speaks against a predicted merge, and the certainty that follows.  Collected while the merge is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from apply_service.types import Certainty


@dataclass(slots=True)
class Doubts:
    """The worst doubt decides the certainty; each reason is kept once, in order."""

    reasons: list[str] = field(default_factory=list)
    certainty: Certainty = Certainty.CERTAIN

    def likely(self, reason: str) -> None:
        self._add(reason)
        if self.certainty is Certainty.CERTAIN:
            self.certainty = Certainty.LIKELY

    def guess(self, reason: str) -> None:
        self._add(reason)
        self.certainty = Certainty.GUESS

    def take_over(self, other: Doubts) -> None:
        for reason in other.reasons:
            self._add(reason)
        order = list(Certainty)
        self.certainty = max(self.certainty, other.certainty, key=order.index)

    def _add(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
