"""Aligns a snippet's lines with the original's lines by dynamic programming; both keep their order.

Rows are the snippet's visible lines; columns are the original's lines.  A row matches one of its candidates or is taken
as new.  A *group* of rows may match several columns at once, if the snippet breaks a statement into other lines.  If a
marker stands between two rows, the original lines between them are *skipped*; this is free unless it leaves the scope.
Original lines inside a block are *dropped* at a concave cost.  All columns of a row are computed at once with numpy.
Every number is a score; higher is better.

A small problem is solved at once.  A large one is solved in parts between pinned lines, so that the cost stays nearly
linear.  This module knows no text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.errors import TooLarge

Scores = npt.NDArray[np.float64]
TAKE = -1
"""Column of a row that matches nothing."""
MAX_AT_ONCE = 1_500_000
"""A problem is solved at once if it has at most this many cells (rows times columns)."""
MAX_CELLS = 12_000_000
MIN_PIN_SCORE = 0.5
FORCED = 1e6

INSERT_COST = 0.05
LEAVE_SCOPE_COST = 0.4
DROP_PIECES = ((0.0, 0.3), (1.0, 0.08), (2.4, 0.006))
"""Pairs of (open, rate).  Dropping lines inside a block costs the smallest value of `open + rate * lines`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One visible line of the snippet.  `columns` are ascending; `scores[k]` is the score of matching `columns[k]`."""

    columns: npt.NDArray[np.int64]
    scores: Scores
    gap_before: bool
    scope_indent: int
    """At a gap, skipping an original line that is indented less than this leaves the scope."""
    take_cost: float = INSERT_COST


class Group(NamedTuple):
    """Rows `row:row + n_rows` that may match columns `column:column + n_columns` together, and the score of that
    match."""

    row: int
    n_rows: int
    column: int
    n_columns: int
    score: float


class Match(NamedTuple):
    """Rows of an alignment and the columns that they match."""

    row: int
    n_rows: int
    column: int
    n_columns: int


@dataclass(frozen=True)
class Terrain:
    """The original as the alignment sees it, with one entry for each line."""

    weights: Scores
    """The relative cost of dropping the line; 0 for blank lines."""
    indents: npt.NDArray[np.int64]
    """Columns of indentation; a large number for lines that never mark a scope, such as blank lines."""

    @property
    def n_lines(self) -> int:
        return len(self.weights)

    @cached_property
    def dropped(self) -> Scores:
        return np.concatenate(([0.0], np.cumsum(self.weights)))


class Alignment:
    """The solved table of one problem.

    `from_start`: lines before the first match are skipped or dropped from the first line on, as if another match came
    just before the first line.
    """

    def __init__(
        self, rows: Sequence[Row], terrain: Terrain, groups: Sequence[Group] = (), *, from_start: bool = False
    ) -> None:
        self._groups: defaultdict[int, list[Group]] = defaultdict(list)
        for group in groups:
            self._groups[group.row + group.n_rows].append(group)
        self._rows = rows
        self._terrain = terrain
        self._leaving: dict[int, Scores] = {}
        self._drop_costs = [(start, rate * terrain.dropped) for start, rate in DROP_PIECES]
        n = terrain.n_lines + 1
        self._ahead = np.zeros((len(rows) + 1, n))
        self._entry = np.zeros((len(rows), n))
        if from_start:
            self._ahead[0, 1:] = -np.inf
        for i in range(len(rows)):
            row = self._rows[i]
            entry = self._entry[i] = self._moved(self._ahead[i], row)
            after = self._ahead[i + 1]
            np.subtract(entry, row.take_cost, out=after)
            if len(row.columns):
                through = entry[row.columns] + row.scores
                after[row.columns + 1] = np.maximum(after[row.columns + 1], through)
            for group in self._groups.get(i + 1, ()):
                stop = group.column + group.n_columns
                after[stop] = max(after[stop], self._entry[group.row][group.column] + group.score)

    # -- forward -----------------------------------------------------------------------------------------------------
    def _moved(self, scores: Scores, row: Row) -> Scores:
        """Return the best score at each column before the row, after a move there from any column to its left."""
        if row.gap_before:
            passed = self._leaving_costs(row.scope_indent)
            inside = np.maximum.accumulate(scores + passed) - passed
            return np.asarray(np.maximum(inside, np.maximum.accumulate(scores) - LEAVE_SCOPE_COST, out=inside))
        best: Scores | None = None
        for start, cost in self._drop_costs:
            piece = scores + cost
            np.maximum.accumulate(piece, out=piece)
            piece -= cost
            piece -= start
            best = piece if best is None else np.maximum(best, piece, out=best)
        assert best is not None
        return best

    def _leaving_costs(self, indent: int) -> Scores:
        """Return, for each column, the cost of passing all lines before it that are indented less than `indent`."""
        if indent not in self._leaving:
            crossed = np.concatenate(([0.0], np.cumsum(self._terrain.indents < indent)))
            self._leaving[indent] = crossed * LEAVE_SCOPE_COST
        return self._leaving[indent]

    # -- reading -----------------------------------------------------------------------------------------------------
    def best(self) -> list[Match]:
        """Return the matches of the best alignment, in order."""
        at = int(np.argmax(self._ahead[-1]))
        found: list[Match] = []
        i = len(self._rows)
        while i:
            match = self._last_match(i, at)
            if match is None:
                i -= 1
                at = self._origin(i, at)
            else:
                found.append(match)
                i = match.row
                at = self._origin(i, match.column)
        return found[::-1]

    def _last_match(self, i: int, at: int) -> Match | None:
        """Return the match that ends with row i - 1 at `at`, for one row or for a group.  The result is None if the row
        was taken as new."""
        score = self._ahead[i][at]
        row = self._rows[i - 1]
        k = int(np.searchsorted(row.columns, at - 1))
        is_candidate = k < len(row.columns) and row.columns[k] == at - 1
        if is_candidate and self._entry[i - 1][at - 1] + row.scores[k] >= score - 1e-9:
            return Match(i - 1, 1, at - 1, 1)
        for group in self._groups.get(i, ()):
            is_here = group.column + group.n_columns == at
            if is_here and self._entry[group.row][group.column] + group.score >= score - 1e-9:
                return Match(*group[:4])
        return None

    def _origin(self, i: int, at: int) -> int:
        """Return the leftmost column after row i - 1 from which a move to `at` before row i has the best score."""
        row = self._rows[i]
        before = self._ahead[i][: at + 1]
        if row.gap_before:
            passed = self._leaving_costs(row.scope_indent)
            cost = np.minimum(passed[at] - passed[: at + 1], LEAVE_SCOPE_COST)
        else:
            weights = self._terrain.dropped[at] - self._terrain.dropped[: at + 1]
            cost = np.min([start + rate * weights for start, rate in DROP_PIECES], axis=0) * (weights > 0)
        moved = before - cost
        return int(np.argmax(moved >= moved.max() - 1e-9))


def align(rows: Sequence[Row], terrain: Terrain, groups: Sequence[Group] = ()) -> list[Match]:
    """Return the matches of the best alignment, in order.

    Raises:
        TooLarge: a part between two pinned lines has too many cells.
    """
    if len(rows) * terrain.n_lines <= MAX_AT_ONCE:
        return Alignment(rows, terrain, groups).best()
    found: list[Match] = []
    groups = sorted(groups, key=lambda group: group.row)
    first, column = 0, -1
    for r, next_column in [*_find_pins(rows), (len(rows), terrain.n_lines)]:
        found += _between(rows, groups, terrain, (first, min(r + 1, len(rows))), (column, next_column))
        first, column = r + 1, next_column
    return found


def _find_pins(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the longest chain of pinned rows with ascending columns, as (row, column) pairs, by patience sorting.

    A pinned row matches only one column, and no other pinned row matches that column.
    """
    wanted: dict[int, int] = {}
    for row in rows:
        if len(row.columns) == 1:
            wanted[int(row.columns[0])] = wanted.get(int(row.columns[0]), 0) + 1
    pairs = [
        (r, int(row.columns[0]))
        for r, row in enumerate(rows)
        if len(row.columns) == 1 and row.scores[0] >= MIN_PIN_SCORE and wanted[int(row.columns[0])] == 1
    ]
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for k, (_, column) in enumerate(pairs):
        pile = bisect_left(ends, column)
        before.append(at[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(column)
            at.append(k)
        else:
            ends[pile], at[pile] = column, k
    chain: list[tuple[int, int]] = []
    k = at[-1] if at else -1
    while k >= 0:
        chain.append(pairs[k])
        k = before[k]
    return chain[::-1]


def _between(
    rows: Sequence[Row], groups: Sequence[Group], terrain: Terrain, part: tuple[int, int], pins: tuple[int, int]
) -> list[Match]:
    """Align the rows of `part` with the columns after the first pin, up to the second pin.

    If the second pin is a line of the original, the last row matches it.
    """
    first, stop = part
    after, pin = pins
    if first >= stop:
        return []
    low, high = after + 1, min(pin + 1, terrain.n_lines)
    if (stop - first) * (high - low) > MAX_CELLS:
        raise TooLarge(
            "too many lines of the snippet and the file are alike",
            value=(stop - first) * (high - low),
            limit=MAX_CELLS,
            remedy="show fewer lines of the file, or send a diff",
        )
    here = []
    for row in rows[first:stop]:
        is_in = (row.columns >= low) & (row.columns < high)
        here.append(replace(row, columns=np.asarray(row.columns[is_in] - low), scores=np.asarray(row.scores[is_in])))
    if pin < terrain.n_lines:
        here[-1] = replace(here[-1], take_cost=FORCED)
    inside = [
        group._replace(row=group.row - first, column=group.column - low)
        for group in groups[
            bisect_left(groups, first, key=itemgetter(0)) : bisect_left(groups, stop, key=itemgetter(0))
        ]
        if group.row + group.n_rows < stop and low <= group.column and group.column + group.n_columns <= high
    ]
    cut = Terrain(terrain.weights[low:high], terrain.indents[low:high])
    solved = Alignment(here, cut, inside, from_start=after >= 0).best()
    return [match._replace(row=match.row + first, column=match.column + low) for match in solved]
