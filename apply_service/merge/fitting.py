"""Changes the indentation of a snippet to that of the file.

Lines that also stand in the original show how to do this.  First the whole snippet is rewritten in the file's unit
(tabs for spaces, or another width).  Then each block is moved by a number of columns.  A block whose first and last
line stand in the file as written is not moved: if the lines between are indented differently, that is part of the edit.
If a snippet lost its indentation, `refit` gives each known line its indentation in the file.  It indents new lines by
the brackets and colons above them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from apply_service.merge.align import INSERT_COST, Row, Terrain, align
from apply_service.merge.candidates import MAX_PLACES, NO_SCOPE, LineIndex, substance
from apply_service.merge.statements import goes_on
from apply_service.text.lines import (
    TAB_COLUMNS,
    columns,
    find_unit,
    indent_of,
    is_branch,
    is_closer,
    leading,
)
from apply_service.text.markers import strip_comment

MIN_VOTE = 0.15
"""A block is moved only if there is at least this much evidence."""
HELD = 6.0
"""The extra cost of taking the first or last line of a block as new although the file has it."""
MAX_VOTERS = 400
"""At most this many lines of a block are looked at."""
OPENERS = ("{", "(", "[", ":", "=>", "then", "do")
_BLANKS = (" ", "\t")
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSING = re.compile(r"[)\]}]+")
_DEFINES = re.compile(r"@|(?:(?:async )?def|class)\b.*:$")
_QUOTED = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`""")

Lines = Sequence[str]


class Shift(NamedTuple):
    """How a fragment gets the file's indentation: its levels are rewritten in the file's unit, then its lines are
    moved."""

    delta: int = 0
    own_columns: int = 0
    """Columns of one level in the fragment; 0 if levels are not rewritten."""
    unit: str = ""
    """The blanks of one level in the file; empty if the file has no levels."""

    @property
    def is_identity(self) -> bool:
        return not (self.delta or self.own_columns)

    def blanks(self, blanks: str) -> str:
        """Return leading blanks as the file would write them."""
        if self.own_columns:
            levels, rest = divmod(columns(blanks), self.own_columns)
            blanks = self.unit * levels + " " * rest
        if self.delta > 0:
            tabs, rest = divmod(self.delta, TAB_COLUMNS) if "\t" in self.unit else (0, self.delta)
            return "\t" * tabs + " " * rest + blanks
        surplus = -self.delta
        while surplus > 0 and blanks:
            surplus -= columns(blanks[0])
            blanks = blanks[1:]
        return blanks + " " * max(0, -surplus)

    def apply(self, line: str) -> str:
        """Return the line at the file's indentation; blank lines stay as they are."""
        if self.is_identity or not line.strip():
            return line
        blanks = leading(line)
        return self.blanks(blanks) + line[len(blanks) :]

    def moved(self, delta: int) -> Shift:
        return self._replace(delta=delta)


def fit_blocks(blocks: Sequence[Lines], index: LineIndex) -> list[Shift]:
    """Return the shift of each block."""
    base = _rewriting(blocks, index)
    shifts = [_move(lines, base, index) for lines in blocks]
    worths = [_known_worth(lines, shift, index) for lines, shift in zip(blocks, shifts, strict=True)]
    moves: defaultdict[int, float] = defaultdict(float)
    for shift, worth in zip(shifts, worths, strict=True):
        moves[shift.delta] += worth
    # A block is moved like most of the snippet, if it then agrees with the file equally well.
    common = base.moved(max(moves, key=moves.__getitem__, default=0))
    return [
        common if _known_worth(lines, common, index) >= worth else shift
        for lines, shift, worth in zip(blocks, shifts, worths, strict=True)
    ]


