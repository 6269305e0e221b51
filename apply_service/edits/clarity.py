"""Whether the place of a block is clear to a reader who has only the original and the snippet.

Between its first and last line a block says all, so only its two ends must be clear: the unbroken run of context at one
end occurs once where the block may stand, the run at the other end is the one nearest to it, and no other end of the
block makes the change as small.  Judges an alignment, makes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from apply_service.edits.candidates import LineIndex
from apply_service.edits.headers import is_closer

MIN_LETTERS = 6
MAX_RIVALS = 200
"""More other ends are not weighed: the nearest ones are."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The context at both ends of a block.  `head` and `tail` are the runs' texts, `head_at` and `tail_at` the original
    lines where they begin; empty where the block begins (ends) with new lines."""

    head: tuple[str, ...]
    head_at: int
    tail: tuple[str, ...]
    tail_at: int


def find_ends(texts: Sequence[str], columns: Sequence[int | None], original: Sequence[str]) -> Ends:
    """The runs of a block, without blank lines on their inner side.

    `texts`: its lines; `columns`: the original line of each that stays, None for new ones
    (for blank lines, too)."""
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
    """Whether a run has a line that is more than brackets and keywords: only such a run is looked for by readers."""
    return any(sum(map(str.isalnum, line[:200])) >= MIN_LETTERS for line in run)


def marks_something(run: Sequence[str]) -> bool:
    """Whether a run has a word or a closing line: a lone sign ("*", "---") may as well be new."""
    return any(any(map(str.isalnum, line[:200])) or is_closer(line) for line in run)


class Places:
    """Finds runs of lines in the original."""

    def __init__(self, index: LineIndex) -> None:
        self._index = index

    def find(self, run: Sequence[str], low: int, high: int) -> list[int]:
        """Where in `low:high` the run occurs (white space at both ends of lines aside)."""
        wanted = [line.strip() for line in run]
        if not any(wanted):
            return []
        k = next(i for i, line in enumerate(wanted) if line)
        n = len(wanted)
        starts = (j - k for j in self._index.places(wanted[k]))
        return [p for p in starts if low <= p and p + n <= high and self._index.stripped[p : p + n] == wanted]

    def is_clear(self, ends: Ends, low: int, high: int) -> bool:
        """Whether the block's ends can only lie where they were put, given that the block lies in `low:high`."""
        if not all(marks_something(run) for run in (ends.head, ends.tail) if run):
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

    def is_smallest(self, texts: Sequence[str], first: int, last: int, low: int, high: int) -> bool:
        """Whether no other first or last line in `low:high` makes the change as small as `first` and `last` do, and the
        two do not stand elsewhere together, whatever the scope: readers take the smallest, and of two such places they
        can't be sure."""
        lines = self._index.lines
        rivals = [(a, last) for a in self._others(first, low, last + 1)]
        rivals += [(first, b) for b in self._others(last, first, high)]
        if self._other_pairs(first, last, low, len(texts)):
            return False
        shown = _solid(texts)
        limit = Indel.distance(shown, _solid(lines[first : last + 1]))
        near = ((a, b) for a, b in rivals if b - a < 2 * len(texts) + limit)
        return all(Indel.distance(shown, _solid(lines[a : b + 1]), score_cutoff=limit) > limit for a, b in near)

    def _other_pairs(self, first: int, last: int, low: int, length: int) -> list[tuple[int, int]]:
        """Other places of both ends, each first line with the last line that makes the length most alike."""
        n_lines = len(self._index.lines)
        ends = self._others(last, low, n_lines)
        pairs = []
        for a in self._others(first, low, n_lines):
            b = min((b for b in ends if b > a), key=lambda b: abs(b - a + 1 - length), default=None)
            if b is not None and b - a < 3 * length:
                pairs.append((a, b))
        return pairs

    def _others(self, line: int, low: int, high: int) -> list[int]:
        """The nearest lines in `low:high` equal to that line."""
        text = self._index.lines[line].rstrip()
        equal = (j for j in self._index.places(text) if low <= j < high and j != line)
        found = [j for j in equal if self._index.lines[j].rstrip() == text]
        return sorted(found, key=lambda j: abs(j - line))[:MAX_RIVALS]


def _solid(lines: Sequence[str]) -> list[str]:
    """The lines that are not blank, without the white space at their ends."""
    return [text for text in map(str.rstrip, lines) if text]
