"""The smallest line diff of two texts: which lines stay, as hunks of those that don't.

Knows no formats and renders nothing; byte restoration (`fidelity`), editor ranges and the unified diff are made from
its hunks.  Common ends are cut off, the rest is aligned by rapidfuzz (indel distance over interned lines); stretches
too large for that are first cut at lines that occur once on both sides (patience diff, after Bram Cohen).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rapidfuzz.distance import Indel

MAX_CELLS = 500_000_000
"""Largest product of line counts aligned in one go (a bit each: 60 MB); beyond it, and without anchors, a stretch is
replaced whole."""


class Hunk(NamedTuple):
    """Lines `a0:a1` of the old text became lines `b0:b1` of the new one (0-based, half open)."""

    a0: int
    a1: int
    b0: int
    b1: int


def diff_lines(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """The hunks that turn `old` into `new`, in order, with at least one common line between any two."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    hunks = _joined(_diff(a, b, Hunk(0, len(a), 0, len(b)), may_cut=True))
    return _slid(old, new, hunks)


def _diff(a: Sequence[int], b: Sequence[int], span: Hunk, *, may_cut: bool) -> Iterator[Hunk]:
    a0, a1, b0, b1 = _trimmed(a, b, span)
    if a0 == a1 or b0 == b1:
        if a0 < a1 or b0 < b1:
            yield Hunk(a0, a1, b0, b1)
    elif (a1 - a0) * (b1 - b0) <= MAX_CELLS:
        for op in Indel.opcodes(a[a0:a1], b[b0:b1]):
            if op.tag != "equal":
                yield Hunk(a0 + op.src_start, a0 + op.src_end, b0 + op.dest_start, b0 + op.dest_end)
    elif may_cut and (anchors := _anchors(a, b, Hunk(a0, a1, b0, b1))):
        for i, j in [*anchors, (a1, b1)]:
            yield from _diff(a, b, Hunk(a0, i, b0, j), may_cut=False)
            a0, b0 = i + 1, j + 1
    else:
        yield Hunk(a0, a1, b0, b1)


def _trimmed(a: Sequence[int], b: Sequence[int], span: Hunk) -> Hunk:
    a0, a1, b0, b1 = span
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        a0, b0 = a0 + 1, b0 + 1
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
    return Hunk(a0, a1, b0, b1)


def _anchors(a: Sequence[int], b: Sequence[int], span: Hunk) -> list[tuple[int, int]]:
    """Places of lines that occur once on both sides, as the longest chain that rises on both."""
    a0, a1, b0, b1 = span
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    place = {line: j for j, line in enumerate(b[b0:b1], b0)}
    unique = [(i, place[x]) for i, x in enumerate(a[a0:a1], a0) if count_a[x] == 1 and count_b.get(x) == 1]
    tails: list[int] = []
    last_of: list[int] = []
    before: list[int] = []
    for k, (_, j) in enumerate(unique):
        rank = bisect_left(tails, j)
        tails[rank : rank + 1] = [j]
        last_of[rank : rank + 1] = [k]
        before.append(last_of[rank - 1] if rank else -1)
    chain: list[tuple[int, int]] = []
    k = last_of[-1] if last_of else -1
    while k >= 0:
        chain.append(unique[k])
        k = before[k]
    return chain[::-1]


def _joined(hunks: Iterator[Hunk]) -> list[Hunk]:
    joined: list[Hunk] = []
    for hunk in hunks:
        if joined and joined[-1].a1 == hunk.a0 and joined[-1].b1 == hunk.b0:
            hunk = Hunk(joined[-1].a0, hunk.a1, joined[-1].b0, hunk.b1)
            joined.pop()
        joined.append(hunk)
    return joined


def _slid(old: Sequence[str], new: Sequence[str], hunks: list[Hunk]) -> list[Hunk]:
    """Pure insertions and deletions moved, within the room that equal lines give them, to where a reader would cut."""
    slid: list[Hunk] = []
    for k, hunk in enumerate(hunks):
        floor = slid[-1].a1 + 1 if slid else 0
        ceiling = hunks[k + 1].a0 - 1 if k + 1 < len(hunks) else len(old)
        slid.append(_slide(old, new, hunk, floor, ceiling))
    return slid


def _slide(old: Sequence[str], new: Sequence[str], hunk: Hunk, floor: int, ceiling: int) -> Hunk:
    a0, a1, b0, b1 = hunk
    if a0 != a1 and b0 != b1:
        return hunk
    text, start, end = (new, b0, b1) if a0 == a1 else (old, a0, a1)
    up = down = 0
    while a0 - up > floor and text[start - up - 1] == text[end - up - 1]:
        up += 1
    while a1 + down < ceiling and text[start + down] == text[end + down]:
        down += 1
    if not up and not down:
        return hunk
    shift = min(range(-up, down + 1), key=lambda s: (_cut_cost(text, start + s), -s))
    return Hunk(a0 + shift, a1 + shift, b0 + shift, b1 + shift)


def _cut_cost(text: Sequence[str], start: int) -> tuple[int, int]:
    """How odd a hunk looks that starts here: best is shallow text right after a blank line."""
    line = text[start].strip()
    is_inner = not line or line[0] in "})]" or line == "end"
    is_after_text = start > 0 and text[start - 1].strip() != ""
    return 2 * is_inner + is_after_text, len(text[start]) - len(text[start].lstrip())