def _rewriting(blocks: Sequence[Lines], index: LineIndex) -> Shift:
    """Return the change of unit after which the most lines stand in the file.  If indented lines already stand in the
    file, the change does nothing."""
    indented = [kept for lines in blocks if (kept := [line for line in lines if line.startswith(_BLANKS)])]
    unit = find_unit(index.lines)
    plain = Shift(unit=unit.text if unit is not None else "")
    edges = [line.rstrip() for lines in blocks for line in (lines[0], lines[-1]) if line.startswith(_BLANKS)]
    if unit is None or not indented or any(substance(edge.strip()) >= 0.3 and index.has(edge) for edge in edges):
        return plain
    own = find_unit([line for lines in blocks for line in lines])
    stands = sum(_known_worth(lines, _move(lines, plain, index), index) for lines in indented)
    if own is not None and own != unit:
        # Rewrite the fragment's own levels if two things hold: blocks then stand in the file without being moved, and
        # no move alone would bring more blocks there.
        shift = Shift(own_columns=own.columns, unit=unit.text)
        fit = sum(_known_worth(lines, shift, index) for lines in blocks)
        moves = [_move(lines, plain, index) for lines in blocks]
        most = sum(_known_worth(lines, move, index) for lines, move in zip(blocks, moves, strict=True))
        says = sum(substance(line.strip()) for lines in indented for line in lines)
        if fit >= most if any(move.delta for move in moves) else fit - most > says / 2:
            return shift
    shown = [line for lines in indented for line in lines]
    if any(substance(line.strip()) >= 0.5 and index.has(line.rstrip()) for line in shown):
        return plain
    own = find_unit(shown)
    uses_tabs = any(line.startswith("\t") for line in shown)
    widths = (TAB_COLUMNS,) if uses_tabs else (2, 4) if own is None or own.columns != 4 else (4, 2)
    best, most = plain, max(2.5 * stands, MIN_VOTE)
    for width in widths:
        shift = Shift(own_columns=width, unit=unit.text)
        if unit.text == ("\t" if uses_tabs else " " * width):
            continue
        fit = sum(_known_worth(lines, _move(lines, shift, index), index) for lines in indented)
        if fit > most:
            best, most = shift, fit
    is_other_kind = {line[0] for line in shown} == ({" "} if unit.text == "\t" else {"\t"})
    if best is plain and own is not None and is_other_kind:
        in_levels = all(indent_of(line) % max(2, own.columns) == 0 for line in shown)
        return Shift(own_columns=own.columns, unit=unit.text) if in_levels else plain
    return best


def _known_worth(lines: Lines, shift: Shift, index: LineIndex) -> float:
    """Return the `substance` of all lines of the block that stand in the file once shifted."""
    return sum(
        substance(line.strip()) for line in lines[:MAX_VOTERS] if line.strip() and index.has(shift.apply(line).rstrip())
    )


def _move(lines: Lines, base: Shift, index: LineIndex) -> Shift:
    """Return the shift of a block: rewritten as `base` says, and moved unless its edges then stand in the file."""
    edges = [base.apply(line).rstrip() for line in (lines[0], lines[-1])]
    exact = [edge for edge in edges if index.has(edge)]
    if len(exact) == 2 or any(substance(edge.strip()) >= 0.5 for edge in exact):
        return base
    least = min((indent_of(base.apply(line)) for line in lines if line.strip()), default=0)
    if len(lines) >= 3 and substance(lines[0].strip()) >= 0.5:
        # Look for the only move after which both edges are lines of the file.
        first, last = (
            {indent_of(index.lines[j]) - here for j in index.places(line)[:60]}
            for line in (lines[0], lines[-1])
            for here in [indent_of(base.apply(line))]
        )
        if len(first) == 1 and first <= last and min(first) >= -least:
            return base.moved(min(first))
    votes: defaultdict[int, float] = defaultdict(float)
    for line in lines[:MAX_VOTERS]:
        places = index.places(line) if line.strip() else ()
        if not places:
            continue
        here = indent_of(base.blanks(leading(line)) + "x")
        indents = {indent_of(index.lines[j]) for j in places[:40]}
        for there in indents:
            if there - here >= -least:
                votes[there - here] += substance(line.strip()) ** 2 / len(indents)
    best = max(votes, key=votes.__getitem__, default=0)
    return base.moved(best) if votes[best] >= MIN_VOTE and votes[0] < 0.5 * votes[best] else base


