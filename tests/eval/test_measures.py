"""What an edit's texts tell of it."""

from __future__ import annotations

import pytest

from apply_eval.datasets import has_repeats, measure_edit


@pytest.mark.parametrize(
    ("after", "kind", "added", "removed"),
    [
        ("a\nb\nx\nc\n", "insert", 1, 0),
        ("a\nc\n", "delete", 0, 1),
        ("a\nX\nY\nc\n", "replace", 2, 1),
        ("x\na\nb\n", "mixed", 1, 1),
    ],
)
def test_kind_and_counts(after: str, kind: str, added: int, removed: int) -> None:
    measures = measure_edit("a\nb\nc\n", after)
    assert (measures.edit_kind, measures.lines_added, measures.lines_removed) == (kind, added, removed)
    assert measures.n_lines_before == 3


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [
        ("a\r\nb\r\n", "a\r\nc\r\n", ("crlf",)),
        ("a\nb", "a\nc", ("no_final_newline",)),
        ("\ta\nb\n", "\ta\nc\n", ("tabs",)),
        ("ä\nb\n", "ä\nc\n", ("non_ascii",)),
        ("a\nb\n", "a\né\n", ("non_ascii_in_change",)),
        ("a\n" + " " * 20 + "b\n", "a\n", ("deep_nesting",)),
        ("a\nb\n", "a\nc\n", ()),
        ("", "a\n", ()),
    ],
)
def test_flags(before: str, after: str, flags: tuple[str, ...]) -> None:
    assert measure_edit(before, after).flags == flags


def test_repeats_need_text_of_substance() -> None:
    stretch = ["    value = read(name)", "    if not value:", "        return None", "    return value"]
    assert has_repeats(["x", *stretch, "y", *stretch, "z", *stretch])
    assert not has_repeats(["x", *stretch, "y", *stretch])
    assert not has_repeats(["}", "", "}", ""] * 9)
