"""Global monotone alignment of a snippet's lines to the original's, by dynamic programming.

Rows are the snippet's visible lines, columns the original's lines.  A row matches one of its candidates or is taken as
new; between rows the original is *skipped* where a marker stands (free, but leaving the scope costs) and *dropped*
inside a block (concave cost).  All columns of a row are computed at once with numpy; every number is a score, higher is
better.  A forward and a backward table give, for each possible match, the best alignment through it, so the merger can
ask for the second best.  Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def crossings(self, indent: int) -> Scores:
        """Running count of lines indented less than `indent`."""
        return np.concatenate(([0.0], np.cumsum(self.indents < indent)))


class Alignment:
    """The solved tables of one problem."""

    def __init__(self, rows: Sequence[Row], terrain: Terrain) -> None:
        self._rows = rows
        self._terrain = terrain
        self._crossings: dict[int, Scores] = {}
        n = terrain.n_lines + 1
        self._ahead = np.zeros((len(rows) + 1, n))
        self._entry = np.zeros((len(rows), n))
        for i in range(len(rows)):
            self._forward(i)

    # -- forward -------------------------------------------------------------------------------------------------------
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
            return np.maximum(inside, np.maximum.accumulate(scores) - LEAVE_SCOPE_COST)
        dropped = self._terrain.dropped
        return np.max(
            [np.maximum.accumulate(scores + rate * dropped) - rate * dropped - start for start, rate in DROP_PIECES],
            axis=0,
        )

    def _crossed(self, indent: int) -> Scores:
        if indent not in self._crossings:
            self._crossings[indent] = self._terrain.crossings(indent)
        return self._crossings[indent]

    # -- backward ------------------------------------------------------------------------------------------------------
    @cached_property
    def _behind(self) -> Scores:
        """[n_rows + 1, n_lines + 1]: best score of all rows from i on, standing at a column after row i - 1."""
        table = np.zeros_like(self._ahead)
        for i in range(len(self._rows) - 1, -1, -1):
            table[i] = self._moved_back(self._start_of(i, table[i + 1]), self._rows[i])
        return table

    def _start_of(self, i: int, after: Scores) -> Scores:
        row = self._rows[i]
        start = after - row.take_cost
        if len(row.columns):
            start[row.columns] = np.maximum(start[row.columns], row.scores + after[row.columns + 1])
        return start

    def _moved_back(self, scores: Scores, row: Row) -> Scores:
        if row.gap_before:
            passed = self._crossed(row.scope_indent) * LEAVE_SCOPE_COST
            inside = _accumulate_back(scores - passed) + passed
            return np.maximum(inside, _accumulate_back(scores) - LEAVE_SCOPE_COST)
        dropped = self._terrain.dropped
        return np.max(
            [_accumulate_back(scores - rate * dropped) + rate * dropped - start for start, rate in DROP_PIECES], axis=0
        )

    # -- reading -------------------------------------------------------------------------------------------------------
    @property
    def best_score(self) -> float:
        return float(self._ahead[-1].max())

    def best(self) -> list[int]:
        """The best alignment: for each row its column, or TAKE."""
        end = int(np.argmax(self._ahead[-1]))
        return self._trace_back(len(self._rows), end)

    def best_through(self, i: int, column: int) -> list[int]:
        """The best alignment in which row i matches `column` (one of its candidates), or is taken (TAKE)."""
        row = self._rows[i]
        if column == TAKE:
            at = int(np.argmax(self._entry[i] + self._behind[i + 1]))
            head, tail = self._origin(i, at), at
        else:
            head, tail = self._origin(i, column), column + 1
        del row
        return [*self._trace_back(i, head), column, *self._trace_on(i + 1, tail)]

    def alternatives(self, i: int, chosen: int) -> Iterator[tuple[float, int]]:
        """(score lost, column) of every other way for row i."""
        row = self._rows[i]
        total = self.best_score
        if len(row.columns):
            through = self._entry[i][row.columns] + row.scores + self._behind[i + 1][row.columns + 1]
            for column, score in zip(row.columns.tolist(), through.tolist(), strict=True):
                if column != chosen:
                    yield total - score, column
        if chosen != TAKE:
            taken = float((self._entry[i] - row.take_cost + self._behind[i + 1]).max())
            yield total - taken, TAKE

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

    def _trace_on(self, start: int, at: int) -> list[int]:
        """Columns of the rows from `start` on, the pointer standing at `at` before the move."""
        chosen: list[int] = []
        for i in range(start, len(self._rows)):
            row = self._rows[i]
            value = self._start_of(i, self._behind[i + 1])[at:]
            if row.gap_before:
                crossed = self._crossed(row.scope_indent)
                cost = np.minimum((crossed[at:] - crossed[at]) * LEAVE_SCOPE_COST, LEAVE_SCOPE_COST)
            else:
                cost = _drop_cost(self._terrain.dropped[at:] - self._terrain.dropped[at])
            moved = value - cost
            to = at + int(np.argmax(moved >= moved.max() - 1e-9))
            column = self._step_on(i, to)
            chosen.append(column)
            at = to if column == TAKE else to + 1
        return chosen

    def _step_on(self, i: int, at: int) -> int:
        row = self._rows[i]
        k = int(np.searchsorted(row.columns, at))
        if k < len(row.columns) and row.columns[k] == at:
            through = row.scores[k] + self._behind[i + 1][at + 1]
            if through >= self._behind[i + 1][at] - row.take_cost - 1e-9:
                return at
        return TAKE


def _accumulate_back(scores: Scores) -> Scores:
    return np.maximum.accumulate(scores[::-1])[::-1]


def _drop_cost(weights: Scores) -> Scores:
    return np.min([start + rate * weights for start, rate in DROP_PIECES], axis=0) * (weights > 0)
