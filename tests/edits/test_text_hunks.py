"""Edits as editors apply them lead to the merged text, and split nothing that must stay whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apply_service.text.diff import text_hunks
from apply_service.types import Position, TextEdit, TextRange, Utf8Columns

TEXT = st.text(alphabet="ab\n\r é😀\u2028\x0c", max_size=40)


def text_edits(original: str, merged: str) -> tuple[TextEdit, ...]:
    return tuple(edit for hunk in text_hunks(original, merged) for edit in hunk.edits)


def line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


def offset_utf16(text: str, place: Position) -> int:
    """Independent of the code under test: by encoding."""
    start = line_starts(text)[place.line]
    line = text[start:].encode("utf-16-le")[: 2 * place.character]
    return start + len(line.decode("utf-16-le"))


def offset_utf8(text: str, line: int, column: int) -> int:
    start = line_starts(text)[line]
    return start + len(text[start:].encode()[:column].decode())


def apply_edits(text: str, edits: tuple[TextEdit, ...]) -> str:
    places = [(offset_utf16(text, edit.range.start), offset_utf16(text, edit.range.end)) for edit in edits]
    for edit, (start, end) in reversed([*zip(edits, places, strict=True)]):
        text = text[:start] + edit.newText + text[end:]
    return text


@given(TEXT, TEXT)
def test_edits_lead_to_the_merged_text(original: str, merged: str) -> None:
    edits = text_edits(original, merged)
    assert apply_edits(original, edits) == merged
    ends = [Position(0, 0)]
    for edit in edits:
        start, end, columns = edit.range.start, edit.range.end, edit.utf8_columns
        assert ends[-1] <= start <= end
        ends.append(end)
        assert offset_utf8(original, start.line, columns.start) == offset_utf16(original, start)
        assert offset_utf8(original, end.line, columns.end) == offset_utf16(original, end)


@given(TEXT, TEXT)
def test_no_edit_splits_a_line_end(original: str, merged: str) -> None:
    for edit in text_edits(original, merged):
        for place in (edit.range.start, edit.range.end):
            at = offset_utf16(original, place)
            assert original[at - 1 : at + 1] != "\r\n" or at == 0


def edit(start: tuple[int, int], end: tuple[int, int], text: str, utf8: tuple[int, int]) -> TextEdit:
    return TextEdit(TextRange(Position(*start), Position(*end)), text, Utf8Columns(*utf8))


@pytest.mark.parametrize(
    ("original", "merged", "edits"),
    [
        ("a\nb\nc\n", "a\nb\nc\n", ()),
        ("x = 1\n", "x = 12\n", (edit((0, 5), (0, 5), "2", (5, 5)),)),
        ("😀é = 1\n", "😀é = 2\n", (edit((0, 6), (0, 7), "2", (9, 10)),)),
        ("a\r\nb\r\n", "a\nb\r\n", (edit((0, 1), (1, 0), "\n", (1, 0)),)),
        ("a\nb\nc\n", "a\nc\n", (edit((1, 0), (2, 0), "", (0, 0)),)),
        ("a\n", "a", (edit((0, 1), (1, 0), "", (1, 0)),)),
        ("a", "a\nb\n", (edit((0, 1), (0, 1), "\nb\n", (1, 1)),)),
        ("", "a\n", (edit((0, 0), (0, 0), "a\n", (0, 0)),)),
        ("a\rb\r", "a\rB\r", (edit((1, 0), (1, 1), "B", (0, 1)),)),
        (
            "f(1)\nkeep\ng(1)\n",
            "f(2)\nkeep\ng(2)\n",
            (edit((0, 2), (0, 3), "2", (2, 3)), edit((2, 2), (2, 3), "2", (2, 3))),
        ),
    ],
)
def test_edits_are_minimal(original: str, merged: str, edits: tuple[TextEdit, ...]) -> None:
    assert text_edits(original, merged) == edits
