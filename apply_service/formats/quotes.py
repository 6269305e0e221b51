"""Describes the change of a file by quotes that occur in the file once.  Suggested and repaired edits use such
quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from apply_service.text.diff import diff_lines

MAX_QUOTED = 400
"""A quote has at most this many unchanged lines.  If it needs more, the file repeats itself too much to be quoted."""


class HunkLine(NamedTuple):
    """One line of a hunk, without its prefix.  `update_line`: the number of this line in the update."""

    kind: Literal["context", "remove", "add"]
    text: str
    update_line: int


class Quote(NamedTuple):
    """Lines of the file from row `start` to before `stop`, and the lines that replace them."""

    start: int
    stop: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def quote_changes(original: Sequence[str], merged: Sequence[str], n_around: int = 1) -> list[Quote] | None:
    """Return the changes, each with enough unchanged lines around it for its quote to occur in the file once.

    `n_around`: the minimum number of unchanged lines on each side.  Changes with quotes that touch become one.  The
    result is None if a quote would need more than MAX_QUOTED unchanged lines.
    """
    text = "\n".join(original)
    changes = [tuple(change) for change in diff_lines(original, merged)]
    while True:
        grown = [_grow(text, original, change, n_around) for change in changes]
        if any(
            stop - start > MAX_QUOTED + (a1 - a0) for (start, stop), (a0, a1, _, _) in zip(grown, changes, strict=True)
        ):
            return None
        joined = list(_join(changes, grown))
        if len(joined) == len(changes):
            break
        changes = joined
    found = []
    for (start, stop), (a0, a1, b0, b1) in zip(grown, changes, strict=True):
        new = (*original[start:a0], *merged[b0:b1], *original[a1:stop])
        found.append(Quote(start, stop, tuple(original[start:stop]), new))
    return found


def _grow(text: str, lines: Sequence[str], change: tuple[int, ...], n_around: int) -> tuple[int, int]:
    """Return the first row and the end of a quote of the change that occurs once and is not all blank."""
    a0, a1 = change[0], change[1]
    start, stop = max(0, a0 - n_around), min(len(lines), a1 + n_around)
    while (start > 0 or stop < len(lines)) and not _stands_once(text, lines[start:stop]):
        start, stop = max(0, start - 1), min(len(lines), stop + 1)
        if stop - start > MAX_QUOTED + (a1 - a0):
            break
    return start, stop


def _stands_once(text: str, quote: Sequence[str]) -> bool:
    """Tell whether the quote is not all blank, and occurs once, even as a part of longer lines."""
    if not any(line.strip() for line in quote):
        return False
    sought = "\n".join(quote)
    return text.find(sought, text.find(sought) + 1) < 0


def _join(changes: Sequence[tuple[int, ...]], grown: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield the changes.  Changes with quotes that touch are joined into one."""
    held: tuple[int, ...] | None = None
    held_stop = 0
    for change, (start, stop) in zip(changes, grown, strict=True):
        if held is not None and start <= held_stop:
            held = (held[0], change[1], held[2], change[3])
        else:
            if held is not None:
                yield held
            held = change
        held_stop = stop
    if held is not None:
        yield held
