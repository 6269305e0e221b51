"""What an edit speaks of: the lines of the original that it may remove, and the lines that it brings.

Reads the update through the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from apply_service.checks.removals import find_unsaid
from apply_service.protocols import CheckInput
from apply_service.types import Certainty, LineOp, Prediction

ANCHOR_REACH = 3
"""Lines around a shown or changed line within which an uncertain merge may differ from the target."""


class EditScope:
    """The edit of one answer, as sets of lines.  Line numbers are 0-based."""

    def __init__(self, answer: CheckInput) -> None:
        self._ops: Sequence[LineOp] = answer.prediction.ops
        self._prediction: Prediction = answer.prediction
        self._update_lines = answer.update.split("\n")
        self.is_certain = answer.prediction.determined or answer.prediction.certainty is Certainty.CERTAIN

    @cached_property
    def dropped(self) -> frozenset[int]:
        """Original lines that the predicted merge removes."""
        return frozenset(op.original_line for op in self._ops if op.kind == "drop" and op.original_line is not None)

    @cached_property
    def unsaid(self) -> frozenset[int]:
        """Removed lines that the update does not speak of; a certain merge is taken at its word."""
        return frozenset() if self.is_certain else frozenset(find_unsaid(self._prediction, self._update_lines))

    @cached_property
    def near(self) -> frozenset[int]:
        """Original lines close to one that the update shows, replaces or removes."""
        near: set[int] = set()
        position = 0
        for op in self._ops:
            if op.original_line is not None:
                position = op.original_line
            if op.kind != "keep":
                near.update(range(position - ANCHOR_REACH, position + ANCHOR_REACH + 1))
        return frozenset(near)

    @cached_property
    def taken(self) -> tuple[str, ...]:
        """The new lines that the predicted merge takes from the update."""
        return tuple(op.text for op in self._ops if op.kind == "take")

    @cached_property
    def shown(self) -> frozenset[str]:
        """Every line of the update, as written and as the merger reads it, without white space around it."""
        lines = {line.strip() for line in self._update_lines}
        return frozenset(
            lines | {line.strip() for line in self._prediction.update_lines} | {t.strip() for t in self.taken}
        )

    @cached_property
    def unplaced(self) -> tuple[str, ...]:
        """Lines of the update that are no part of the file (markers, fences, notes), as written, stripped."""
        count = len(self._update_lines)
        found = (self._update_lines[i].strip() for i in self._prediction.unplaced if i < count)
        return tuple(line for line in found if line)

    @cached_property
    def has_update(self) -> bool:
        """False for an instruction: there new text is the point."""
        return any(line.strip() for line in self._update_lines)
