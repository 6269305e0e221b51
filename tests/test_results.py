"""Hunks of an answer: they hold exactly what changed, and the doubt of the choices that were made there."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apply_service.pipeline import confident_hunks
from apply_service.text.diff import text_hunks
from apply_service.types import Hunk

TEXT = st.text(alphabet="ab\n\r😀", max_size=40)


def lines(text: str) -> list[str]:
    """As editors count, with the line ends."""
    marked = (
        text.replace("\r\n", "\n\x00").replace("\r", "\r\x01").replace("\n", "\n\x01").replace("\n\x01\x00", "\r\n\x01")
    )
    return [line for line in marked.split("\x01") if line]


def hunks(original: str, merged: str, probabilities: dict[int, float] | None = None) -> tuple[Hunk, ...]:
    logprobs = None if probabilities is None else {line: math.log(p) for line, p in probabilities.items()}
    return confident_hunks(text_hunks(original, merged), merged, logprobs)


@given(TEXT, TEXT)
def test_what_lies_between_hunks_is_unchanged(original: str, merged: str) -> None:
    old, new = lines(original), lines(merged)
    a = b = n_edits = 0
    for hunk in hunks(original, merged):
        assert old[a : hunk.original_start] == new[b : hunk.merged_start]
        assert a == b == 0 or a < hunk.original_start, "an unchanged line lies between any two"
        assert hunk.first_edit == n_edits < hunk.end_edit
        a, b, n_edits = hunk.original_end, hunk.merged_end, hunk.end_edit
    assert old[a:] == new[b:]
    assert n_edits == sum(len(hunk.edits) for hunk in text_hunks(original, merged))


ORIGINAL = "a\nb\nc\nd\ne\n"
MERGED = "a\nB\nc\nd\nX\nY\ne\n"


def test_confidence_is_the_least_of_a_hunk_and_the_line_after_it() -> None:
    doubts = {0: 0.1, 1: 0.9, 2: 0.8, 3: 0.2, 4: 0.7, 5: 0.95, 6: 0.6, 7: 0.3}
    changed, added = hunks(ORIGINAL, MERGED, doubts)
    assert astuple(changed)[:6] == (1, 2, 1, 2, 0, 1)
    assert astuple(added)[:6] == (4, 4, 4, 6, 1, 2)
    assert changed.confidence == pytest.approx(0.8)
    assert added.confidence == pytest.approx(0.6)


def test_a_deletion_is_decided_where_the_next_line_comes() -> None:
    (hunk,) = hunks("a\nb\nc\n", "a\nc\n", {0: 0.2, 1: 0.9, 2: 0.3})
    assert astuple(hunk)[:4] == (1, 2, 1, 1)
    assert hunk.confidence == pytest.approx(0.9)


@pytest.mark.parametrize("merged", ["a\nB", "a\nB\n", "a\r\nB", "a\rB"])
def test_the_end_of_the_text_is_a_decision_on_its_last_line(merged: str) -> None:
    (hunk,) = hunks(merged.replace("B", "b"), merged, {0: 0.9, 1: 0.8, 2: 0.4})
    assert hunk.confidence == pytest.approx(0.4)


def test_nothing_decided_is_no_confidence() -> None:
    assert [hunk.confidence for hunk in hunks(ORIGINAL, MERGED)] == [None, None]
    assert [hunk.confidence for hunk in hunks(ORIGINAL, MERGED, {})] == [None, None]
    assert [hunk.confidence for hunk in hunks(ORIGINAL, MERGED, {1: 0.5})] == [0.5, None]


def test_a_lone_return_ends_a_line_for_editors_alone() -> None:
    """The service's second line is the editor's third."""
    (hunk,) = hunks("a\rb\nc\n", "a\rb\nC\n", {0: 0.1, 1: 0.5, 2: 0.9})
    assert astuple(hunk)[:4] == (2, 3, 2, 3)
    assert hunk.confidence == pytest.approx(0.5)
