"""How far the new lines at the edge of a block replace original lines beyond its last anchor.

A block normally begins and ends with lines of the file.  Where a model ends it with new ones, they replace what is left
of a scope shown whole, or lines that read like them, or nothing: then they are inserted.  All of it is guesswork, and
the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rapidfuzz import fuzz

from apply_service.edits.bracket_counts import balance
from apply_service.edits.candidates import squeeze
from apply_service.edits.headers import header_name
from apply_service.edits.indentation import indent_of
from apply_service.edits.reading import Reading
from apply_service.edits.snippet import marker_indent

MAX_REPLACED = 14
MIN_LIKENESS = 72.0
MAX_LEFT_AT_FILE_EDGE = 8
"""Lines that a snippet without a marker at its end may pass over in silence at the file's edge."""


def replaced_above(reading: Reading, b: int, anchor: tuple[int, int], floor: int) -> int:
    """Original lines above the first anchor (index in the block, original line) that the new ones before it replace."""
    block = reading.snippet.blocks[b]
    k, j = anchor
    if b == 0 and not block.marked_before and j <= MAX_LEFT_AT_FILE_EDGE:
        return j
    takes = [reading.texts[i] for i in block.lines[:k]]
    return _most_alike(takes, reading.original[max(floor, j - MAX_REPLACED) : j][::-1], reverse=True)


def replaced_below(reading: Reading, b: int, anchor: tuple[int, int], ceiling: int, columns: dict[int, int]) -> int:
    """Original lines below the last anchor that the new lines behind it replace; none from `ceiling` on."""
    block = reading.snippet.blocks[b]
    k, j = anchor
    shown = _rest_of_scope(reading, b, k, j, columns)
    if shown is not None:
        return min(shown, ceiling - j - 1)
    takes = [reading.texts[i] for i in block.lines[k + 1 :]]
    rest = reading.original[j + 1 :]
    if b == len(reading.snippet.blocks) - 1 and not block.marked_after and len(rest) <= MAX_LEFT_AT_FILE_EDGE:
        gives_way = any(map(str.strip, rest)) and balance(rest) == balance(takes) and not _defines_more(rest, takes)
        return len(rest) if gives_way else 0
    return _most_alike(takes, reading.original[j + 1 : min(ceiling, j + 1 + MAX_REPLACED)])


def balanced_end(original: Sequence[str], start: int, end: int, taken: Sequence[str], ceiling: int) -> int:
    """`end`, or further down where lines `start:end`, replaced by `taken`, leave a bracket open that `taken` closes."""
    wanted = balance(taken)
    for stop in range(end, min(ceiling, end + MAX_REPLACED) + 1):
        if balance(original[start:stop]) == wanted:
            return stop
    return end


def _rest_of_scope(reading: Reading, b: int, k: int, j: int, columns: dict[int, int]) -> int | None:
    """What is left below line j of the innermost scope that the block shows from its header to its end."""
    block = reading.snippet.blocks[b]
    last = reading.texts[block.lines[-1]]
    indent = indent_of(last)
    for above in range(len(block.lines) - 2, -1, -1):
        i = block.lines[above]
        if not reading.texts[i].strip() or indent_of(reading.texts[i]) >= indent:
            continue
        header, indent = columns.get(i, -1), indent_of(reading.texts[i])
        after = marker_indent(reading.snippet, block.gap_after)
        if header < 0 or above > k or (after is not None and after > indent):
            return None
        if balance([reading.texts[i] for i in block.lines[above:]]) > 0:
            return None
        end = reading.close_of(header)
        while end > j + 1 and not reading.original[end - 1].strip():
            end -= 1
        return max(0, end - j - 1)
    return None


def _most_alike(takes: Sequence[str], originals: Sequence[str], *, reverse: bool = False) -> int:
    """How many of the nearest `originals` together read most like `takes`; 0 where none do."""
    if any(header_name(line) is not None and not _is_known(line, originals) for line in takes):
        return 0
    wanted = squeeze("".join(takes))[:4000]
    best, most = 0, MIN_LIKENESS
    for n in range(1, len(originals) + 1):
        lines = originals[:n][::-1] if reverse else originals[:n]
        if not lines[0 if reverse else -1].strip():
            continue
        if _key(takes[0]) != _key(lines[0]):
            continue
        likeness = fuzz.ratio(wanted, squeeze("".join(lines))[:4000])
        if likeness > most and balance(lines) == balance(takes):
            best, most = n, likeness
    return best


def _defines_more(originals: Sequence[str], takes: Sequence[str]) -> bool:
    """Whether the originals hold definitions and the new lines none: those are not what replaces them."""
    return any(map(header_name, originals)) and not any(map(header_name, takes))


def _is_known(line: str, originals: Sequence[str]) -> bool:
    name = header_name(line)
    return any(header_name(other) == name for other in originals)


def _key(line: str) -> str:
    """What a line is about: the name it defines, or what stands before its first sign."""
    return header_name(line) or re.split(r"[=(:{<,\s]", line.strip(), maxsplit=1)[0]
