"""Cuts the regions (windows) that an edit touches out of a long file, as separate edit jobs, and puts the results
together.

A region is a run of a prediction's operations, widened to whole scopes if these are small.  The regions follow from the
predicted merge alone: a change that the merger did not see is in no region.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from apply_service.protocols import EditJob
from apply_service.syntax.scopes import find_scopes
from apply_service.types import LineOp, Merge, Prediction

MARGIN_LINES = 6
"""The number of unchanged lines on either side of a change; they show a model where the change is."""
SCOPE_LINES = 80
"""A scope that holds a change is taken whole if it has at most this many lines."""


class Region(NamedTuple):
    """Operations `start:stop` of the prediction, and the lines `first_line:last_line` of the original they cover."""

    start: int
    stop: int
    first_line: int
    last_line: int

    @property
    def n_lines(self) -> int:
        return self.last_line - self.first_line


def find_regions(
    prediction: Prediction, original: str, language: str | None, *, scope_lines: int = SCOPE_LINES
) -> list[Region]:
    """Return the touched regions in order, with at least one untouched line between two regions; empty if nothing
    changes.

    Scopes of up to `scope_lines` lines are taken whole.
    """
    # The number of original lines before each operation, and before the end.
    at = list(accumulate((op.original_line is not None for op in prediction.ops), initial=0))
    scopes = [
        (scope.lead_line, scope.end_line)
        for scope in (find_scopes(original, language) if scope_lines else ())
        if scope.end_line - scope.lead_line <= scope_lines
    ]
    spans = []
    for start, stop in Merge(prediction.ops).changed:
        first, last = at[start], at[stop]
        around = [scope for scope in scopes if scope[0] <= first and last <= scope[1]]
        lead, end = max(around, key=lambda scope: scope[1] - scope[0], default=(first, last))
        spans.append((max(0, min(first - MARGIN_LINES, lead)), min(at[-1], max(last + MARGIN_LINES, end))))
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    # Lines inserted at a region's borders belong to it.
    return [Region(bisect_left(at, first), bisect_right(at, last) - 1, first, last) for first, last in joined]


def cut_job(job: EditJob, region: Region) -> EditJob:
    """Return the job of one region: the region's lines and its parts of the update and the prediction, renumbered.

    Markers and other lines of the update that are not part of the output stay with the region around them.
    """
    prediction = job.prediction
    ops = prediction.ops[region.start : region.stop]
    own, before, after = (
        [op.update_line for op in part if op.update_line is not None]
        for part in (ops, prediction.ops[: region.start], prediction.ops[region.stop :])
    )
    low = max((line for line in before if not own or line < min(own)), default=-1)
    high = min((line for line in after if not own or line > max(own)), default=len(prediction.update_lines))
    kept = sorted({*own, *(line for line in prediction.unplaced if low < line < high)})
    number = {line: i for i, line in enumerate(kept)}
    renumbered = tuple(
        op._replace(
            original_line=None if op.original_line is None else op.original_line - region.first_line,
            update_line=None if op.update_line is None else number[op.update_line],
        )
        for op in ops
    )
    update: Sequence[str] = job.update.split("\n")
    if len(update) != len(prediction.update_lines):  # a JSON edit: its new lines differ from its own text
        update = prediction.update_lines
    return replace(
        job,
        original="\n".join(job.original.split("\n")[region.first_line : region.last_line]),
        update="\n".join(update[i] for i in kept),
        prediction=replace(prediction, ops=renumbered, update_lines=tuple(prediction.update_lines[i] for i in kept)),
    )


def splice(prediction: Prediction, regions: Sequence[Region], merged: Sequence[str]) -> tuple[str, list[int]]:
    """Return the merged file, and the line at which the text of each window begins in it.

    `merged[i]` replaces the operations of `regions[i]`; outside the regions, the file keeps the original's lines.
    """

    def kept(ops: Sequence[LineOp]) -> list[str]:
        return [op.text for op in ops if op.kind != "drop"]

    lines: list[str] = []
    starts: list[int] = []
    done = 0
    for region, text in zip(regions, merged, strict=True):
        lines += kept(prediction.ops[done : region.start])
        starts.append(len(lines))
        # If a window deletes all of its lines, its empty text stands for no line.  Otherwise an empty text stands for
        # one empty line.
        is_deleted = text == "" and not kept(prediction.ops[region.start : region.stop])
        lines += [] if is_deleted else text.split("\n")
        done = region.stop
    return "\n".join([*lines, *kept(prediction.ops[done:])]), starts