# -- snippets that lost their indentation --------------------------------------------------------------------------


def known_lines(shown: Lines, runs: Sequence[Sequence[int]], index: LineIndex) -> dict[int, int]:
    """Return the file's line for each known line of `runs`, by one alignment that ignores indentation.

    `runs`: numbers of lines of the snippet.  Lines similar to a line of the file count as known too.
    """
    rows: list[Row] = []
    numbers: list[int] = []
    for run in runs:
        edges = (run[0], next((i for i in reversed(run) if not is_closer(shown[i])), run[-1]))
        for i in run:
            text = shown[i].strip()
            says = substance(text)
            places = index.places(text)
            cost = INSERT_COST
            if 0 < len(places) <= MAX_PLACES:
                rarity = 1.0 if len(places) == 1 else 0.2 / len(places)
                at = np.array(places, np.int64)
                worths = np.full(len(places), 0.02 + says * rarity)
                cost += says * rarity
                if i in edges:
                    cost += HELD
            else:
                found = index.similar(text)
                at, worths = found.columns, found.scores
            rows.append(Row(at, worths, i == run[0], 0, cost))
            numbers.append(i)
    terrain = Terrain(index.weights, np.full(len(index.lines), NO_SCOPE))
    return {numbers[match.row]: match.column for match in align(rows, terrain)}


def refit(shown: Lines, runs: Sequence[Sequence[int]], places: Mapping[int, int], original: Lines) -> list[str]:
    """Return the snippet's lines.  Each known line gets the leading blanks of its line in the file.  The brackets,
    colons and lines around a new line decide its leading blanks.

    `places`: the file's line of each known line.  `runs`: the numbers of the lines that are not blank, in order, cut at
    markers; each marker is a run of its own.
    """
    found = list(shown)
    flow = _Flow(shown, found, places, original)
    for run in runs:
        known = next((n for n, i in enumerate(run) if i in places), 0)
        for n in range(known, -1, -1) if run[known] in places else ():
            i, below = run[n], run[min(n + 1, known)]
            blanks = leading(original[places[i]]) if n == known else flow.above(shown[i], shown[below], found[below])
            found[i] = blanks + shown[i].strip()
        for n, i in enumerate(run):
            flow.add(i, is_set=n <= known and run[known] in places)
    return found


def move(shown: Lines, runs: Sequence[Sequence[int]], places: Mapping[int, int], original: Lines) -> list[str]:
    """Return the snippet's lines with each run moved as a whole.

    The first known line among the run's outermost lines gets the indentation that it has in the file.  If all outermost
    lines are new, they get the smallest indentation that known lines of the run have in the file.
    """
    found, delta, unit = list(shown), 0, find_unit(original)
    for run in runs:
        known = [i for i in run if i in places]
        if known:
            level = min(indent_of(shown[i]) for i in run)
            outer = [places[i] for i in known if indent_of(shown[i]) == level]
            delta = min(indent_of(original[j]) for j in outer[:1] or map(places.__getitem__, known)) - level
        for i in run:
            found[i] = Shift(delta, unit=unit.text if unit is not None else "").apply(shown[i])
    return found


def is_flat(shown: Lines, runs: Sequence[Sequence[int]]) -> bool:
    """Tell whether a line opens a scope although the next line is neither indented deeper nor a closer."""
    return any(
        _opens(shown[above]) and indent_of(shown[i]) <= indent_of(shown[above]) and not is_closer(shown[i])
        for run in runs
        for above, i in pairwise(run)
    )


