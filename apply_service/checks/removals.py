"""Which removals of a predicted merge the update does not speak of.

A removal is said where the update shows both neighbours of the removed stretch with no gap (marker) between them, or
puts about as many lines in its place.  A note that something was removed is no gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apply_service.checks.marker_words import speaks_of_removal
from apply_service.types import LineOp, Prediction

SLACK_LINES = 3
SHRINK = 3
"""A replacement may take the place of this many times its lines, and `SLACK_LINES` more."""


class _Removal(NamedTuple):
    """A run of drops: its lines (blank ones left out), what stands around it, how many lines replace it."""

    lines: tuple[int, ...]
    before: LineOp | None
    after: LineOp | None
    n_taken: int
    last_shown: int
    """Number of the last update line before the run; -1 for none."""


def find_unsaid(prediction: Prediction, update_lines: Sequence[str]) -> tuple[int, ...]:
    """0-based original lines, rising, that go without the update saying so."""
    gaps = _gaps(prediction, update_lines)
    unsaid: list[int] = []
    for removal in _removals(prediction.ops):
        if not _is_said(removal, gaps, len(update_lines)):
            unsaid.extend(removal.lines)
    return tuple(unsaid)


def _gaps(prediction: Prediction, update_lines: Sequence[str]) -> frozenset[int]:
    """Update lines that may stand for others: no part of the file, and no removal note."""
    notes = (i for i in prediction.unplaced if i < len(update_lines) and update_lines[i].strip())
    return frozenset(i for i in notes if not speaks_of_removal(update_lines[i]))


def _removals(ops: Sequence[LineOp]) -> Iterator[_Removal]:
    last_shown, index = -1, 0
    while index < len(ops):
        if ops[index].kind != "drop":
            last_shown = _shown(ops[index], last_shown)
            index += 1
            continue
        start = index
        while index < len(ops) and ops[index].kind == "drop":
            index += 1
        yield _Removal(
            lines=tuple(
                op.original_line for op in ops[start:index] if op.original_line is not None and op.text.strip()
            ),
            before=ops[start - 1] if start else None,
            after=ops[index] if index < len(ops) else None,
            n_taken=_count_taken(ops, index),
            last_shown=last_shown,
        )


def _shown(op: LineOp, otherwise: int) -> int:
    return otherwise if op.update_line is None else op.update_line


def _count_taken(ops: Sequence[LineOp], start: int) -> int:
    index = start
    while index < len(ops) and ops[index].kind == "take":
        index += 1
    return index - start


def _is_said(removal: _Removal, gaps: frozenset[int], n_update_lines: int) -> bool:
    if removal.n_taken and len(removal.lines) <= removal.n_taken * SHRINK + SLACK_LINES:
        return True
    before, after = removal.before, removal.after
    if (before is None and after is None) or any(op is not None and op.kind == "keep" for op in (before, after)):
        return False
    end = n_update_lines if after is None else _shown(after, n_update_lines)
    return not any(line in gaps for line in range(removal.last_shown + 1, end))
