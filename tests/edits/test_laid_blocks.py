"""A snippet's blocks on the original: where each lies, what is new in it, what goes."""

from __future__ import annotations

from apply_service.edits.laid_blocks import Laid, LaidBlock
from apply_service.edits.lazy.reading import Reading
from apply_service.types import LineOp

ORIGINAL = ["a = 1", "", "b = 2", "c = 3  ", "d = 4", "e = 5"]
UPDATE = ["# ...", "b = 2", "", "x = 9", "d = 4", "# ...", "y = 7"]


def laid() -> Laid:
    """`b` and `d` shown with a blank line and `x` for `c`; `y`, which nothing holds, at the end."""
    ops = [
        LineOp("keep", 0, None, "a = 1"),
        LineOp("keep", 1, None, ""),
        LineOp("both", 2, 1, "b = 2"),
        LineOp("drop", 3, None, "c = 3  "),
        LineOp("take", None, 2, ""),
        LineOp("take", None, 3, "x = 9"),
        LineOp("both", 4, 4, "d = 4"),
        LineOp("keep", 5, None, "e = 5"),
        LineOp("take", None, 6, "y = 7"),
    ]
    return Laid(Reading(ORIGINAL, UPDATE, "python", None), ops)


def test_a_block_spans_what_it_shows_and_leaves_blank_lines_out() -> None:
    block = LaidBlock(0, (1, 3, 4), ("b = 2", "x = 9", "d = 4"), (2, None, 4), 2, 5)
    assert laid().blocks == [block]
    assert block.has_new


def test_a_block_that_only_shows_has_nothing_new() -> None:
    assert not LaidBlock(0, (1, 4), ("b = 2", "d = 4"), (2, 4), 2, 5).has_new


def test_columns_are_those_of_shown_lines() -> None:
    assert laid().columns == {1: 2, 4: 4}


def test_what_goes_and_what_comes_has_no_blank_lines() -> None:
    assert laid().dropped == {3}
    assert laid().taken == {3: "x = 9", 6: "y = 7"}


def test_changes_are_told_run_by_run() -> None:
    texts = [([op.text for op in gone], [op.text for op in new]) for gone, new in laid().changes]
    assert texts == [(["c = 3  "], ["x = 9"]), ([], ["y = 7"])]
