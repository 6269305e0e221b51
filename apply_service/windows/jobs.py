"""A region as an edit job of its own: its lines, and the parts of update and prediction that speak of them.

Indices are renumbered; texts are the same lines.  Markers and other lines of the update that are no output stay with
the region between whose lines they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apply_service.protocols import EditJob
from apply_service.types import LineOp
from apply_service.windows.regions import Region


def cut_job(job: EditJob, region: Region) -> EditJob:
    """The job of one region.  Its original and update are lines of the job's own."""
    prediction = job.prediction
    own = _used(prediction.ops[region.start : region.stop])
    before, after = _used(prediction.ops[: region.start]), _used(prediction.ops[region.stop :])
    low = max((line for line in before if not own or line < own[0]), default=-1)
    high = min((line for line in after if not own or line > own[-1]), default=len(prediction.update_lines))
    kept = sorted({*own, *(line for line in prediction.unplaced if low < line < high)})
    number = {line: i for i, line in enumerate(kept)}
    ops = tuple(_renumbered(op, region, number) for op in prediction.ops[region.start : region.stop])
    update = job.update.split("\n")
    return replace(
        job,
        original="\n".join(job.original.split("\n")[region.first_line : region.last_line]),
        update="\n".join(update[i] for i in kept),
        prediction=replace(prediction, ops=ops, update_lines=tuple(prediction.update_lines[i] for i in kept)),
    )


def _used(ops: Sequence[LineOp]) -> list[int]:
    return sorted(op.update_line for op in ops if op.update_line is not None)


def _renumbered(op: LineOp, region: Region, number: dict[int, int]) -> LineOp:
    original_line = None if op.original_line is None else op.original_line - region.first_line
    update_line = None if op.update_line is None else number[op.update_line]
    return op._replace(original_line=original_line, update_line=update_line)
