"""Whether another reading of a block is as good as the one the merge chose.

A reading replaces a stretch of the original (`stretches`) by the block; all other lines stay.  It costs 1 for each line
that it removes and 1 for each that it adds.  A line that merely moved counts once.  New lines that resemble hidden
lines beside the stretch speak against the chosen reading: they probably are those lines.  The answer is certain only if
every reading that gives another text costs more.

This module judges an alignment; it makes none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from rapidfuzz import fuzz, process
from rapidfuzz.distance import LCSseq

from apply_service.edits.candidates import MAX_FUZZY_LENGTH, substance
from apply_service.edits.stretches import Block, Stretch, Stretches

HELD_MARGIN = 1.5
"""A rival whose ends both match lines of the original must cost more than the chosen reading by over this."""
FREE_MARGIN = 1.2
"""The same for a rival whose first or last line is new."""
STAY_COST = 1.5
"""Extra cost of a first or last line that is new although an equal line stays elsewhere in the original."""
MIN_LIKENESS = 75.0
"""The least similarity (0-100) at which a new line may be the same as a hidden one."""
MIN_RUN = 1.0
"""Consecutive lines have moved as a whole if their `substance` adds up to this."""
BESIDE = 10
"""Echoes are searched in this many rows on each side of a stretch, plus the block's length."""
MAX_WEIGHED = 200
"""Rivals of one block that are weighed in full, the cheapest first."""
MIN_EDGE = 0.5
"""The `substance` that the file's first (last) line needs to be recognised in a snippet."""


class _Weight(NamedTuple):
    """What a reading costs.  `n_gone`, `n_new` and `new` leave out moved lines."""

    cost: float
    n_gone: int
    n_new: int
    new: Counter[str]

    def is_worse(self, other: _Weight) -> bool:
        """Whether it drops and adds at least as many lines as the other, and more in one of the two counts."""
        mine, theirs = (self.n_gone, self.n_new), (other.n_gone, other.n_new)
        return mine != theirs and self.n_gone >= other.n_gone and self.n_new >= other.n_new


