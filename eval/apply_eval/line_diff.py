"""The line diff of two texts: zero-context hunks, anchored on unique lines, slid to where an author would cut.

It tells the truth side of a sketch and measures mined edits; it renders nothing.  Patience anchors first (unique common
lines in rising order, after Bram Cohen's patience diff), then a minimal indel alignment of what lies between them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Indel

MAX_CELLS = 4_000_000
"""A stretch without anchors larger than this (lines x lines) counts as replaced whole: keeps the cost bounded."""


class Hunk(NamedTuple):
    """Lines `a0:a1` of before became lines `b0:b1` of after (0-based, half open)."""

    a0: int
    a1: int
    b0: int
    b1: int


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """The hunks that turn `before` into `after`, in order; none of them touch."""
    start, stop_a, stop_b = _trim(before, after, 0, len(before), 0, len(after))
    anchors = _unique_anchors(before, after, start, stop_a, start, stop_b)
    hunks: list[Hunk] = []
    a = b = start
    for anchor_a, anchor_b in [*anchors, (stop_a, stop_b)]:
        hunks += _between(before, after, a, anchor_a, b, anchor_b)
        a, b = anchor_a + 1, anchor_b + 1
    joined = _join_touching(hunks)
    slid: list[Hunk] = []
    for at, hunk in enumerate(joined, 1):
        ceiling = joined[at].a0 if at < len(joined) else len(before)
        slid.append(_slide(before, after, hunk, slid[-1].a1 if slid else 0, ceiling))
    return _join_touching(slid)


def _trim(a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int) -> tuple[int, int, int]:
    """Common head (its end in `a`) and common tail (its start in `a` and `b`)."""
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        a0, b0 = a0 + 1, b0 + 1
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
    return a0, a1, b1


def _unique_anchors(a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    """Pairs of equal lines that occur once on both sides, as the longest chain that rises on both."""
    if a0 >= a1 or b0 >= b1:
        return []
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    place_b = {line: j for j, line in enumerate(b[b0:b1], b0)}
    pairs = [(i, place_b[x]) for i, x in enumerate(a[a0:a1], a0) if count_a[x] == 1 and count_b.get(x) == 1]
    tails: list[int] = []
    tail_at: list[int] = []
    previous: list[int] = []
    for at, (_, j) in enumerate(pairs):
        rank = bisect_left(tails, j)
        tails[rank : rank + 1] = [j]
        tail_at[rank : rank + 1] = [at]
        previous.append(tail_at[rank - 1] if rank else -1)
    chain: list[tuple[int, int]] = []
    at = tail_at[-1] if tail_at else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    return chain[::-1]


def _between(a: Sequence[str], b: Sequence[str], a0: int, a1: int, b0: int, b1: int) -> list[Hunk]:
    """Hunks of a stretch between two anchors."""
    if (a1 - a0) * (b1 - b0) <= MAX_CELLS:
        head, tail_a, tail_b = _trim(a, b, a0, a1, b0, b1)
        a0, a1, b0, b1 = head, tail_a, b0 + head - a0, tail_b
        if a0 < a1 and b0 < b1:
            codes = Indel.opcodes(list(a[a0:a1]), list(b[b0:b1]))
            changes = [c for c in codes if c.tag != "equal"]
            return [Hunk(a0 + c.src_start, a0 + c.src_end, b0 + c.dest_start, b0 + c.dest_end) for c in changes]
    return [Hunk(a0, a1, b0, b1)] if a0 < a1 or b0 < b1 else []


def _join_touching(hunks: list[Hunk]) -> list[Hunk]:
    joined: list[Hunk] = []
    for hunk in hunks:
        if joined and joined[-1].a1 == hunk.a0 and joined[-1].b1 == hunk.b0:
            joined[-1] = Hunk(joined[-1].a0, hunk.a1, joined[-1].b0, hunk.b1)
        else:
            joined.append(hunk)
    return joined


def _slide(a: Sequence[str], b: Sequence[str], hunk: Hunk, floor: int, ceiling: int) -> Hunk:
    if hunk.a0 == hunk.a1:
        text, start, stop = b, hunk.b0, hunk.b1
    elif hunk.b0 == hunk.b1:
        text, start, stop = a, hunk.a0, hunk.a1
    else:
        return hunk
    up = 0
    while hunk.a0 - up > floor and text[start - up - 1] == text[stop - up - 1]:
        up += 1
    down = 0
    while hunk.a1 + down < ceiling and text[start + down] == text[stop + down]:
        down += 1
    if not up and not down:
        return hunk
    shift = min(range(-up, down + 1), key=lambda s: (*_cut_cost(text, start + s), abs(s)))
    return Hunk(hunk.a0 + shift, hunk.a1 + shift, hunk.b0 + shift, hunk.b1 + shift)


def _cut_cost(text: Sequence[str], start: int) -> tuple[int, int]:
    """How odd a cut looks: best where it starts at shallow text after a blank line."""
    first = text[start]
    indent = len(first) - len(first.lstrip())
    starts_blank = 0 if first.strip() else 1
    closes = 2 if first.strip()[:1] in {"}", ")", "]"} or first.strip() == "end" else 0
    ends_blank = 0 if start and text[start - 1].strip() == "" else 1
    return 4 * (starts_blank + closes) + ends_blank, indent
