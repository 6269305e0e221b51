"""Which lines of the original are gone from the merged text and which are new in it: what most checks start from.

A longest common subsequence of lines between the common head and tail; past `MAX_CELLS` the lines are only counted, so
a moved line shows as neither gone nor new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from rapidfuzz.distance import LCSseq

from apply_service.types import Severity, Verdict

MAX_CELLS = 25_000_000


class LineChanges(NamedTuple):
    """0-based line numbers, rising: `removed` of the original, `added` of the merged text."""

    removed: tuple[int, ...]
    added: tuple[int, ...]


@lru_cache(maxsize=4)
def find_changes(original: str, merged: str) -> LineChanges:
    """The changed lines between two texts.  Cached, because several checks ask about the same answer."""
    old, new = original.split("\n"), merged.split("\n")
    head = _common_head(old, new)
    tail = _common_head(old[head:][::-1], new[head:][::-1])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(old) * len(new) > MAX_CELLS:
        return LineChanges(_surplus(old, new, head), _surplus(new, old, head))
    numbers: dict[str, int] = {}
    old_ids = [numbers.setdefault(line, len(numbers)) for line in old]
    new_ids = [numbers.setdefault(line, len(numbers)) for line in new]
    removed: list[int] = []
    added: list[int] = []
    for step in LCSseq.opcodes(old_ids, new_ids):
        if step.tag != "equal":
            removed.extend(range(head + step.src_start, head + step.src_end))
            added.extend(range(head + step.dest_start, head + step.dest_end))
    return LineChanges(tuple(removed), tuple(added))


def _common_head(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((count for count, (left, right) in pairs if left != right), min(len(one), len(other)))


def _surplus(lines: Sequence[str], others: Sequence[str], first: int) -> tuple[int, ...]:
    """Numbers of the lines that occur here more often than there, the last occurrences first to go."""
    spare = Counter(others)
    found = []
    for number, line in enumerate(lines, first):
        if spare[line] > 0:
            spare[line] -= 1
        else:
            found.append(number)
    return tuple(found)


def report(
    check: str,
    severity: Severity,
    message: str,
    numbers: Iterable[int],
    side: Literal["merged", "original"] = "merged",
) -> list[Verdict]:
    """One finding for each run of 0-based line numbers."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number + 1, number + 1))
    return [Verdict(check, severity, message, lines, side) for lines in ranges]
