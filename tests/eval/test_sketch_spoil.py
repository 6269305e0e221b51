"""Sloppiness that keeps a snippet readable."""

from __future__ import annotations

import random

import pytest
from rapidfuzz import fuzz

from apply_eval.sketch import SketchLine, spoil
from apply_eval.sketch_styles import CommentSyntax, SketchStyle

SLASHES = CommentSyntax("//", "")


def context(*texts: str) -> list[SketchLine]:
    return [SketchLine(text, "context", i, i) for i, text in enumerate(texts)]


def spoilt(lines: list[SketchLine], style: SketchStyle, language: str = "go") -> list[str]:
    return [line.text for line in spoil(lines, style, SLASHES, language, random.Random(3))]


def test_lines_beside_new_ones_are_never_misquoted() -> None:
    lines = context("// a the c d e f g", "// one the two three four five", "// h the j k l m n")
    lines.insert(1, SketchLine("new", "new", None, 9))
    style = SketchStyle(is_clean=False, misquote=1.0)
    assert spoilt(lines, style)[:3] == ["// a the c d e f g", "new", "// one the two three four five"]


@pytest.mark.parametrize(
    "text",
    [
        "// keeps every reading that it was ever told of",
        "func read(path string, limit int, deep bool) error {",
        "pub fn read_all_lines(path: &str, limit: usize) -> Vec<String> {",
    ],
)
def test_a_misquote_stays_alike(text: str) -> None:
    lines = context("first line", text, "last line")
    wrong = spoilt(lines, SketchStyle(is_clean=False, misquote=1.0))[1]
    assert wrong != text
    assert fuzz.ratio(wrong, text) >= 75


def test_ragged_indentation_is_left_alone() -> None:
    lines = context("def f():", "    a(1,", "      2)", "    b()")
    assert spoilt(lines, SketchStyle(is_clean=False, indentation="tab"), "python") == [line.text for line in lines]


def test_tabs_become_spaces_at_the_same_depth() -> None:
    lines = [*context("func f() {", "\tif x {", "\t\ty()"), SketchLine("\t// ...", "marker"), *context("}")]
    style = SketchStyle(is_clean=False, indentation="two")
    assert spoilt(lines, style) == ["func f() {", "  if x {", "    y()", "  // ...", "}"]


def test_markers_do_not_hold_back_a_dedent() -> None:
    lines = [SketchLine("// ...", "marker"), *context("    a", "      b", "    c")]
    style = SketchStyle(is_clean=False, indentation="dedent")
    assert spoilt(lines, style) == ["// ...", "a", "  b", "c"]


def test_no_remark_where_a_comment_would_break_the_line() -> None:
    new = [SketchLine(text, "new", None, 0) for text in ("a = \\", "s = `", "", "ok = 1")]
    style = SketchStyle(is_clean=False, remark=1.0)
    assert spoilt(new, style)[:3] == ["a = \\", "s = `", ""]
    assert spoilt(new, style)[3].startswith("ok = 1  // ")


def test_new_lines_without_indented_context_keep_their_units() -> None:
    lines = [*context("import a"), SketchLine("import {", "new", None, 1), SketchLine("  b,", "new", None, 2)]
    style = SketchStyle(is_clean=False, indentation="tab")
    assert spoilt(lines, style) == ["import a", "import {", "  b,"]


def test_trailing_space_of_context_stays_where_new_lines_have_some() -> None:
    lines = [*context("a = 1  "), SketchLine("b = 2  ", "new", None, 1)]
    style = SketchStyle(is_clean=False, strip_trailing_space=True)
    assert spoilt(lines, style) == ["a = 1  ", "b = 2  "]


def test_at_most_two_lines_are_misquoted_and_never_two_in_a_row() -> None:
    texts = [f"// line {word} of a long comment in the file" for word in ("one", "two", "three", "four", "five", "six")]
    wrong = spoilt(context(*texts), SketchStyle(is_clean=False, misquote=1.0))
    changed = [i for i, (a, b) in enumerate(zip(texts, wrong, strict=True)) if a != b]
    assert changed == [1, 3]
