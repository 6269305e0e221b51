"""A reader of clean snippets, written for the tests alone: it shares nothing with the sketcher or the merger.

It takes a snippet apart at its markers and holds each block at its first and its last line, found in the original in
order; what lies between is replaced by the block.  Of several such ranges the one most like the block counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rapidfuzz.distance import Indel

MARKER = re.compile(r"^\s*(//|#|/\*|<!--|--)?\s*(\.\.\.(?!\w)|…|\((\.\.\.|unchanged|existing))")


def resolve_snippet(before: str, update: str) -> str | None:
    """The merged text; None where a block is not found."""
    old = before.split("\n")
    ends = old[-1] == ""
    if ends:
        old.pop()
    lines = update.split("\n")
    if lines[-1] == "":
        lines.pop()
    blocks, leading, trailing = take_apart(lines)
    out: list[str] = []
    at = 0
    for number, block in enumerate(blocks):
        is_first, is_last = number == 0 and not leading, number + 1 == len(blocks) and not trailing
        found = find_block(old, block, at, is_first, is_last)
        if found is None:
            return None
        start, stop = found
        out += old[at:start] + block
        at = stop
    out += old[at:]
    return "\n".join([*out, ""] if ends else out)


def take_apart(lines: Sequence[str]) -> tuple[list[list[str]], bool, bool]:
    """The blocks between markers without blank lines beside markers; whether a marker leads and trails."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if MARKER.match(line):
            blocks.append([])
        else:
            blocks[-1].append(line)
    leading, trailing = not any(x.strip() for x in blocks[0]), not any(x.strip() for x in blocks[-1])
    trimmed = []
    for number, block in enumerate(blocks):
        start, stop = 0, len(block)
        while number > 0 and start < stop and not block[start].strip():
            start += 1
        while number + 1 < len(blocks) and stop > start and not block[stop - 1].strip():
            stop -= 1
        if start < stop:
            trimmed.append(block[start:stop])
    return trimmed, leading and len(blocks) > 1, trailing and len(blocks) > 1


def find_block(old: Sequence[str], block: Sequence[str], at: int, first: bool, last: bool) -> tuple[int, int] | None:
    """The half-open range of original lines that the block stands for: it begins and ends with the block's first and
    last line (or with the file), and of all such ranges it is the most like the block, then the first."""
    starts = [place for place in range(at, len(old)) if old[place] == block[0]] or ([0] if first else [])
    stops = [place + 1 for place in range(at, len(old)) if old[place] == block[-1]] or ([len(old)] if last else [])
    ranges = [(start, stop) for start in starts for stop in stops if start < stop]
    return min(ranges, key=lambda r: (Indel.distance(list(old[r[0] : r[1]]), list(block)), r), default=None)
