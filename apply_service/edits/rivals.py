"""Whether another reading of a block is as good as the one the merge chose.

A reading lays a block on a stretch of the original (`stretches`): the lines outside stay, the block takes its place.
What it costs is what it asks a reader to believe: each line that goes and each that is new; one that merely moved
counts once.  New lines that echo hidden ones beside the stretch speak against the chosen reading: more likely they are
those lines.  The answer is certain only where every reading that gives another text costs more.

Judges an alignment, makes none.
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
"""By how much a rival must cost more that is held at both ends."""
FREE_MARGIN = 1.2
"""The same where an end of it is new."""
STAY_COST = 1.5
"""What a new end costs besides whose like stays elsewhere."""
MIN_LIKENESS = 75.0
"""How alike (0-100) a new line and a hidden one are that may be the same."""
MIN_RUN = 1.0
"""What lines that follow each other must say together to have moved as a whole."""
BESIDE = 10
"""Hidden lines beside a stretch, on top of as many as the block has, that its new lines may echo."""
MAX_WEIGHED = 200
"""Rivals of one block that are weighed in full, the cheapest first."""
MIN_EDGE = 0.5
"""What the file's first (last) line must say to be known again."""


class _Weight(NamedTuple):
    """What a reading asks to believe.  `n_gone`, `n_new` and `new` leave out what moved."""

    cost: float
    n_gone: int
    n_new: int
    new: Counter[str]

    def is_worse(self, other: _Weight) -> bool:
        """Whether it drops and adds no less than the other, and more of one."""
        mine, theirs = (self.n_gone, self.n_new), (other.n_gone, other.n_new)
        return mine != theirs and self.n_gone >= other.n_gone and self.n_new >= other.n_new


class Rivals:
    """Weighs the readings of one original."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines`: those of the original that are not blank, as they are to be compared."""
        self._lines = lines
        self._stretches = Stretches(lines)

    def has_rival(
        self, block: Block, chosen: Stretch, *, floor: int, shown: Collection[int], handicap: float = 0.0
    ) -> bool:
        """Whether a stretch from row `floor` on is as good a place for the block as `chosen`.

        `shown`: rows that other blocks show, so that they are not hidden.  `handicap`: what any rival costs besides.
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
        """Whether equal lines hold the block at both ends."""
        ends = self._lines[stretch.start], self._lines[stretch.stop - 1]
        return ends == (block.lines[0], block.lines[-1])

    def _misses_edge(self, block: Block, chosen: Stretch) -> bool:
        """Whether a snippet without a marker there begins (ends) as the file does, and was laid elsewhere."""
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
        """How much of what is new has its like in the hidden lines beside the stretch."""
        if not new:
            return 0.0
        width = len(block.lines) + BESIDE
        rows = [*range(max(0, stretch.start - width), stretch.start)]
        rows += range(stretch.stop, min(len(self._lines), stretch.stop + width))
        hidden = {self._lines[row].strip() for row in rows if row not in shown}
        brief = [line for line in hidden if len(line) <= MAX_FUZZY_LENGTH]
        return sum(n * substance(line) * _likeness(line, hidden, brief) for line, n in new.items())


def _new_runs(block: Sequence[str], lines: Sequence[str], *, head: bool, tail: bool) -> list[Sequence[str]]:
    """The runs of the block that have no fellow in a longest common subsequence; a free end has none."""
    core = block[head : len(block) - tail]
    steps = LCSseq.opcodes(core, lines) if core else ()
    runs = [core[step.src_start : step.src_end] for step in steps if step.src_end > step.src_start]
    kept = [step.tag == "equal" for step in steps if step.src_end > step.src_start]
    new = [run for run, is_kept in zip(runs, kept, strict=True) if not is_kept]
    return [*([block[:1]] if head else []), *new, *([block[-1:]] if tail else [])]


def _moved(run: Sequence[str], spare: Counter[str]) -> list[list[str]]:
    """The parts of a run that are among the lines to spare; these are used up."""
    parts: list[list[str]] = [[]]
    for line in map(str.strip, run):
        if spare[line] > 0:
            spare[line] -= 1
            parts[-1].append(line)
        else:
            parts.append([])
    return parts


def _worth(moved: Sequence[str]) -> float:
    """What is spared where lines have moved together: a line each if they say something, else next to nothing."""
    worth = sum(map(substance, moved))
    return len(moved) if worth >= MIN_RUN else worth


def _likeness(line: str, others: Collection[str], brief: Collection[str]) -> float:
    """0 to 1, 0 where nothing is much like the line.  `brief`: those of the others that are short enough to compare."""
    if line in others:
        return 1.0
    if len(line) > MAX_FUZZY_LENGTH:
        return 0.0
    found = process.extractOne(line, brief, scorer=fuzz.ratio, score_cutoff=MIN_LIKENESS)
    return found[1] / 100 if found else 0.0
