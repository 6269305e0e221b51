"""Which lines a sketch shows: context grows where another place reads the same, and only there."""

from __future__ import annotations

import random

import pytest

from apply_eval.sketch import sketch
from apply_eval.sketch_styles import SketchStyle

CLEAN = SketchStyle(context_before=1, context_after=1, blank_around="none", min_gap=1)
SLOPPY = SketchStyle(
    is_clean=False, context_before=1, context_after=0, leading_marker=False, trailing_marker=False, min_gap=1
)


def shown(before: str, after: str, style: SketchStyle) -> list[str] | None:
    """The lines of the sketch without markers; texts have spaces between the lines."""
    old, new = (text.replace(" ", "\n") + "\n" for text in (before, after))
    drawn = sketch(old, new, language=None, path=None, style=style, rng=random.Random(0))
    return None if drawn is None else [line.text for line in drawn.lines if line.role in ("context", "new")]


def test_context_found_once_is_enough() -> None:
    assert shown("start one two three end", "start one two NEW three end", CLEAN) == ["two", "NEW", "three"]


def test_context_found_twice_grows_until_it_is_found_once() -> None:
    found = shown("one two three mid zero two three end", "one two three mid zero two NEW three end", CLEAN)
    assert found == ["zero", "two", "NEW", "three", "end"]


@pytest.mark.parametrize(
    ("below", "wanted"),
    [
        pytest.param("tail", ["two", "fresh_line_here"], id="stands nowhere below"),
        pytest.param("fresh_line_here", ["two", "fresh_line_here", "three"], id="stands hidden below"),
    ],
)
def test_a_new_line_at_an_edge_is_held_where_its_like_is_hidden(below: str, wanted: list[str]) -> None:
    before = f"start one two three four five {below} end"
    assert shown(before, before.replace("two", "two fresh_line_here"), SLOPPY) == wanted
