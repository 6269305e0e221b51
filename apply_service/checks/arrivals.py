"""Lines of the merged text that nothing accounts for: not kept or moved from the original, not among the lines expected
from the update.  What leaked markers and chat text are looked for in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from apply_service.checks.line_changes import find_changes
from apply_service.protocols import CheckInput


class Arrival(NamedTuple):
    """A line and its 0-based number in the merged text."""

    number: int
    line: str


def find_arrivals(answer: CheckInput, expected: Iterable[str]) -> list[Arrival]:
    """Lines of the merged text (blank ones aside) beyond the original's and the `expected`, indentation aside."""
    lines = answer.merged.split("\n")
    changes = find_changes(answer.original, answer.merged)
    original = answer.original.split("\n")
    spare = Counter(original[number].strip() for number in changes.removed)
    spare.update(text.strip() for text in expected)
    arrivals = []
    for number in changes.added:
        text = lines[number].strip()
        if not text:
            continue
        if spare[text] > 0:
            spare[text] -= 1
        else:
            arrivals.append(Arrival(number, lines[number]))
    return arrivals
