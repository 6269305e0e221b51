"""What is known of an edit from its two texts alone: size, hunks, kind, and what makes it special."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from apply_eval.line_diff import Hunk, diff_lines

EditKind = Literal["insert", "delete", "replace", "mixed"]

DEEP_COLUMNS = 20
REPEATS = 3
STRETCH = 4
SUBSTANCE = 20


@dataclass(frozen=True, slots=True)
class EditMeasures:
    """Counts of the zero-context diff; lines exclude the empty one after a final newline."""

    n_lines_before: int
    hunks: tuple[Hunk, ...]
    lines_added: int
    lines_removed: int
    edit_kind: EditKind
    flags: tuple[str, ...]

    @property
    def n_hunks(self) -> int:
        return len(self.hunks)

    @property
    def n_changed(self) -> int:
        return self.lines_added + self.lines_removed


def text_lines(text: str) -> list[str]:
    """Lines without the empty one that follows a final newline."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def measure_edit(before: str, after: str) -> EditMeasures:
    """Everything about an edit that its texts tell."""
    old, new = text_lines(before), text_lines(after)
    hunks = tuple(diff_lines(old, new))
    return EditMeasures(
        n_lines_before=len(old),
        hunks=hunks,
        lines_added=sum(hunk.b1 - hunk.b0 for hunk in hunks),
        lines_removed=sum(hunk.a1 - hunk.a0 for hunk in hunks),
        edit_kind=_kind(hunks),
        flags=tuple(_flags(before, old, new, hunks)),
    )


def _kind(hunks: tuple[Hunk, ...]) -> EditKind:
    kinds: set[EditKind] = set()
    for hunk in hunks:
        kinds.add("insert" if hunk.a0 == hunk.a1 else "delete" if hunk.b0 == hunk.b1 else "replace")
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _flags(before: str, old: list[str], new: list[str], hunks: tuple[Hunk, ...]) -> Iterator[str]:
    changed = [line for hunk in hunks for line in (*old[hunk.a0 : hunk.a1], *new[hunk.b0 : hunk.b1])]
    if "\r\n" in before:
        yield "crlf"
    if before and not before.endswith("\n"):
        yield "no_final_newline"
    if any(line.startswith("\t") for line in old):
        yield "tabs"
    if not before.isascii():
        yield "non_ascii"
    if not all(line.isascii() for line in changed):
        yield "non_ascii_in_change"
    if any(_columns(line) >= DEEP_COLUMNS for line in changed):
        yield "deep_nesting"
    if has_repeats(old):
        yield "repeated_blocks"


def _columns(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def has_repeats(lines: list[str]) -> bool:
    """Whether some stretch of four lines with text of substance occurs three times or more."""
    stretches = zip(*(islice(lines, start, None) for start in range(STRETCH)), strict=False)
    return (
        max(Counter(s for s in stretches if sum(len(line.strip()) for line in s) >= SUBSTANCE).values(), default=0)
        >= REPEATS
    )
