"""The alignment of two texts as one list of items, and stretches of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from apply_eval.line_diff import Hunk

ItemKind = Literal["keep", "drop", "take"]


class Item(NamedTuple):
    """One line of the alignment of before and after."""

    kind: ItemKind
    original: int
    """Line of before; for `take` the line it stands in front of."""
    after: int
    """Line of after; for `drop` the line it would stand in front of."""


class Block(NamedTuple):
    """A half-open range of items that are shown without a gap."""

    start: int
    stop: int


def align(n_before: int, n_after: int, hunks: Sequence[Hunk]) -> list[Item]:
    """Every line of both texts in output order; drops before takes."""
    items: list[Item] = []
    a = b = 0
    for hunk in [*hunks, Hunk(n_before, n_before, n_after, n_after)]:
        items += [Item("keep", a + i, b + i) for i in range(hunk.a0 - a)]
        items += [Item("drop", i, hunk.b0) for i in range(hunk.a0, hunk.a1)]
        items += [Item("take", hunk.a1, j) for j in range(hunk.b0, hunk.b1)]
        a, b = hunk.a1, hunk.b1
    return items


def stretches(shown: bytearray) -> list[Block]:
    """The maximal runs of items that are shown."""
    found: list[Block] = []
    start = shown.find(1)
    while start >= 0:
        stop = shown.find(0, start)
        stop = len(shown) if stop < 0 else stop
        found.append(Block(start, stop))
        start = shown.find(1, stop)
    return found
