"""Quotes are found at the strictest likeness that finds any."""

from __future__ import annotations

import pytest

from apply_service.text.indent import Reindent
from apply_service.text.line_search import FileLines, Likeness, find_similar, nearest_lines


@pytest.mark.parametrize(
    ("text", "quote", "rows", "likeness"),
    [
        ("a\nb\nc\n", ["b"], [(1,)], Likeness.EXACT),
        ("a\nb\na\nb", ["a", "b"], [(0, 1), (2, 3)], Likeness.EXACT),
        ("a \nb\n", ["a", "b\t"], [(0, 1)], Likeness.TRAILING),
        ("a\nb\n", ["", "a", "b", ""], [(None, 0, 1, None)], Likeness.EDGES),
        ("  a\n    b\n", ["a", "  b"], [(0, 1)], Likeness.INDENTED),
        ("  a\n", ["a", ""], [(0, None)], Likeness.INDENTED),
        ("x = \u201cy\u201d\n", ['x = "y"'], [(0,)], Likeness.FOLDED),
        ("f( a,b )\n", ["f(a, b)"], [(0,)], Likeness.FOLDED),
        ("a\n\nb\n", [""], [(1,)], Likeness.EXACT),
    ],
)
def test_places(text: str, quote: list[str], rows: list[tuple[int | None, ...]], likeness: Likeness) -> None:
    found = FileLines(text).find(quote)
    assert [place.rows for place in found] == rows
    assert {place.likeness for place in found} == {likeness}


@pytest.mark.parametrize(
    ("text", "quote"), [("a\nb\n", ["c"]), ("a\n", ["a", "b"]), ("", ["a"]), ("a\n", []), ("a\n", [""]), ("", [""])]
)
def test_no_place(text: str, quote: list[str]) -> None:
    assert FileLines(text).find(quote) == []


def test_the_final_newline_is_no_line() -> None:
    assert list(FileLines("a\n").lines) == ["a"]
    assert list(FileLines("a").lines) == ["a"]
    assert list(FileLines("").lines) == []


CODE = [f"def function_{i}(argument):" if i % 4 == 0 else f"    statement_{i} = compute({i})" for i in range(80)]


def test_a_misquoted_stretch_is_found_line_by_line() -> None:
    quote = [
        "def function_40(arguments):",
        "    statement_41 = computed(41)",
        "    extra = 1",
        "    statement_43 = compute(43)",
    ]
    (best, *_) = find_similar(FileLines("\n".join(CODE)), quote)
    assert best.rows == (40, 41, None, 43)
    assert best.score > 0.7


@pytest.mark.parametrize("quote", [["nothing of the kind", "neither is this"], ["", ""], []])
def test_what_is_not_similar_is_not_found(quote: list[str]) -> None:
    assert find_similar(FileLines("\n".join(CODE)), quote) == []
    assert find_similar(FileLines(""), quote) == []


@pytest.mark.parametrize(
    ("pairs", "line", "moved"),
    [
        ([("a", "    a")], "  b", "      b"),
        ([("    a", "a")], "    b", "b"),
        ([("    a", "a")], "        b", "    b"),
        ([("        a", "    a")], "    b", "b"),
        ([("a", "\ta"), ("    b", "\t\tb")], "        c", "\t\t\tc"),
        ([("\ta", "    a")], "\t\tb", "        b"),
        ([("  a", "    a")], "", ""),
        ([("a", "a"), ("  b", "  b")], "      c", "      c"),
        ([], "  a", "  a"),
    ],
)
def test_reindentation(pairs: list[tuple[str, str]], line: str, moved: str) -> None:
    assert Reindent.of(pairs).apply(line) == moved


LINES = ["def load(path):", "    return read(path)", "", "def save(path, text):", "    write(path, text)"]
FILE = FileLines("\n".join(LINES))


def test_the_stretch_most_like_the_quote_is_shown_with_its_numbers() -> None:
    assert nearest_lines(FILE, ["def save(path, txt):", "    write(path, txt)"]) == (
        "4 | def save(path, text):\n5 |     write(path, text)"
    )


def test_a_single_line_is_shown_with_its_neighbours() -> None:
    assert "2 |     return read(path)" in nearest_lines(FILE, ["nothing at all here", "    rturn raed(pth)"])


def test_nothing_like_it_is_an_empty_text() -> None:
    assert nearest_lines(FILE, ["%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%"]) == ""
    assert nearest_lines(FileLines(""), ["x"]) == ""
    assert nearest_lines(FILE, ["", "  "]) == ""
