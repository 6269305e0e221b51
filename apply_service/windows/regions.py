"""Where an edit touches a file: runs of a prediction's operations, widened to whole scopes where these are small.

Works on the operations of the predicted merge alone; what the merger did not see is in no region.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from apply_service.syntax.scopes import Scope, find_scopes
from apply_service.types import LineOp, Prediction

MARGIN_LINES = 6
"""Unchanged lines on either side of a change: what a model needs to see where it is."""
SCOPE_LINES = 80
"""A scope that holds a change is taken whole where it has at most so many lines."""


class Region(NamedTuple):
    """Operations `start..stop` (half open) of the prediction, and the lines of the original that they cover."""

    start: int
    stop: int
    first_line: int
    last_line: int
    """One past the last."""

    @property
    def n_lines(self) -> int:
        return self.last_line - self.first_line


def find_regions(
    prediction: Prediction, original: str, language: str | None, *, scope_lines: int = SCOPE_LINES
) -> list[Region]:
    """The touched regions in order, apart by at least one untouched line; empty where nothing changes.  Scopes of up to
    `scope_lines` lines are taken whole."""
    at = _line_at(prediction.ops)
    n_lines = at[-1]
    scopes = [scope for scope in find_scopes(original, language) if scope.end_line - scope.lead_line <= scope_lines]
    wanted = [_widened(at[start], at[stop], n_lines, scopes) for start, stop in _changed_runs(prediction.ops)]
    return [_region(first, last, at) for first, last in _merged(wanted)]


def _line_at(ops: Sequence[LineOp]) -> list[int]:
    """For every operation, and the end, how many lines of the original come before it."""
    at = [0]
    for op in ops:
        at.append(at[-1] + (op.original_line is not None))
    return at


def _changed_runs(ops: Sequence[LineOp]) -> Iterable[tuple[int, int]]:
    start = None
    for i, op in enumerate(ops):
        is_change = op.kind in ("drop", "take")
        if is_change and start is None:
            start = i
        if not is_change and start is not None:
            yield start, i
            start = None
    if start is not None:
        yield start, len(ops)


def _widened(first: int, last: int, n_lines: int, scopes: Sequence[Scope]) -> tuple[int, int]:
    """Lines `first..last` with a margin, or the largest of `scopes` around them, whichever is more."""
    wide = (max(0, first - MARGIN_LINES), min(n_lines, last + MARGIN_LINES))
    around = [
        (scope.lead_line, scope.end_line) for scope in scopes if scope.lead_line <= first and last <= scope.end_line
    ]
    if not around:
        return wide
    start, end = max(around, key=lambda lines: lines[1] - lines[0])
    return min(wide[0], start), max(wide[1], min(end, n_lines))


def _merged(wanted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for first, last in sorted(wanted):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def _region(first: int, last: int, at: Sequence[int]) -> Region:
    """The operations of these lines, with the lines that are inserted at their borders."""
    return Region(bisect_left(at, first), bisect_right(at, last) - 1, first, last)
