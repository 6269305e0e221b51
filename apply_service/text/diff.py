"""Makes line diffs, and from them the unified diff of an answer and the text edits that editors apply.

It knows no edit formats.  `diff_lines` finds the lines that stay.  It cuts off common ends, and rapidfuzz aligns the
rest (indel distance over interned lines).  A stretch that is too large to align is first cut at lines that occur once
on both sides (patience diff, after Bram Cohen).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import Indel, Postfix, Prefix

from apply_service.types import Position, TextEdit, TextRange, Utf8Columns

MAX_CELLS = 500_000_000
"""A stretch is aligned in one go if the product of its line counts is at most this (a bit each, 60 MB in all).  A
larger stretch without anchors is replaced as a whole."""
CONTEXT_LINES = 3
NO_NEWLINE = "\\ No newline at end of file"
PLAIN_MODE = "100644"
EXECUTABLE_MODE = "100755"
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
GIT_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line with its end, as editors and git see it."""


class ChangedLines(NamedTuple):
    """Lines `a0:a1` of the old text became lines `b0:b1` of the new text (0-based, half open)."""

    a0: int
    a1: int
    b0: int
    b1: int


def diff_lines(old: Sequence[str], new: Sequence[str]) -> list[ChangedLines]:
    """Return the changes that turn `old` into `new`, in order, with at least one common line between any two."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    changes: list[ChangedLines] = []
    for change in _align(a, b, ChangedLines(0, len(a), 0, len(b)), may_cut=True):
        if changes and changes[-1].a1 == change.a0 and changes[-1].b1 == change.b0:
            change = changes.pop()._replace(a1=change.a1, b1=change.b1)
        changes.append(change)
    for k, change in enumerate(changes):
        floor = changes[k - 1].a1 + 1 if k else 0
        ceiling = changes[k + 1].a0 - 1 if k + 1 < len(changes) else len(old)
        changes[k] = _slide(old, new, change, floor, ceiling)
    return changes


def _align(a: Sequence[int], b: Sequence[int], stretch: ChangedLines, *, may_cut: bool) -> Iterator[ChangedLines]:
    a0, a1, b0, b1 = stretch
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        a0, b0 = a0 + 1, b0 + 1
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
    if a0 == a1 or b0 == b1:
        if a0 < a1 or b0 < b1:
            yield ChangedLines(a0, a1, b0, b1)
    elif (a1 - a0) * (b1 - b0) <= MAX_CELLS:
        for op in Indel.opcodes(a[a0:a1], b[b0:b1]):
            if op.tag != "equal":
                yield ChangedLines(a0 + op.src_start, a0 + op.src_end, b0 + op.dest_start, b0 + op.dest_end)
    elif may_cut and (anchors := _anchors(a, b, ChangedLines(a0, a1, b0, b1))):
        for i, j in [*anchors, (a1, b1)]:
            yield from _align(a, b, ChangedLines(a0, i, b0, j), may_cut=False)
            a0, b0 = i + 1, j + 1
    else:
        yield ChangedLines(a0, a1, b0, b1)


def _anchors(a: Sequence[int], b: Sequence[int], stretch: ChangedLines) -> list[tuple[int, int]]:
    """Return pairs of equal lines that occur once on each side: the longest chain of pairs that ascends on both
    sides."""
    a0, a1, b0, b1 = stretch
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    place = {line: j for j, line in enumerate(b[b0:b1], b0)}
    unique = [(i, place[x]) for i, x in enumerate(a[a0:a1], a0) if count_a[x] == 1 and count_b.get(x) == 1]
    tails: list[int] = []
    last_of: list[int] = []
    before: list[int] = []
    for k, (_, j) in enumerate(unique):
        rank = bisect_left(tails, j)
        tails[rank : rank + 1] = [j]
        last_of[rank : rank + 1] = [k]
        before.append(last_of[rank - 1] if rank else -1)
    chain: list[tuple[int, int]] = []
    k = last_of[-1] if last_of else -1
    while k >= 0:
        chain.append(unique[k])
        k = before[k]
    return chain[::-1]


def _slide(old: Sequence[str], new: Sequence[str], change: ChangedLines, floor: int, ceiling: int) -> ChangedLines:
    """Return the change.  A pure insertion or deletion is moved to the place where a reader would cut.

    Equal lines at its edges give such a change room to move.  The best beginning is after a blank line and before a
    line with little indentation.
    """
    a0, a1, b0, b1 = change
    if a0 != a1 and b0 != b1:
        return change
    text, start, end = (new, b0, b1) if a0 == a1 else (old, a0, a1)
    up = down = 0
    while a0 - up > floor and text[start - up - 1] == text[end - up - 1]:
        up += 1
    while a1 + down < ceiling and text[start + down] == text[end + down]:
        down += 1
    if not up and not down:
        return change

    def oddness(shift: int) -> tuple[int, int, int]:
        first = text[start + shift]
        line = first.strip()
        is_inner = not line or line[0] in "})]" or line == "end"
        is_after_text = start + shift > 0 and text[start + shift - 1].strip() != ""
        return 2 * is_inner + is_after_text, len(first) - len(first.lstrip()), -shift

    shift = min(range(-up, down + 1), key=oddness)
    return ChangedLines(a0 + shift, a1 + shift, b0 + shift, b1 + shift)


# -- the unified diff, as git writes it --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class FileNames:
    """The names and modes in a diff's header.  `source`: the old name, None for a new file.  `path`: the new name, None
    for a deleted file.  Modes are spelled as in git; None if the mode stays."""

    source: str | None
    path: str | None
    is_copy: bool = False
    new_mode: str | None = None


def unified_diff_text(original: str, merged: str, path: str) -> str:
    """Return the unified diff; empty if the texts are equal.  An empty original counts as a new file."""
    if original == merged:
        return ""
    return change_diff_text(original, merged, FileNames(None if original == "" else path, path))


def change_diff_text(original: str, merged: str, names: FileNames) -> str:
    """Return the diff of a change that may also create, delete, move or copy the file, or set its mode.

    Lines end only at `\\n`, as in git: the `\\r` of a CRLF file is part of the diff's lines.
    """
    old_name, new_name = (
        (name or "").lstrip("/") or "file" for name in (names.source or names.path, names.path or names.source)
    )
    out = [f"diff --git {_quote('a/' + old_name)} {_quote('b/' + new_name)}"]
    if names.source is None:
        out.append(f"new file mode {names.new_mode or PLAIN_MODE}")
    elif names.path is None:
        out.append(f"deleted file mode {PLAIN_MODE}")
    elif names.new_mode is not None:
        out.append(f"old mode {PLAIN_MODE if names.new_mode != PLAIN_MODE else EXECUTABLE_MODE}")
        out.append(f"new mode {names.new_mode}")
    if old_name != new_name:
        word = "copy" if names.is_copy else "rename"
        out += (f"{word} from {_quote(old_name)}", f"{word} to {_quote(new_name)}")
    if original != merged:
        for sign, prefix, path in (("---", "a/", names.source), ("+++", "b/", names.path)):
            quoted = "/dev/null" if path is None else _quote(prefix + (path.lstrip("/") or "file"))
            # git writes a tab after a name with a blank, so that no part of the name is read as a date
            out.append(f"{sign} {quoted}" + ("\t" if " " in quoted and not quoted.startswith('"') else ""))
        out += _hunk_lines(GIT_LINE.findall(original), GIT_LINE.findall(merged))
    return "".join(line + "\n" for line in out)


def _quote(path: str) -> str:
    """Return the path as git quotes it: in C style if it has quotes, backslashes or control characters."""
    quoted = re.sub(r'["\\]', r"\\\g<0>", path)
    quoted = re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\{ord(found[0]):03o}", quoted)
    return path if quoted == path else f'"{quoted}"'


def _hunk_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    groups: list[list[ChangedLines]] = []
    for change in diff_lines(old, new):
        if groups and change.a0 - groups[-1][-1].a1 <= 2 * CONTEXT_LINES:
            groups[-1].append(change)  # the context lines of the two changes would touch or overlap
        else:
            groups.append([change])
    for group in groups:
        before = min(CONTEXT_LINES, group[0].a0)
        after = min(CONTEXT_LINES, len(old) - group[-1].a1)
        a0, a1 = group[0].a0 - before, group[-1].a1 + after
        b0, b1 = group[0].b0 - before, group[-1].b1 + after
        ranges = []
        for start, length in ((a0, a1 - a0), (b0, b1 - b0)):
            first = start + 1 if length else start  # an empty range names the line before it
            ranges.append(str(first) if length == 1 else f"{first},{length}")
        yield f"@@ -{ranges[0]} +{ranges[1]} @@"
        signed: list[tuple[str, str]] = []
        for change in group:
            signed += ((" ", line) for line in old[a0 : change.a0])
            signed += (("-", line) for line in old[change.a0 : change.a1])
            signed += (("+", line) for line in new[change.b0 : change.b1])
            a0 = change.a1
        signed += ((" ", line) for line in old[a0:a1])
        for sign, line in signed:
            yield sign + line.removesuffix("\n")
            if not line.endswith("\n"):
                yield NO_NEWLINE


# -- text edits, as editors apply them ---------------------------------------------------------------------------------
class TextHunk(NamedTuple):
    """One stretch of changed lines, and the edits that change them."""

    lines: ChangedLines
    edits: tuple[TextEdit, ...]


def text_hunks(original: str, merged: str) -> tuple[TextHunk, ...]:
    """Return the hunks in order, with at least one unchanged line between any two; empty if the texts are equal.

    Positions follow the Language Server Protocol: lines end at `\\n`, `\\r\\n` or a lone `\\r`, and columns count
    UTF-16 units (UTF-8 bytes are given too).  All positions refer to the original, so the edits apply together.  No
    edit starts or ends between `\\r` and `\\n`.
    """
    old, new = LINE.findall(original), LINE.findall(merged)
    hunks = []
    for change in diff_lines(old, new):
        a0, a1, b0, b1 = change
        if a1 - a0 == b1 - b0:
            # edit each line alone, so that cursors and marks between the lines stay
            pieces = [(a0 + k, old[a0 + k], new[b0 + k]) for k in range(a1 - a0)]
        else:
            pieces = [(a0, "".join(old[a0:a1]), "".join(new[b0:b1]))]
        edits = tuple(_edit(row, before, after, old) for row, before, after in pieces if before != after)
        hunks.append(TextHunk(change, edits))
    return tuple(hunks)


def _edit(first_row: int, before: str, after: str, lines: Sequence[str]) -> TextEdit:
    """Return the smallest edit that turns `before`, which begins at line `first_row`, into `after`."""
    head = Prefix.similarity(before, after)
    head -= _splits_end(before, head) or _splits_end(after, head)
    tail = Postfix.similarity(before[head:], after[head:])
    tail -= _splits_end(before, len(before) - tail) or _splits_end(after, len(after) - tail)
    places = []  # where the edit starts and ends, with the UTF-8 columns
    for offset in (head, len(before) - tail):
        row = first_row
        while row < len(lines) and offset >= len(lines[row]) and lines[row].endswith(("\r", "\n")):
            offset -= len(lines[row])
            row += 1
        text = lines[row][:offset] if row < len(lines) else ""
        units = sum(2 if character > "\uffff" else 1 for character in text)
        places.append((Position(row, units), len(text.encode("utf-8", "surrogatepass"))))
    (start, start_bytes), (end, end_bytes) = places
    new_text = after[head : len(after) - tail]
    return TextEdit(TextRange(start, end), new_text, Utf8Columns(start_bytes, end_bytes))


def _splits_end(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1 : at + 1] == "\r\n"
