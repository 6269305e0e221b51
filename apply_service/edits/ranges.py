"""Minimal text edits, as editors apply them: what turns the original into the merged text.

Stands at the end of a request's path.  Positions are the Language Server Protocol's: lines end at `\\n`, `\\r\\n` or a
lone `\\r`, columns count UTF-16 code units (and UTF-8 bytes beside them), and all of them are places in the *original*,
so the edits of one answer apply together.  An edit never starts or ends between `\\r` and `\\n`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from apply_service.edits.line_diff import Hunk, diff_lines
from apply_service.types import Position, TextEdit

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class _Change(NamedTuple):
    """Line `line` on, the text `old` becomes `new`."""

    line: int
    old: str
    new: str


class TextHunk(NamedTuple):
    """One stretch of changed lines, and the edits that change them."""

    lines: Hunk
    edits: tuple[TextEdit, ...]


def text_hunks(original: str, merged: str) -> tuple[TextHunk, ...]:
    """The hunks, in order, with at least one unchanged line between any two; empty where the texts are equal."""
    old, new = LINE.findall(original), LINE.findall(merged)
    return tuple(TextHunk(hunk, tuple(_hunk_edits(old, new, hunk))) for hunk in diff_lines(old, new))


def text_edits(original: str, merged: str) -> tuple[TextEdit, ...]:
    """The edits, in order, none overlapping another; empty where the texts are equal."""
    return tuple(edit for hunk in text_hunks(original, merged) for edit in hunk.edits)


def _hunk_edits(old: list[str], new: list[str], hunk: Hunk) -> Iterator[TextEdit]:
    for change in _changes(old, new, hunk):
        if change.old != change.new:
            yield _edit(change, old)


def _changes(old: list[str], new: list[str], hunk: Hunk) -> Iterator[_Change]:
    """As many lines as before are changed one by one, which keeps cursors and marks in the lines between."""
    a0, a1, b0, b1 = hunk
    if a1 - a0 == b1 - b0:
        for i, j in zip(range(a0, a1), range(b0, b1), strict=True):
            yield _Change(i, old[i], new[j])
    else:
        yield _Change(a0, "".join(old[a0:a1]), "".join(new[b0:b1]))


def _edit(change: _Change, lines: list[str]) -> TextEdit:
    head = _common_head(change.old, change.new)
    tail = _common_tail(change.old, change.new, head)
    start = _place(change, head, lines)
    end = _place(change, len(change.old) - tail, lines)
    return TextEdit(start[0], end[0], change.new[head : len(change.new) - tail], start[1], end[1])


def _place(change: _Change, offset: int, lines: list[str]) -> tuple[Position, int]:
    """The position of a character of `change.old`, and its UTF-8 column."""
    line = change.line
    while line < len(lines) and offset >= len(lines[line]) and lines[line].endswith(("\r", "\n")):
        offset -= len(lines[line])
        line += 1
    before = lines[line][:offset] if line < len(lines) else ""
    units = sum(2 if character > "\uffff" else 1 for character in before)
    return Position(line, units), len(before.encode("utf-8", "surrogatepass"))


def _common_head(a: str, b: str) -> int:
    n = _longest(min(len(a), len(b)), lambda k: a.startswith(b[:k]))
    return n - 1 if _splits_end(a, n) or _splits_end(b, n) else n


def _common_tail(a: str, b: str, head: int) -> int:
    n = _longest(min(len(a), len(b)) - head, lambda k: a.endswith(b[len(b) - k :]))
    return n - 1 if _splits_end(a, len(a) - n) or _splits_end(b, len(b) - n) else n


def _longest(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that `holds`, as all smaller ones do: quick on lines of megabytes."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _splits_end(text: str, at: int) -> bool:
    return text[at - 1 : at + 1] == "\r\n" if 0 < at < len(text) else False
