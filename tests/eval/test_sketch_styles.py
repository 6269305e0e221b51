"""Markers in every spelling, and the mixes that styles are drawn from."""

from __future__ import annotations

import random
from dataclasses import fields

import pytest

from apply_eval.sketch_styles import (
    COMMON_MARKERS,
    KIND_MARKERS,
    SketchStyle,
    comment_syntax,
    draw_style,
    is_marker_like,
    marker_text,
)


@pytest.mark.parametrize(
    ("language", "marker"),
    [
        ("python", "# ... existing code ..."),
        ("typescript", "// ... existing code ..."),
        ("css", "/* ... existing code ... */"),
        ("html", "<!-- ... existing code ... -->"),
        ("sql", "-- ... existing code ..."),
        (None, "// ... existing code ..."),
    ],
)
def test_a_marker_is_a_comment_of_its_language(language: str | None, marker: str) -> None:
    assert marker_text("... existing code ...", comment_syntax(language, 0)) == marker


def test_every_spelling_reads_as_a_marker() -> None:
    spellings = {*COMMON_MARKERS, *(s for kind in KIND_MARKERS.values() for s in kind if s.startswith("..."))}
    for language in ("python", "rust", "css", "html", "lua"):
        syntax = comment_syntax(language, 0)
        assert [s for s in spellings if not is_marker_like(marker_text(s, syntax))] == []


@pytest.mark.parametrize(
    "line", ["x = y[..., 0]", "    ...item,", "print('...')", "# see above", "", "def f(*args, ...):"]
)
def test_lines_that_are_no_markers(line: str) -> None:
    assert not is_marker_like(line)


def test_the_clean_mix_has_no_sloppiness() -> None:
    tidy = SketchStyle()
    sloppy = (
        "fence",
        "file_name",
        "indentation",
        "strip_trailing_space",
        "misquote",
        "deletion_comment",
        "hint",
        "remark",
    )
    for seed in range(300):
        style = draw_style(random.Random(seed), clean=True)
        assert style.is_clean
        assert 1 <= style.context_before <= 3
        assert all(getattr(style, name) == getattr(tidy, name) for name in sloppy)


def test_the_sloppy_mix_uses_every_choice() -> None:
    styles = [draw_style(random.Random(seed), clean=False) for seed in range(600)]
    for choice in fields(SketchStyle):
        values = {getattr(style, choice.name) for style in styles}
        assert len(values) > 1 or choice.name == "is_clean", choice.name
