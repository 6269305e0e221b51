"""How a snippet is read: its blocks, markers inside lines, remarks behind them, and what another reading shares."""

from __future__ import annotations

import pytest

from apply_service.merge.reading import ReadSnippet, read_inline_marker, split_remark

FILE = ["def load(path):", "    text = read(path)", "    return parse(text)", "", "def save(path):", "    write(path)"]


def blocks(update: str) -> list[list[str]]:
    reading = ReadSnippet(FILE, update.split("\n"), "python", None)
    return [reading.block_texts(b) for b in range(len(reading.snippet.blocks))]


def test_markers_part_blocks_and_take_the_blank_lines_beside_them() -> None:
    update = "def load(path):\n\n# ...\n\n    return None\n\n    # note\n# ... existing code ...\n"
    assert blocks(update) == [["def load(path):"], ["    return None", "", "    # note"]]


def test_a_header_with_a_marker_for_its_body_ends_its_block() -> None:
    update = ["def load(path): ...", "def save(path):", "    write(path, 1)"]
    snippet = ReadSnippet(FILE, update, "python", None).snippet
    assert [block.lines for block in snippet.blocks] == [(0,), (1, 2)]
    assert snippet.blocks[0].marked_after
    assert snippet.blocks[1].marked_before


def test_a_deletion_note_is_no_line_and_takes_a_blank_one_along() -> None:
    update = ["def load(path):", "", "# removed: text", "", "    return parse(path)"]
    (block,) = ReadSnippet(FILE, update, "python", None).snippet.blocks
    assert block.lines == (0, 1, 4)
    assert block.deletions == (2,)


def test_the_indentation_of_the_first_marker_of_a_gap_is_known() -> None:
    reading = ReadSnippet(FILE, ["def load(path):", "", "    # ...", "# ...", "x = 1"], "python", None)
    assert reading.marker_indent(reading.snippet.blocks[0].gap_after) == 4
    assert reading.marker_indent(()) is None


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("func f() { /* ... */ }", "func f() {"),
        ("def load(path): ...", "def load(path):"),
        ("call(/* ... */)", "call(...)"),
        ("x = f(...)", "x = f(...)"),
        ("port: 80  # ... unchanged", "port: 80 ..."),
        ("if ready:  # ... existing code", "if ready:"),
        ("const sizes = /* unchanged */;", "const sizes = ...;"),
        ("const load = (path) => /* unchanged */", "const load = (path) => ..."),
        ("  size: /* existing code */,", "  size: ...,"),
        ("# ... existing code ...", None),
        ("x = 1  # as before", None),
    ],
)
def test_a_marker_inside_a_line_is_taken_off(line: str, shown: str | None) -> None:
    assert read_inline_marker(line, set()) == shown


def test_a_line_of_the_file_has_no_marker_inside() -> None:
    assert read_inline_marker("def load(path): ...", {"def load(path): ..."}) is None


@pytest.mark.parametrize(
    ("line", "code", "is_sure"),
    [
        ("x = 1  # <- changed", "x = 1", True),
        ("x = 1  # new", "x = 1", False),
        ("x = 1  # <-- the limit of the queue", "x = 1", False),
    ],
)
def test_a_remark_is_taken_off(line: str, code: str, is_sure: bool) -> None:
    remark = split_remark(line, "python", set())
    assert remark is not None
    assert (remark.code, remark.is_sure) == (code, is_sure)


def test_a_comment_of_the_program_is_no_remark() -> None:
    assert split_remark("x = 1  # the limit", "python", set()) is None
    assert split_remark("x = 1  # new", "python", {"x = 1  # new"}) is None


def test_another_reading_of_the_snippet_shares_the_index_only() -> None:
    reading = ReadSnippet(FILE, ["  text = read(path, 1)", "  # checks", "  return parse(text)"], "python", None)
    again = reading.again(notes=[1], shifts=False)
    fresh = ReadSnippet(FILE, reading.snippet.texts, "python", None, notes=[1], shifts=False)
    assert again.index is reading.index
    assert (again.snippet, again.texts, again.doubts) == (fresh.snippet, fresh.texts, fresh.doubts)
    assert again.snippet != reading.snippet
