"""Hunks must rebuild the text after from the text before, and cut where a person would."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apply_eval.line_diff import Hunk, diff_lines
from apply_eval.sketch_layout import align

lines = st.lists(st.sampled_from(["", "}", "a", "b", "    return x", "def f():", "def g():", "c"]), max_size=30)


def apply_hunks(before: list[str], after: list[str], hunks: list[Hunk]) -> list[str]:
    out: list[str] = []
    at = 0
    for hunk in hunks:
        out += before[at : hunk.a0] + after[hunk.b0 : hunk.b1]
        at = hunk.a1
    return out + before[at:]


@given(lines, lines)
def test_hunks_turn_before_into_after(before: list[str], after: list[str]) -> None:
    hunks = diff_lines(before, after)
    assert apply_hunks(before, after, hunks) == after


@given(lines, lines)
def test_hunks_rise_and_leave_a_line_between_them(before: list[str], after: list[str]) -> None:
    hunks = diff_lines(before, after)
    assert all(h.a0 < h.a1 or h.b0 < h.b1 for h in hunks)
    for left, right in pairwise(hunks):
        assert left.a1 < right.a0
        assert right.a0 - left.a1 == right.b0 - left.b1


@given(lines, lines)
def test_items_cover_both_texts_in_order(before: list[str], after: list[str]) -> None:
    items = align(len(before), len(after), diff_lines(before, after))
    assert [i.original for i in items if i.kind != "take"] == list(range(len(before)))
    assert [i.after for i in items if i.kind != "drop"] == list(range(len(after)))
    assert all(before[i.original] == after[i.after] for i in items if i.kind == "keep")
    assert not any(a.kind == "take" and b.kind == "drop" for a, b in pairwise(items))


def test_equal_texts_have_no_hunk() -> None:
    assert diff_lines(["a", "b"], ["a", "b"]) == []
    assert diff_lines([], []) == []


def test_an_inserted_function_begins_at_its_head() -> None:
    before = ["def a():", "    return 1", "", "def c():", "    return 1", ""]
    after = ["def a():", "    return 1", "", "def b():", "    return 1", "", "def c():", "    return 1", ""]
    assert diff_lines(before, after) == [Hunk(3, 3, 3, 6)]


def test_a_unique_line_anchors_the_rest() -> None:
    before = ["}", "}", "unique", "}"]
    after = ["}", "unique", "}", "}"]
    assert apply_hunks(before, after, diff_lines(before, after)) == after
    kept = [i for i in align(4, 4, diff_lines(before, after)) if i.kind == "keep"]
    assert any(before[i.original] == "unique" for i in kept)


def test_a_very_large_change_without_anchors_is_one_hunk() -> None:
    before, after = ["x", "y"] * 1500, ["y", "z"] * 1500
    hunks = diff_lines(before, after)
    assert len(hunks) == 1
    assert apply_hunks(before, after, hunks) == after
