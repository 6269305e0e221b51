"""What sort of difference a quoted line shows: the kinds that tell a careless copy from an edit."""

from __future__ import annotations

import pytest

from apply_service.merge.rank.features import declared
from apply_service.merge.wording import find_pairs, lone_pairs
from apply_service.types import LineOp, Merge


def replaced(old: str, new: str) -> Merge:
    """A merge that puts the lines of `new` for those of `old`."""
    drops = [LineOp("drop", j, None, line) for j, line in enumerate(old.split("\n"))]
    return Merge((*drops, *(LineOp("take", None, i, line) for i, line in enumerate(new.split("\n")))))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    return total", "        return total", "indent"),
        ("Name    string", "Name string", "columns"),
        ("path = 'a/b'", 'path = "a/b"', "quotes"),
        ("size = 1", "size=1", "spacing"),
        ("call(a, b,)", "call(a, b);", "signs"),
        ("needs:\n  - test", "needs: [test]", "layout"),
        ("use a::{B, c};", "use a::{c, B};", "reordered"),
        ("import os  # first", "import os", "remark"),
        ("# count all rows", "# count the rows", "comment"),
        ("def load(path: str, n: int = 1) -> Rows:", "def load(path, n=1):", "annotation"),
        ("export const limit: number = 3", "const limit = 3", "annotation"),
        ("return value || fallback", "return value", "omission"),
        ("fn name(&self) -> &str {", "fn name(self) {", "annotation"),
        ("return width - border", "return width", "omission"),
        ("connect(host, port)", "connect(host)", "omission"),
        ("connect(host, port)", "connect(host, timeout)", "edit"),
    ],
)
def test_kind_of_a_difference(old: str, new: str, kind: str) -> None:
    assert [pair.kind for pair in find_pairs(replaced(old, new))] == [kind]


def test_a_quote_beside_an_edit_is_not_alone() -> None:
    ops = replaced("a = 'x'\nb = 1", 'a = "x"\nb = 2')
    assert [pair.kind for pair in find_pairs(ops)] == ["quotes", "edit"]
    assert lone_pairs(ops, find_pairs(ops)) == set()


def test_a_quote_with_context_on_both_sides_is_alone() -> None:
    ops = replaced("a = 'x'", 'a = "x"')
    assert lone_pairs(ops, find_pairs(ops)) == {0}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("const total = 3", {"total"}),
        ("  count: int = 4", {"count"}),
        ("def load(a):", {"load"}),
        ("let mut rows = Vec::new();", {"rows"}),
        ("from os import path, sep", {"path", "sep"}),
        ("if total == 3:", set()),
        ("call(total)", set()),
    ],
)
def test_declared_names(line: str, names: set[str]) -> None:
    assert declared(line) == names
