"""What an edit is about: the lines of the original that it may remove, and the lines that it brings.

Reads the update through the prediction.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import groupby, takewhile

from apply_service.protocols import CheckInput
from apply_service.types import Certainty

ANCHOR_REACH = 3
"""Lines around a shown or changed line within which an uncertain merge may differ from the target."""

SLACK_LINES = 3
SHRINK = 3
"""A replacement may take the place of this many times its lines, and `SLACK_LINES` more."""

REMOVAL = re.compile(r"\b(?:remov|delet|dropp?|renam|replac|mov)(?:e|ed|ing|es|s)?\b|\bno longer\b", re.IGNORECASE)


def speaks_of_removal(line: str) -> bool:
    """Whether a note of the update ("REMOVED: foo") says that something goes."""
    return REMOVAL.search(line) is not None


class EditScope:
    """The edit of one answer, as sets of lines.  Line numbers are 0-based."""

    def __init__(self, answer: CheckInput) -> None:
        self._ops = answer.prediction.ops
        self._prediction = answer.prediction
        self._update_lines = answer.update.split("\n")
        self.is_certain = answer.prediction.determined or answer.prediction.certainty is Certainty.CERTAIN

    @cached_property
    def dropped(self) -> frozenset[int]:
        """Original lines that the predicted merge removes."""
        return frozenset(op.original_line for op in self._ops if op.kind == "drop" and op.original_line is not None)

    @cached_property
    def unsaid(self) -> frozenset[int]:
        """Removed lines that the update does not speak of; a certain merge is taken at its word.

        A removal is said where the update puts about as many lines in its place, or shows both neighbours of the
        removed lines with no gap (marker) between them.  A note that something was removed is no gap.
        """
        if self.is_certain:
            return frozenset()
        gaps = {row for row in self._unplaced_rows if not speaks_of_removal(self._update_lines[row])}
        runs = [list(run) for _, run in groupby(self._ops, key=lambda op: op.kind == "drop")]
        unsaid: set[int] = set()
        last_shown = -1
        for before, run, after in zip([[], *runs], runs, [*runs[1:], []], strict=False):
            if run[0].kind != "drop":
                last_shown = next((op.update_line for op in reversed(run) if op.update_line is not None), last_shown)
                continue
            lines = [op.original_line for op in run if op.original_line is not None and op.text.strip()]
            n_taken = len(list(takewhile(lambda op: op.kind == "take", after)))
            if n_taken and len(lines) <= n_taken * SHRINK + SLACK_LINES:
                continue
            neighbours = [*before[-1:], *after[:1]]
            next_shown = after[0].update_line if after else None
            between = range(last_shown + 1, len(self._update_lines) if next_shown is None else next_shown)
            if not neighbours or any(op.kind == "keep" for op in neighbours) or not gaps.isdisjoint(between):
                unsaid.update(lines)
        return frozenset(unsaid)

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
        return frozenset(line.strip() for line in (*self._update_lines, *self._prediction.update_lines, *self.taken))

    @cached_property
    def unplaced(self) -> tuple[str, ...]:
        """Lines of the update that are no part of the file (markers, fences, notes), as written, stripped."""
        return tuple(self._update_lines[row].strip() for row in self._unplaced_rows)

    @cached_property
    def _unplaced_rows(self) -> list[int]:
        lines = self._update_lines
        return [row for row in self._prediction.unplaced if row < len(lines) and lines[row].strip()]

    @cached_property
    def has_update(self) -> bool:
        """False for an instruction: there new text is the point."""
        return any(line.strip() for line in self._update_lines)
