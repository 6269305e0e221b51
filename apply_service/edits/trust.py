"""How far an edit's reading can be trusted: gathered while it is parsed, placed and written."""

from __future__ import annotations

from dataclasses import dataclass, field

from apply_service.types import Certainty

RANK = {Certainty.CERTAIN: 0, Certainty.LIKELY: 1, Certainty.GUESS: 2}


@dataclass(slots=True)
class Trust:
    """The worst thing said decides the certainty."""

    certainty: Certainty = Certainty.CERTAIN
    said: dict[str, None] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What was said, in order, each once."""
        return tuple(self.said)

    def lower(self, certainty: Certainty, reason: str) -> None:
        """Trust no more than `certainty` from here on."""
        if RANK[certainty] > RANK[self.certainty]:
            self.certainty = certainty
        self.note(reason)

    def note(self, reason: str) -> None:
        """Something the caller should know that makes the answer no less sure."""
        self.said.setdefault(reason)