class _Flow:
    """Gives each line of a snippet its leading blanks, from the first line down."""

    def __init__(self, shown: Lines, found: list[str], places: Mapping[int, int], original: Lines) -> None:
        self._shown, self._found, self._places, self._original = shown, found, places, original
        unit = find_unit(original)
        self._unit = unit.text if unit is not None else ""
        self._lines: list[int] = []
        self._open: list[int] = []
        """The lines whose brackets are open, the innermost last."""
        self._chains: set[int] = set()
        """The lines that continue the line above with a call (`.call()`), and the lines that close such a call."""

    def above(self, line: str, below: str, found: str) -> str:
        """Return the leading blanks of `line`, which stands above `below`.  `found`: the line below as written."""
        step, blanks = indent_of(below) - indent_of(line), leading(found)
        if step:
            return blanks[:-step] if step > 0 else blanks + " " * -step
        opens, closes = _opens(line), _CLOSING.match(below.strip()) is not None
        return blanks if opens == closes else blanks.removesuffix(self._unit) if opens else blanks + self._unit

    def add(self, i: int, *, is_set: bool) -> None:
        """Take the next line.  `is_set`: its leading blanks are already known."""
        text = self._shown[i].strip()
        closing = _CLOSING.match(text)
        n_closed = min(len(closing[0]) if closing else 0, len(self._open))
        opener = self._open[-n_closed] if n_closed else None
        if (goes_on(text) and not text.startswith("..")) or opener in self._chains:
            self._chains.add(i)
        if not is_set:
            # Text inside the brackets of a new line is new itself.
            is_inside = not self._open or self._open[-1] in self._places
            if opener is not None and not (is_inside and i in self._places):
                blanks = leading(self._found[opener])
            elif i in self._places and is_inside:
                blanks = leading(self._original[self._places[i]])
            else:
                blanks = self._blanks(i, text) if self._lines else leading(self._shown[i])
            self._found[i] = blanks + text
        self._lines.append(i)
        for sign in _BRACKET.findall(_QUOTED.sub("", text)) if not strip_comment(text).is_comment else ():
            if sign in "([{":
                self._open.append(i)
            elif self._open:
                self._open.pop()

    def _blanks(self, i: int, text: str) -> str:
        """Return the leading blanks of a new line."""
        last = self._lines[-1]
        above, blanks = self._shown[last].strip(), leading(self._found[last])
        less = blanks.removesuffix(self._unit)
        level = indent_of(self._shown[i])
        step = level - indent_of(self._shown[last])
        if step < 0:
            outer = next((k for k in reversed(self._lines) if indent_of(self._shown[k]) <= level), None)
            if outer is None:
                return blanks[:step]
            return leading(self._found[outer]) + " " * (level - indent_of(self._shown[outer]))
        if step > 0:
            margin, own = leading(self._shown[last]), leading(self._shown[i])
            return blanks + (own[len(margin) :] if own.startswith(margin) else " " * step)
        if text[0] != "{" and not above.endswith("{") and (is_closer(text) or is_branch(text)):
            return blanks if _opens(above) else less
        if _opens(above):
            return blanks + self._unit
        if text.startswith("*"):
            return blanks + " " * above.startswith("/*")
        if above.endswith("*/") and above.startswith("*"):
            return blanks.removesuffix(" ")
        if (i in self._chains) != (last in self._chains):
            return blanks + self._unit if i in self._chains else less
        return self._of_definition(text) if _DEFINES.match(text) and i > last + 1 else blanks

    def _of_definition(self, text: str) -> str:
        """Return the leading blanks of a definition in a language without brackets: the last similar definition has the
        same."""
        kind = text.startswith("class")
        for k in reversed(self._lines):
            if _DEFINES.match(line := self._shown[k].strip()) and line.startswith("class") == kind:
                return leading(self._found[k])
            if k in self._places:
                level = indent_of(self._original[self._places[k]])
                for line in self._original[self._places[k] :: -1]:
                    if line.strip() and indent_of(line) < level:
                        level = indent_of(line)
                        if _DEFINES.match(line.strip()) and line.strip().startswith("class") == kind:
                            return leading(line)
                return ""
        return leading(text)


def _opens(line: str) -> bool:
    return line.rstrip().endswith(OPENERS) and not strip_comment(line).is_comment
