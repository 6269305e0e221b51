"""Global monotone alignment of a snippet's lines to the original's, by dynamic programming.

Rows are the snippet's visible lines, columns the original's lines.  A row matches one of its candidates or is taken as
new; between rows the original is *skipped* where a marker stands (free, but leaving the scope costs) and *dropped*
inside a block (concave cost).  All columns of a row are computed at once with numpy; every number is a score, higher is
better.  Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
TAKE = -1
"""Column of a row that matches nothing."""

INSERT_COST = 0.05
LEAVE_SCOPE_COST = 0.4
DROP_PIECES = ((0.0, 0.3), (1.0, 0.08), (2.4, 0.006))
"""Cost of dropping lines inside a block: the least of open + rate * lines."""


@dataclass(frozen=True, slots=True)
class Row:
    """One visible line of the snippet.  `columns` rise; `scores[k]` is what matching `columns[k]` is worth."""

    columns: npt.NDArray[np.int64]
    scores: Scores
    gap_before: bool
    scope_indent: int
    """At a gap: skipping an original line indented less than this leaves the scope."""
    take_cost: float = INSERT_COST


@dataclass(frozen=True)
class Terrain:
    """The original as the alignment sees it, one entry a line."""

    weights: Scores
    """What dropping the line costs, relative: 0 for blank lines."""
    indents: npt.NDArray[np.int64]
    """Columns of indentation; a large number for lines that never mark a scope (blank, preprocessor)."""

    @property
    def n_lines(self) -> int:
        return len(self.weights)

    @cached_property
    def dropped(self) -> Scores:
        return np.concatenate(([0.0], np.cumsum(self.weights)))

    def cut(self, low: int, high: int) -> Terrain:
        return Terrain(self.weights[low:high], self.indents[low:high])

    def crossings(self, indent: int) -> Scores:
        """Running count of lines indented less than `indent`."""
        return np.concatenate(([0.0], np.cumsum(self.indents < indent)))


class Alignment:
    """The solved table of one problem.  `from_start`: everything left of the first match is skipped or dropped from
    the first line on, as after a match just above."""

    def __init__(self, rows: Sequence[Row], terrain: Terrain, *, from_start: bool = False) -> None:
        self._rows = rows
        self._terrain = terrain
        self._crossings: dict[int, Scores] = {}
        n = terrain.n_lines + 1
        self._ahead = np.zeros((len(rows) + 1, n))
        self._entry = np.zeros((len(rows), n))
        if from_start:
            self._ahead[0, 1:] = -np.inf
        for i in range(len(rows)):
            self._forward(i)

    # -- forward -----------------------------------------------------------------------------------------------------
    def _forward(self, i: int) -> None:
        row = self._rows[i]
        entry = self._entry[i] = self._moved(self._ahead[i], row)
        after = entry - row.take_cost
        if len(row.columns):
            through = entry[row.columns] + row.scores
            after[row.columns + 1] = np.maximum(after[row.columns + 1], through)
        self._ahead[i + 1] = after

    def _moved(self, scores: Scores, row: Row) -> Scores:
        """Best score of standing at each column before the row, having moved there from anywhere to its left."""
        if row.gap_before:
            passed = self._crossed(row.scope_indent) * LEAVE_SCOPE_COST
            inside = np.maximum.accumulate(scores + passed) - passed
            return np.asarray(np.maximum(inside, np.maximum.accumulate(scores) - LEAVE_SCOPE_COST))
        dropped = self._terrain.dropped
        costs = [(start, rate * dropped) for start, rate in DROP_PIECES]
        pieces = [np.maximum.accumulate(scores + cost) - cost - start for start, cost in costs]
        return np.asarray(np.max(pieces, axis=0))

    def _crossed(self, indent: int) -> Scores:
        if indent not in self._crossings:
            self._crossings[indent] = self._terrain.crossings(indent)
        return self._crossings[indent]

    # -- reading -----------------------------------------------------------------------------------------------------
    def best(self) -> list[int]:
        """The best alignment: for each row its column, or TAKE."""
        end = int(np.argmax(self._ahead[-1]))
        return self._trace_back(len(self._rows), end)

    def _trace_back(self, stop: int, at: int) -> list[int]:
        """Columns of rows before `stop`, the pointer standing at `at` after row `stop - 1`."""
        chosen: list[int] = []
        for i in range(stop - 1, -1, -1):
            column = self._step(i, at)
            chosen.append(column)
            at = self._origin(i, at if column == TAKE else column)
        return chosen[::-1]

    def _step(self, i: int, at: int) -> int:
        """How row i came to stand at `at`: by matching `at - 1`, or taken."""
        row = self._rows[i]
        k = int(np.searchsorted(row.columns, at - 1))
        if k < len(row.columns) and row.columns[k] == at - 1:
            through = self._entry[i][at - 1] + row.scores[k]
            if through >= self._entry[i][at] - row.take_cost - 1e-9:
                return at - 1
        return TAKE

    def _origin(self, i: int, at: int) -> int:
        """Where the pointer stood after row i - 1 so that the move to `at` before row i is the best; the leftmost."""
        row = self._rows[i]
        before = self._ahead[i][: at + 1]
        if row.gap_before:
            crossed = self._crossed(row.scope_indent)
            cost = np.minimum((crossed[at] - crossed[: at + 1]) * LEAVE_SCOPE_COST, LEAVE_SCOPE_COST)
        else:
            cost = _drop_cost(self._terrain.dropped[at] - self._terrain.dropped[: at + 1])
        moved = before - cost
        return int(np.argmax(moved >= moved.max() - 1e-9))


def _drop_cost(weights: Scores) -> Scores:
    pieces = [start + rate * weights for start, rate in DROP_PIECES]
    return np.asarray(np.min(pieces, axis=0) * (weights > 0))
