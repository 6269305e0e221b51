"""Where an edit touches a file: runs of a prediction's operations, widened to whole scopes where these are small.

Works on the operations of the predicted merge alone; what the merger did not see is in no region.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from apply_service.syntax.scopes import Scope, find_scopes
from apply_service.types import Prediction

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
    # For every operation, and the end, how many lines of the original come before it.
    at = list(accumulate((op.original_line is not None for op in prediction.ops), initial=0))
    scopes = [scope for scope in find_scopes(original, language) if scope.end_line - scope.lead_line <= scope_lines]
    spans = []
    start = 0
    for is_change, run in groupby(prediction.ops, key=lambda op: op.kind in ("drop", "take")):
        stop = start + len(list(run))
        if is_change:
            spans.append(_widened(at[start], at[stop], at[-1], scopes))
        start = stop
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    # With the lines that are inserted at the borders.
    return [Region(bisect_left(at, first), bisect_right(at, last) - 1, first, last) for first, last in joined]


def _widened(first: int, last: int, n_lines: int, scopes: Sequence[Scope]) -> tuple[int, int]:
    """Lines `first..last` with a margin, or the largest of `scopes` around them, whichever is more."""
    start, end = max(
        ((scope.lead_line, scope.end_line) for scope in scopes if scope.lead_line <= first and last <= scope.end_line),
        key=lambda lines: lines[1] - lines[0],
        default=(first, last),
    )
    return max(0, min(first - MARGIN_LINES, start)), min(n_lines, max(last + MARGIN_LINES, end))
