"""Wrong hints: a right merge with the mistakes that deterministic mergers make.

The target trains on these against the true merge, so that it weighs a hint instead of obeying it.  Works on operations;
no text is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from apply_service.types import LineOp

Ops = list[LineOp]
MAX_SHIFT = 6


def corrupt_ops(ops: Sequence[LineOp], update_lines: Sequence[str], rng: random.Random) -> Ops:
    """`ops` with one to three mistakes; original lines stay in order, and no update line is used twice."""
    wrong = list(ops)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        mistake = rng.choice(_MISTAKES)
        wrong = mistake(wrong, update_lines, rng)
    return wrong


def _runs(ops: Ops, kind: str) -> list[tuple[int, int]]:
    """Maximal stretches of one kind, half open."""
    runs: list[tuple[int, int]] = []
    for at, op in enumerate(ops):
        if op.kind != kind:
            continue
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return runs


def _part(run: tuple[int, int], rng: random.Random) -> tuple[int, int]:
    """Half of the time the whole run, else a piece of it."""
    start, stop = run
    if rng.random() < 0.5 or stop - start < 2:
        return run
    low = rng.randrange(start, stop)
    return low, rng.randint(low + 1, stop)


def _move_takes(ops: Ops, _: Sequence[str], rng: random.Random) -> Ops:
    """New lines at the wrong place."""
    runs = _runs(ops, "take")
    if not runs:
        return ops
    start, stop = _part(rng.choice(runs), rng)
    moved, rest = ops[start:stop], ops[:start] + ops[stop:]
    to = min(max(0, start + rng.choice((-1, 1)) * rng.randint(1, MAX_SHIFT)), len(rest))
    return rest[:to] + moved + rest[to:]


def _miss_drops(ops: Ops, _: Sequence[str], rng: random.Random) -> Ops:
    """A deletion not seen."""
    runs = _runs(ops, "drop")
    if not runs:
        return ops
    start, stop = _part(rng.choice(runs), rng)
    return [op._replace(kind="keep") if start <= at < stop else op for at, op in enumerate(ops)]


def _drop_more(ops: Ops, _: Sequence[str], rng: random.Random) -> Ops:
    """Lines deleted that the snippet only left out."""
    places = [at for at, op in enumerate(ops) if op.kind != "keep"]
    if not places:
        return ops
    low = rng.choice(places) + rng.choice((1, 1, -3))
    window = range(low, low + rng.randint(1, 5))
    return [op._replace(kind="drop") if at in window and op.kind == "keep" else op for at, op in enumerate(ops)]


def _repeat_context(ops: Ops, update_lines: Sequence[str], rng: random.Random) -> Ops:
    """Context taken for new lines: written twice."""
    runs = _runs(ops, "both")
    if not runs:
        return ops
    start, stop = _part(rng.choice(runs), rng)
    kept = [op._replace(kind="keep", update_line=None) for op in ops[start:stop]]
    taken = [_take(op.update_line, update_lines) for op in ops[start:stop] if op.update_line is not None]
    return ops[:start] + (kept + taken if rng.random() < 0.5 else taken + kept) + ops[stop:]


def _rewrite_context(ops: Ops, update_lines: Sequence[str], rng: random.Random) -> Ops:
    """Context taken for a replacement of itself: harmless where it is quoted faithfully."""
    runs = _runs(ops, "both")
    if not runs:
        return ops
    start, stop = _part(rng.choice(runs), rng)
    dropped = [op._replace(kind="drop", update_line=None) for op in ops[start:stop]]
    taken = [_take(op.update_line, update_lines) for op in ops[start:stop] if op.update_line is not None]
    return ops[:start] + dropped + taken + ops[stop:]


def _miss_takes(ops: Ops, _: Sequence[str], rng: random.Random) -> Ops:
    """New lines taken for a marker or a remark."""
    runs = _runs(ops, "take")
    if not runs:
        return ops
    start, _stop = _part(rng.choice(runs), rng)
    return ops[:start] + ops[min(start + rng.randint(1, 3), _stop) :]


def _leak_marker(ops: Ops, update_lines: Sequence[str], rng: random.Random) -> Ops:
    """A marker or remark taken for a new line."""
    used = {op.update_line for op in ops}
    unplaced = [line for line in range(len(update_lines)) if line not in used]
    if not unplaced:
        return ops
    line = rng.choice(unplaced)
    after = [at for at, op in enumerate(ops) if op.update_line is not None and op.update_line < line]
    to = after[-1] + 1 if after else 0
    return [*ops[:to], _take(line, update_lines), *ops[to:]]


def _take(line: int, update_lines: Sequence[str]) -> LineOp:
    return LineOp("take", None, line, update_lines[line])


_MISTAKES: tuple[Callable[[Ops, Sequence[str], random.Random], Ops], ...] = (
    _move_takes,
    _move_takes,
    _miss_drops,
    _drop_more,
    _repeat_context,
    _rewrite_context,
    _miss_takes,
    _leak_marker,
)
