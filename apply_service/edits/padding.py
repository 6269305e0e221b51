"""Blank lines between new lines and a marker: part of the new lines, or mere padding of the marker.

Padding is a habit: where a snippet's markers touch lines of the file, a blank line beside new ones is meant.  Else it
is meant where new lines end, or follow, a nested stretch, which writers part from what is below by a blank line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apply_service.edits.headers import is_closer
from apply_service.edits.indentation import indent_of
from apply_service.edits.markers import Role
from apply_service.edits.reading import Reading


class Padding:
    """The blank lines of a snippet's gaps, given where its lines stand (`columns`: update line to original line)."""

    def __init__(self, reading: Reading, columns: Mapping[int, int]) -> None:
        self._reading = reading
        self._columns = columns

    def below(self, b: int, end: int) -> list[int]:
        """Blank update lines below block b that belong to its new last lines; the original goes on at line `end`."""
        block, original = self._reading.snippet.blocks[b], self._reading.original
        blanks = self._blanks(block.gap_after)
        is_new = block.marked_after and block.lines[-1] not in self._columns
        if not blanks or not is_new or end >= len(original) or not original[end].strip():
            return []
        last = self._reading.texts[block.lines[-1]]
        is_nested = is_closer(last) or indent_of(last) > indent_of(original[end])
        return blanks if self._is_meant(blanks, is_nested=is_nested) else []

    def above(self, b: int, start: int) -> list[int]:
        """The same above its new first lines; the original goes before them up to line `start`."""
        block, original = self._reading.snippet.blocks[b], self._reading.original
        blanks = self._blanks(block.gap_before[::-1])[::-1]
        is_new = block.marked_before and block.lines[0] not in self._columns
        if not blanks or not is_new or not start or not original[start - 1].strip():
            return []
        first, before = self._reading.texts[block.lines[0]], original[start - 1]
        is_nested = is_closer(before) or indent_of(before) > indent_of(first)
        return blanks if self._is_meant(blanks, is_nested=is_nested) else []

    def _is_meant(self, blanks: Sequence[int], *, is_nested: bool) -> bool:
        return len(blanks) > 1 or is_nested or self._is_habit_without()

    def _blanks(self, gap: Sequence[int]) -> list[int]:
        """The blank lines at the near end of a gap."""
        roles = self._reading.snippet.roles
        n = next((k for k, i in enumerate(gap) if roles[i] is not Role.BLANK), len(gap))
        return list(gap[:n])

    def _is_habit_without(self) -> bool:
        """Whether markers of this snippet touch lines of the file, and none is parted from one that it continues."""
        sides = list(self._sides())
        return bool(sides) and not any(sides)

    def _sides(self) -> list[bool]:
        """Of each place where a marker stands beside a shown line in the midst of the file's text: whether a blank line
        parts the two."""
        original, found = self._reading.original, []
        for block in self._reading.snippet.blocks:
            ends = (
                (block.marked_before, block.lines[0], -1, block.gap_before[::-1]),
                (block.marked_after, block.lines[-1], 1, block.gap_after),
            )
            for is_marked, i, step, gap in ends:
                j = self._columns.get(i, -1)
                if is_marked and j >= 0 and 0 <= j + step < len(original) and original[j + step].strip():
                    found.append(bool(self._blanks(gap)))
        return found
