"""The nearest lines to a quote, numbered."""

from __future__ import annotations

from apply_service.edits.line_search import FileLines, nearest_lines

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
