"""Finds where else in the original a block of a snippet could lie: stretches that hold the block at both ends.

A stretch holds an end of the block in one of three ways: by an equal line; by the end of the file, if the snippet has
no marker there; or because no equal line follows farther out, so that the block's line is new.  Blank lines are left
out here.  This module gives a lower bound of each stretch's cost; `rivals` weighs the stretches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

from apply_service.edits.clarity import marks_place

MAX_STEPS = 30_000
"""The most lines compared for one block, per 256 lines of the block.  The nearest stretches come first."""
WORD = 256


class Stretch(NamedTuple):
    """Original lines `start:stop`, counted without the blank ones."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Block:
    """The lines to place, and whether the snippet begins (ends) with them, without a marker."""

    lines: tuple[str, ...]
    opens_snippet: bool = False
    closes_snippet: bool = False


class Common:
    """Counts what a block has in common with each beginning of a run of lines.

    Compares a machine word of block lines at a time (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).
    """

    def __init__(self, block: Sequence[str]) -> None:
        self._size = len(block)
        self._masks: dict[str, int] = {}
        for i, line in enumerate(block):
            self._masks[line] = self._masks.get(line, 0) | 1 << i
        self._counts = dict(Counter(map(str.strip, block)))

    def lengths(self, lines: Sequence[str]) -> Iterator[int]:
        """The length of the longest common subsequence with each beginning."""
        row = full = (1 << self._size) - 1
        for line in lines:
            mask = self._masks.get(line)
            if mask is not None:
                here = row & mask
                row = ((row + here) | (row - here)) & full
            yield self._size - row.bit_count()

    def counts(self, bare_lines: Sequence[str]) -> Iterator[int]:
        """How many lines each beginning shares with the block, in any order; `bare_lines` have no indentation."""
        left = self._counts.copy()
        n = 0
        for line in bare_lines:
            if left.get(line, 0) > 0:
                left[line] -= 1
                n += 1
            yield n


class _Side(NamedTuple):
    """Block and original, read forwards, or both reversed."""

    block: Sequence[str]
    lines: Sequence[str]
    bare_lines: Sequence[str]
    """`lines` without their indentation."""
    last_seen: int
    """The last row of `lines` that equals the block's last line; -1 if there is none, or if the line marks no place."""
    may_end: bool
    """The block may end where `lines` end."""
    whole: Common
    core: Common
    """Of the block without its last line."""


class Stretches:
    """Finds the stretches of one original."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines`: the original's lines that are not blank, in the form in which they are compared."""
        self.lines = lines
        self._bare = [line.strip() for line in lines]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for row, line in enumerate(lines):
            self._places[line].append(row)

    def places(self, line: str) -> Sequence[int]:
        """The rows equal to that line."""
        return self._places.get(line, ())

    def frees(self, block: Block, stretch: Stretch) -> tuple[bool, bool]:
        """Whether the first and the last line of the block are new: no line and no end of the file holds them."""
        lines = self.lines[stretch.start : stretch.stop]
        head = lines[:1] != [block.lines[0]] and not (block.opens_snippet and stretch.start == 0)
        tail = lines[-1:] != [block.lines[-1]] and not (block.closes_snippet and stretch.stop == len(self.lines))
        return head, tail

    def find(self, block: Block, around: Stretch, floor: int, limit: float) -> Iterator[tuple[int, Stretch]]:
        """Other stretches than `around`, from row `floor` on, the nearest first.

        Each comes with a lower bound of its cost, which is at most `limit`.  The cost is the number of dropped and of
        new lines; a moved line counts once.
        """
        n = len(self.lines)
        longest = len(block.lines) + int(limit)
        most = max(2, MAX_STEPS // (2 * (longest + 1) * (1 + len(block.lines) // WORD)))
        seen = {around}
        ahead, back = self._ahead(block), self._back(block)
        for start in self._starts(block, around, floor)[:most]:
            for cost, stop in _ends(ahead, start, min(n, start + longest), limit):
                if Stretch(start, stop) not in seen:
                    seen.add(Stretch(start, stop))
                    yield cost, Stretch(start, stop)
        for stop in self._stops(block, around, floor)[:most]:
            for cost, turned in _ends(back, n - stop, min(n - floor, n - stop + longest), limit):
                if Stretch(n - turned, stop) not in seen:
                    seen.add(Stretch(n - turned, stop))
                    yield cost, Stretch(n - turned, stop)

    def _starts(self, block: Block, around: Stretch, floor: int) -> list[int]:
        """Rows where the block's first line may be held, the nearest first."""
        found = {row for row in self.places(block.lines[0]) if row >= floor}
        if block.opens_snippet:
            found.add(0)
        return sorted(found, key=lambda row: abs(row - around.start))

    def _stops(self, block: Block, around: Stretch, floor: int) -> list[int]:
        """One past the rows where its last line may be held."""
        found = {row + 1 for row in self.places(block.lines[-1]) if row >= floor}
        if block.closes_snippet:
            found.add(len(self.lines))
        return sorted(found, key=lambda row: abs(row - around.stop))

    def _ahead(self, block: Block) -> _Side:
        seen = self.places(block.lines[-1])
        last = seen[-1] if seen and marks_place(block.lines[-1]) else -1
        return _side(block.lines, self.lines, self._bare, last, may_end=block.closes_snippet)

    def _back(self, block: Block) -> _Side:
        seen = self.places(block.lines[0])
        last = len(self.lines) - 1 - seen[0] if seen and marks_place(block.lines[0]) else -1
        return _side(block.lines[::-1], *self._turned, last, may_end=block.opens_snippet)

    @cached_property
    def _turned(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.lines[::-1], self._bare[::-1]


def _side(
    block: Sequence[str], lines: Sequence[str], bare_lines: Sequence[str], last_seen: int, *, may_end: bool
) -> _Side:
    return _Side(block, lines, bare_lines, last_seen, may_end, Common(block), Common(block[:-1]))


def _ends(side: _Side, start: int, longest: int, limit: float) -> Iterator[tuple[int, int]]:
    """(lower bound of the cost, stop) of each stretch from `start` on whose end holds the block."""
    block, lines = side.block, side.lines
    beginnings = lines[start:longest]
    lengths, counts = side.whole.lengths(beginnings), side.whole.counts(side.bare_lines[start:longest])
    # The end can be new only after the last line that equals it.
    cores = side.core.lengths(beginnings) if longest > side.last_seen else repeat(0)
    for stop, (whole, core, count) in enumerate(zip(lengths, cores, counts, strict=False), start + 1):
        common = whole
        is_equal = lines[stop - 1] == block[-1]
        if not is_equal and stop < len(lines) and lines[stop] == block[-1]:
            continue
        if not is_equal and not (side.may_end and stop == len(lines)):
            if stop <= side.last_seen:
                continue
            common = core
        cost = len(block) + stop - start - common - count
        if cost <= limit:
            yield cost, stop