class Rivals:
    """Weighs the readings of one original."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines`: the original's lines that are not blank, in the form in which they are compared."""
        self._lines = lines
        self._stretches = Stretches(lines)

    def has_rival(
        self, block: Block, chosen: Stretch, *, floor: int, shown: Collection[int], handicap: float = 0.0
    ) -> bool:
        """Whether a stretch from row `floor` on is as good a place for the block as `chosen`.

        `shown`: rows that other blocks show; they are not hidden.  `handicap`: extra cost of every rival.
        """
        if self._misses_edge(block, chosen):
            return True
        own = self._weigh(block, chosen)
        echo = self._echo(block, own.new, chosen, shown)
        most = own.cost + echo - handicap
        found = sorted(self._stretches.find(block, chosen, floor, most + HELD_MARGIN))
        for _, stretch in found[:MAX_WEIGHED]:
            if self._is_same_text(block, chosen, stretch):
                continue
            other = self._weigh(block, stretch)
            if other.is_worse(own) and not self._is_anchored(block, stretch):
                continue
            limit = most + (FREE_MARGIN if any(self._stretches.frees(block, stretch)) else HELD_MARGIN)
            # An echo that both readings have is no reason to prefer either.
            if other.cost + min(echo, self._echo(block, other.new & own.new, stretch, shown)) <= limit:
                return True
        return False

    def _is_anchored(self, block: Block, stretch: Stretch) -> bool:
        """Whether the block's first and last line equal those of the stretch."""
        ends = self._lines[stretch.start], self._lines[stretch.stop - 1]
        return ends == (block.lines[0], block.lines[-1])

    def _misses_edge(self, block: Block, chosen: Stretch) -> bool:
        """Whether the snippet starts (ends) like the file, without a marker there, but was placed elsewhere."""
        first, last = block.lines[0], block.lines[-1]
        at_start = block.opens_snippet and chosen.start > 0 and first == self._lines[0]
        at_end = block.closes_snippet and chosen.stop < len(self._lines) and last == self._lines[-1]
        return (at_start and substance(first.strip()) >= MIN_EDGE) or (at_end and substance(last.strip()) >= MIN_EDGE)

    def _is_same_text(self, block: Block, one: Stretch, other: Stretch) -> bool:
        if one.stop - one.start != other.stop - other.start:
            return False
        low, high = min(one.start, other.start), max(one.stop, other.stop)
        texts = ([*self._lines[low : s.start], *block.lines, *self._lines[s.stop : high]] for s in (one, other))
        return next(texts) == next(texts)

    # -- weights -----------------------------------------------------------------------------------------------------
    def _weigh(self, block: Block, stretch: Stretch) -> _Weight:
        lines = self._lines[stretch.start : stretch.stop]
        head, tail = self._stretches.frees(block, stretch)
        runs = _new_runs(block.lines, lines, head=head, tail=tail)
        n_new = sum(map(len, runs))
        n_gone = len(lines) - (len(block.lines) - n_new)
        here, there = Counter(map(str.strip, block.lines)), Counter(map(str.strip, lines))
        spare = there - (here - Counter(line.strip() for run in runs for line in run))
        spared = sum(_worth(moved) for run in runs for moved in _moved(run, spare))
        ends = {line for line, is_free in ((block.lines[0], head), (block.lines[-1], tail)) if is_free}
        stays = sum(line not in lines and bool(self._stretches.places(line)) for line in ends)
        gone, new = there - here, here - there
        return _Weight(n_gone + n_new - spared + STAY_COST * stays, gone.total(), new.total(), new)

    def _echo(self, block: Block, new: Counter[str], stretch: Stretch, shown: Collection[int]) -> float:
        """How much `substance` of the new lines resembles hidden lines beside the stretch."""
        if not new:
            return 0.0
        width = len(block.lines) + BESIDE
        rows = [*range(max(0, stretch.start - width), stretch.start)]
        rows += range(stretch.stop, min(len(self._lines), stretch.stop + width))
        hidden = {self._lines[row].strip() for row in rows if row not in shown}
        brief = [line for line in hidden if len(line) <= MAX_FUZZY_LENGTH]
        return sum(n * substance(line) * _likeness(line, hidden, brief) for line, n in new.items())


def _new_runs(block: Sequence[str], lines: Sequence[str], *, head: bool, tail: bool) -> list[Sequence[str]]:
    """The runs of block lines that are new: outside a longest common subsequence of the block and `lines`.

    `head` (`tail`): the first (last) line is new, so it is not compared.
    """
    core = block[head : len(block) - tail]
    steps = LCSseq.opcodes(core, lines) if core else ()
    runs = [core[step.src_start : step.src_end] for step in steps if step.src_end > step.src_start]
    kept = [step.tag == "equal" for step in steps if step.src_end > step.src_start]
    new = [run for run, is_kept in zip(runs, kept, strict=True) if not is_kept]
    return [*([block[:1]] if head else []), *new, *([block[-1:]] if tail else [])]


def _moved(run: Sequence[str], spare: Counter[str]) -> list[list[str]]:
    """The parts of a run whose lines are all in `spare`.  Each line that is found is taken out of `spare`."""
    parts: list[list[str]] = [[]]
    for line in map(str.strip, run):
        if spare[line] > 0:
            spare[line] -= 1
            parts[-1].append(line)
        else:
            parts.append([])
    return parts


def _worth(moved: Sequence[str]) -> float:
    """The cost saved by lines that moved together: 1 per line from `MIN_RUN` on, else their `substance`."""
    worth = sum(map(substance, moved))
    return len(moved) if worth >= MIN_RUN else worth


def _likeness(line: str, others: Collection[str], brief: Collection[str]) -> float:
    """Similarity (0 to 1) to the closest other line; 0 below `MIN_LIKENESS`.  `brief`: others that are short enough."""
    if line in others:
        return 1.0
    if len(line) > MAX_FUZZY_LENGTH:
        return 0.0
    found = process.extractOne(line, brief, scorer=fuzz.ratio, score_cutoff=MIN_LIKENESS)
    return found[1] / 100 if found else 0.0
