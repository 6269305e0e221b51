"""Whether the place of a block is clear to a reader who looks for its ends.

A block shows every line between its first and its last, so only its two ends must be clear.  They are clear under
three conditions.  The unbroken run of context at one end occurs once where the block may stand.  The run at the other
end is the nearest such run.  The two ends do not stand together elsewhere.  This is stricter than `rivals` if the
context says little, and does not see that a line has moved.  This module judges an alignment; it makes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apply_service.edits.candidates import LineIndex
from apply_service.edits.code_lines import indent_of, is_closer
from apply_service.edits.laid_blocks import Laid, LaidBlock

MIN_LETTERS = 6
MAX_TWIN = 3
"""Equal ends elsewhere count as a twin if they are less than this many block lengths apart."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The context at both ends of a block.

    `head` and `tail` are the lines of the two runs; a run is empty if the block begins (ends) with new lines.
    `head_at` and `tail_at` are the original lines where the runs begin.
    """

    head: tuple[str, ...]
    head_at: int
    tail: tuple[str, ...]
    tail_at: int


def is_vague(laid: Laid) -> bool:
    """Whether the ends of a changed block fit another place as well."""
    places = Places(laid.reading.index)
    floor, above = 0, 0
    headers: list[int] = []
    """The lines shown above a block that are indented less than all shown lines after them; the nearest is last."""
    visible = laid.reading.visible
    for block in laid.blocks:
        while above < len(visible) and visible[above][0] < block.number:
            i = visible[above][1]
            indent = indent_of(laid.reading.texts[i])
            while headers and indent_of(laid.reading.texts[headers[-1]]) >= indent:
                headers.pop()
            headers.append(i)
            above += 1
        texts = laid.reading.block_texts(block.number)
        if block.has_new or block.end - block.start > len(texts):
            columns = [laid.columns.get(i) for i in laid.reading.snippet.blocks[block.number].lines]
            ends = find_ends(texts, columns, laid.reading.original)
            ceiling = _ceiling(laid, block, headers)
            if not places.is_clear(ends, floor, ceiling) or places.has_twin(block, len(texts), floor):
                return True
        floor = block.end
    return False


def _ceiling(laid: Laid, block: LaidBlock, headers: Sequence[int]) -> int:
    """The line before which the block must end: the end of the innermost scope above it with a unique header."""
    reading = laid.reading
    ceiling = len(reading.original)
    indent = min(map(indent_of, block.texts))
    for i in reversed(headers):
        text, j = reading.texts[i], laid.columns.get(i)
        if indent_of(text) >= indent:
            continue
        indent = indent_of(text)
        if j is not None and reading.index.count(text) == 1 and reading.close_of(j) >= block.end - 1:
            ceiling = min(ceiling, reading.close_of(j) + 1)
    return ceiling


def find_ends(texts: Sequence[str], columns: Sequence[int | None], original: Sequence[str]) -> Ends:
    """The runs of a block, without blank lines on their inner side.

    `texts`: its lines.  `columns`: the original line of each line that stays; None for new and for blank lines.
    """
    n = len(texts)
    head = 0
    first = columns[0]
    while first is not None and head < n and _stays(texts[head], columns[head], first + head, original):
        head += 1
    tail = 0
    last = columns[-1]
    while last is not None and tail < n and _stays(texts[n - 1 - tail], columns[n - 1 - tail], last - tail, original):
        tail += 1
    head_at = first if first is not None else -1
    tail_at = last - tail + 1 if last is not None else -1
    while head > 1 and not original[head_at + head - 1].strip():
        head -= 1
    while tail > 1 and not original[tail_at].strip():
        tail, tail_at = tail - 1, tail_at + 1
    return Ends(tuple(original[head_at : head_at + head]), head_at, tuple(original[tail_at : tail_at + tail]), tail_at)


def _stays(text: str, column: int | None, wanted: int, original: Sequence[str]) -> bool:
    if column is not None:
        return column == wanted
    return not text.strip() and 0 <= wanted < len(original) and not original[wanted].strip()


def says_something(run: Sequence[str]) -> bool:
    """Whether a run has a line with more than brackets and short words: readers look only for such a run."""
    return any(sum(map(str.isalnum, line[:200])) >= MIN_LETTERS for line in run)


def marks_place(line: str) -> bool:
    """Whether a line has a letter or digit, or closes something.  A lone sign ("*", "---") may well be new."""
    return any(map(str.isalnum, line[:200])) or is_closer(line)


class Places:
    """Finds runs of lines in the original."""

    def __init__(self, index: LineIndex) -> None:
        self._index = index

    def find(self, run: Sequence[str], low: int, high: int) -> list[int]:
        """Where in `low:high` the run occurs, ignoring white space at both ends of lines."""
        wanted = [line.strip() for line in run]
        if not any(wanted):
            return []
        k = next(i for i, line in enumerate(wanted) if line)
        n = len(wanted)
        starts = (j - k for j in self._index.places(wanted[k]))
        return [p for p in starts if low <= p and p + n <= high and self._index.stripped[p : p + n] == wanted]

    def is_clear(self, ends: Ends, low: int, high: int) -> bool:
        """Whether the block's ends fit only the place where they were put, if the block lies in `low:high`."""
        if not all(any(map(marks_place, run)) for run in (ends.head, ends.tail) if run):
            return False
        if not ends.head or not ends.tail:
            run = ends.head or ends.tail
            return bool(run) and len(self.find(run, low, high)) == 1
        heads = self.find(ends.head, low, high)
        if len(heads) == 1:
            after = self.find(ends.tail, ends.head_at + len(ends.head), high)
            return after[:1] == [ends.tail_at] and (len(after) == 1 or says_something(ends.tail))
        tails = self.find(ends.tail, low, high)
        before = [p for p in heads if p + len(ends.head) <= ends.tail_at + len(ends.tail) - 1]
        return len(tails) == 1 and before[-1:] == [ends.head_at] and says_something(ends.head)

    def has_twin(self, block: LaidBlock, length: int, low: int) -> bool:
        """Whether the first and the last line of a block stand together elsewhere, from line `low` on."""
        firsts, lasts = self._others(block.start, low), self._others(block.end - 1, low)
        return any(0 < b - a < MAX_TWIN * length for a in firsts for b in lasts)

    def _others(self, line: int, low: int) -> list[int]:
        """The other lines from `low` on that equal the line."""
        text = self._index.lines[line].rstrip()
        equal = (j for j in self._index.places(text) if j >= low and j != line)
        return [j for j in equal if self._index.lines[j].rstrip() == text]
