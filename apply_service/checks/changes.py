"""What most checks start from: the lines in which the merged text differs from the original, and what the edit says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import groupby, takewhile
from typing import Literal, NamedTuple

from apply_service.protocols import CheckInput
from apply_service.text.diff import diff_lines
from apply_service.types import Certainty, Severity, Verdict

MAX_FINDINGS = 5
"""Of one check."""
SLACK_LINES = 3
SHRINK = 3
"""A replacement may take the place of this many times its lines, and `SLACK_LINES` more."""
REMOVAL = re.compile(r"\b(?:remov|delet|dropp?|renam|replac|mov)(?:e|ed|ing|es|s)?\b|\bno longer\b", re.IGNORECASE)
"""A note of the update ("REMOVED: foo") says that something goes."""


class LineChanges(NamedTuple):
    """0-based line numbers, rising: `removed` of the original, `added` of the merged text."""

    removed: tuple[int, ...]
    added: tuple[int, ...]


@lru_cache(maxsize=4)
def find_changes(original: str, merged: str) -> LineChanges:
    """The lines of the smallest diff.  Cached, because several checks ask about the same answer."""
    changes = diff_lines(original.split("\n"), merged.split("\n"))
    return LineChanges(
        tuple(row for change in changes for row in range(change.a0, change.a1)),
        tuple(row for change in changes for row in range(change.b0, change.b1)),
    )


def count_stripped(text: str) -> Counter[str]:
    """How often each line occurs, indentation aside."""
    return Counter(map(str.strip, text.split("\n")))


def verdicts_at(
    check: str, severity: Severity, message: str, rows: Iterable[int], side: Literal["merged", "original"] = "merged"
) -> list[Verdict]:
    """One finding for each run of 0-based line numbers."""
    ranges: list[tuple[int, int]] = []
    for row in sorted(set(rows)):
        start = ranges.pop()[0] if ranges and ranges[-1][1] == row else row + 1
        ranges.append((start, row + 1))
    return [Verdict(check, severity, message, lines, side) for lines in ranges]


class EditLines:
    """The lines that an edit brings and those that it may remove, read through the prediction.  Numbers are 0-based."""

    def __init__(self, answer: CheckInput) -> None:
        self._ops = answer.prediction.ops
        self._update = answer.update.split("\n")
        self._unplaced_rows = [
            row for row in answer.prediction.unplaced if row < len(self._update) and self._update[row].strip()
        ]
        self.is_certain = answer.prediction.determined or answer.prediction.certainty is Certainty.CERTAIN
        self._quoted = answer.prediction.update_lines if answer.prediction.probability is None else ()
        self.is_given = answer.update.strip() != ""
        """False for an instruction: there new text is the point."""
        self.taken = [op.text for op in self._ops if op.kind == "take"]
        """The new lines that the predicted merge takes from the update."""
        self.unplaced = [self._update[row].strip() for row in self._unplaced_rows]
        """Lines of the update that are no part of the file (markers, fences, notes), as written, stripped."""
        self.dropped = {op.original_line for op in self._ops if op.kind == "drop" and op.original_line is not None}
        """Original lines that the predicted merge removes."""

    @cached_property
    def unsaid(self) -> set[int]:
        """Removed lines that the update does not speak of; a certain merge is taken at its word.

        A removal is said where the update puts about as many lines in its place, or shows both neighbours of the
        removed lines with no gap (marker) between them.  A note that something was removed is no gap.  A format that
        quotes what goes (search/replace blocks, diffs) says it by the quote.
        """
        unsaid: set[int] = set()
        if self.is_certain:
            return unsaid
        quoted = {"", *(line.strip() for line in self._quoted)}
        gaps = {row for row in self._unplaced_rows if REMOVAL.search(self._update[row]) is None}
        runs = [list(run) for _, run in groupby(self._ops, key=lambda op: op.kind == "drop")]
        last_shown = -1
        for before, run, after in zip([[], *runs], runs, [*runs[1:], []], strict=False):
            if run[0].kind != "drop":
                last_shown = next((op.update_line for op in reversed(run) if op.update_line is not None), last_shown)
                continue
            lines = [op.original_line for op in run if op.original_line is not None and op.text.strip() not in quoted]
            taken = [op.text for op in takewhile(lambda op: op.kind == "take", after)]
            if taken and len(lines) <= len(taken) * SHRINK + SLACK_LINES:
                continue
            neighbours = [*before[-1:], *after[:1]]
            next_shown = after[0].update_line if after else None
            between = range(last_shown + 1, len(self._update) if next_shown is None else next_shown)
            if not neighbours or any(op.kind == "keep" for op in neighbours) or not gaps.isdisjoint(between):
                unsaid.update(lines)
        return unsaid
