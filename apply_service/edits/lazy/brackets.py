"""Another alignment where the best one leaves brackets open that the file did not: an edit keeps them in pairs.

What an alignment most easily mistakes is a line of mere brackets: a closing line of new code looks like one of the
file, and the other way round.  So one such line at a time is read the other way, and of the merges whose brackets come
out even the one that changes least is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np

from apply_service.edits.candidates import Kind
from apply_service.edits.code_lines import surplus
from apply_service.edits.lazy.align import FORCED, TAKE, Group, Match, Row, align
from apply_service.edits.lazy.reading import Reading
from apply_service.edits.lazy.rows import Rows
from apply_service.types import LineOp

MAX_TRIES = 16
MAX_CELLS = 200_000
"""Larger problems (rows times lines) are not solved again."""


def keeps_pairs(ops: Sequence[LineOp]) -> bool:
    """Whether what comes opens as many brackets as what goes."""
    gone, new = ([op.text for op in ops if op.kind == kind] for kind in ("drop", "take"))
    return surplus(gone) == surplus(new)


def find_even(
    reading: Reading,
    rows: Rows,
    chosen: Sequence[Match],
    write: Callable[[Sequence[Match]], Sequence[LineOp]],
    groups: Sequence[Group] = (),
) -> list[Match] | None:
    """The alignment that differs from `chosen` in how one line of brackets is read, keeps brackets in pairs and changes
    the fewest lines; None where there is none."""
    problem, terrain = rows.rows(), rows.terrain()
    if len(problem) * terrain.n_lines > MAX_CELLS:
        return None
    columns = [TAKE] * len(problem)
    for match in chosen:
        for n in range(match.n_rows):
            columns[match.row + n] = match.column + min(n, match.n_columns - 1)
    texts = [reading.texts[i] for _, i in reading.visible]
    beside = [pairwise(columns[max(0, r - 1) : r + 2]) for r in range(len(columns))]
    is_at_change = [
        column == TAKE or any(b != a + 1 for a, b in pairs) for column, pairs in zip(columns, beside, strict=True)
    ]
    """Whether the row is new, or stands in the snippet beside one that is new or far from it in the file."""
    uneven = [r for r, text in enumerate(texts) if any(surplus([text])) and is_at_change[r]]
    # The rows at the ends of blocks first.
    uneven.sort(key=lambda r: not (problem[r].gap_before or r + 1 == len(problem) or problem[r + 1].gap_before))
    tries = (
        (r, row) for r in uneven if (row := _read_otherwise(reading, texts[r], problem[r], columns[r])) is not None
    )
    found: list[tuple[int, list[Match]]] = []
    for r, row in islice(tries, MAX_TRIES):
        other = align([*problem[:r], row, *problem[r + 1 :]], terrain, groups)
        if any(match.row == r for match in other):
            rows.admit(reading.visible[r][1])
        ops = write(other)
        if keeps_pairs(ops):
            found.append((sum(op.kind in ("drop", "take") and op.text.strip() != "" for op in ops), other))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _read_otherwise(reading: Reading, text: str, row: Row, column: int) -> Row | None:
    """A matched line of nothing but brackets, or one only like the file's, as new; a new one that is in the file as
    matched."""
    if column != TAKE:
        is_weak = not any(map(str.isalnum, text)) or not reading.index.count(text)
        return replace(row, columns=row.columns[:0], scores=row.scores[:0]) if is_weak else None
    equal = reading.index.equal(text)
    same = np.array([kind is Kind.SAME for kind in equal.kinds], bool)
    if not same.any():
        return None
    return replace(row, columns=equal.columns[same], scores=equal.scores[same], take_cost=FORCED)
