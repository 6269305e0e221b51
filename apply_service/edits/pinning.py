"""Aligns problems of any size: small ones at once, large ones between pinned lines.

A row that matches one column only, in a chain of such rows that rises, is taken as matched; what lies between two pins
is a small problem of its own.  Keeps the cost near linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apply_service.edits.alignment import TAKE, Alignment, Row, Terrain
from apply_service.errors import TooLarge

MAX_AT_ONCE = 1_500_000
"""Cells (rows times columns) up to which a problem is solved whole."""
MAX_CELLS = 12_000_000
MIN_PIN_SCORE = 0.5
FORCED = 1e6


def align(rows: Sequence[Row], terrain: Terrain) -> list[int]:
    """For each row its column, or TAKE.

    Raises:
        TooLarge: too many lines without a line between them that occurs once.
    """
    if len(rows) * terrain.n_lines <= MAX_AT_ONCE:
        return Alignment(rows, terrain).best()
    chosen: list[int] = []
    column = -1
    for r, next_column in [*find_pins(rows), (len(rows), terrain.n_lines)]:
        chosen += _between(rows[len(chosen) : r + 1], terrain, column, next_column)
        column = next_column
    return chosen


def find_pins(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """(row, column) of the longest rising chain of rows that match one column only, that no other row matches."""
    wanted: dict[int, int] = {}
    for row in rows:
        if len(row.columns) == 1:
            wanted[int(row.columns[0])] = wanted.get(int(row.columns[0]), 0) + 1
    sure = [
        (r, int(row.columns[0]))
        for r, row in enumerate(rows)
        if len(row.columns) == 1 and row.scores[0] >= MIN_PIN_SCORE and wanted[int(row.columns[0])] == 1
    ]
    return _longest_rising(sure)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of rising columns (patience sorting)."""
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


def _between(rows: Sequence[Row], terrain: Terrain, after: int, pin: int) -> list[int]:
    """Aligns rows that lie behind column `after`; the last one matches column `pin` unless that is the end."""
    if not rows:
        return []
    is_pinned = pin < terrain.n_lines
    low, high = after + 1, min(pin + 1, terrain.n_lines)
    if len(rows) * (high - low) > MAX_CELLS:
        raise TooLarge(
            "the snippet and the file have too many lines that cannot be told apart",
            value=len(rows) * (high - low),
            limit=MAX_CELLS,
            remedy="show less of the file, or send a diff",
        )
    part = [_cut(row, low, high) for row in rows]
    if is_pinned:
        part[-1] = replace(part[-1], take_cost=FORCED)
    solved = Alignment(part, terrain.cut(low, high), from_start=after >= 0).best()
    return [column if column == TAKE else column + low for column in solved]


def _cut(row: Row, low: int, high: int) -> Row:
    inside = (row.columns >= low) & (row.columns < high)
    return replace(row, columns=np.asarray(row.columns[inside] - low), scores=np.asarray(row.scores[inside]))
