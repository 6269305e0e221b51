"""Merges two changed versions (sides) of one base text: a three-way merge.

Changes that touch different places are both made; equal changes are made once; anything else is a conflict, which the
caller reports.  The merge works on sequences of texts: lines, or the words of a line.  No side is ever dropped
silently.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rapidfuzz.distance import Indel

from apply_service.text.diff import ChangedLines, diff_lines

Diff = Callable[[Sequence[str], Sequence[str]], Sequence[ChangedLines]]
_TOKEN = re.compile(r"\w+|[^\S\n]+|[^\w\s]|\n")


class MergePiece(NamedTuple):
    """A stretch of the result.  In a conflict the sides differ, and `merged` is None."""

    merged: tuple[str, ...] | None
    base: range
    """The rows of each text that the piece is about."""
    ours: range
    theirs: range


def three_way(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], *, diff: Diff = diff_lines, touching: bool = True
) -> Iterator[MergePiece]:
    """Yield the pieces of the merge, in order.

    `touching`: changes right beside each other are a conflict too.  If one of them is an insertion, blank lines between
    the two do not count.
    """
    left = [deque(diff(base, side)) for side in (ours, theirs)]
    shift = [0, 0]  # how many rows each side is ahead of the base
    at = 0
    while any(left):
        low, high, found = _next_stretch(base, left, touching=touching)
        yield _piece(at, shift, base[at:low])
        ahead = [shift[k] + sum((c.b1 - c.b0) - (c.a1 - c.a0) for c in found[k]) for k in (0, 1)]
        sides = [range(low + shift[k], high + ahead[k]) for k in (0, 1)]
        texts = [tuple(side[row] for row in rows) for side, rows in zip((ours, theirs), sides, strict=True)]
        is_clear = not (found[0] and found[1]) or texts[0] == texts[1]
        yield MergePiece(texts[0 if found[0] else 1] if is_clear else None, range(low, high), *sides)
        at, shift = high, ahead
    yield _piece(at, shift, base[at:])


def _next_stretch(
    base: Sequence[str], left: Sequence[deque[ChangedLines]], *, touching: bool
) -> tuple[int, int, list[list[ChangedLines]]]:
    """Return the rows of the next stretch that changes, and the changes of each side, and remove these from `left`."""
    low = high = min(changes[0].a0 for changes in left if changes)
    found: list[list[ChangedLines]] = [[], []]
    is_insertion = False
    while True:
        ends = (high, _past_blanks(base, high)) if touching else (high - 1, high - 1)
        k = next((k for k in (0, 1) if left[k] and _belongs(left[k][0], low, ends, is_insertion=is_insertion)), None)
        if k is None:
            return low, high, found
        change = left[k].popleft()
        found[k].append(change)
        is_insertion = change.a0 == change.a1
        high = max(high, change.a1)


def _piece(low: int, shift: Sequence[int], texts: Sequence[str]) -> MergePiece:
    """Return a stretch that nobody changed, which begins at row `low` of the base."""
    high = low + len(texts)
    return MergePiece(tuple(texts), range(low, high), *(range(low + ahead, high + ahead) for ahead in shift))


def _past_blanks(base: Sequence[str], at: int) -> int:
    """Return the first row from `at` on that is not empty."""
    while at < len(base) and not base[at]:
        at += 1
    return at


def _belongs(change: ChangedLines, low: int, ends: tuple[int, int], *, is_insertion: bool) -> bool:
    """Tell whether a change belongs to the stretch from row `low` on.

    `ends`: the last row at which such a change may begin.  The second number holds if this change or the one before
    only inserts, because the order of two insertions is not known.
    """
    end = ends[1] if is_insertion or change.a0 == change.a1 else ends[0]
    return change.a0 == low or change.a0 <= end


def merge_words(base: str, ours: str, theirs: str) -> str | None:
    """Return the three-way merge of texts word by word; None if two changes conflict."""
    texts = [_TOKEN.findall(text) for text in (base, ours, theirs)]
    pieces = list(three_way(*texts, diff=_diff_words))
    if any(piece.merged is None for piece in pieces):
        return None
    return "".join(token for piece in pieces for token in piece.merged or ())


def only_misspells(quoted: str, text: str, new: str) -> bool:
    """Tell whether the quote differs from the text only by replaced words, and `new` has none of the quote's wrong
    words."""
    old, found = _TOKEN.findall(quoted), _TOKEN.findall(text)
    known = set(_TOKEN.findall(new))
    for a0, a1, b0, b1 in _diff_words(old, found):
        lost, gained = ([token for token in side if token.strip()] for side in (old[a0:a1], found[b0:b1]))
        if len(lost) != len(gained) or any(token in known for token in lost if token[0].isalnum() or token[0] == "_"):
            return False
    return True


def accounts_for(quoted: str, text: str, new: str) -> bool:
    """Tell whether the new text accounts for all words in which the text differs from its quote.

    Words that the quote lacks must occur in the new text at least as often as in the text.  Words that only the quote
    has must not occur in the new text more often than in the text.
    """
    old, found = _TOKEN.findall(quoted), _TOKEN.findall(text)
    n_found, n_new = Counter(found), Counter(_TOKEN.findall(new))
    for a0, a1, b0, b1 in _diff_words(old, found):
        if any(token.strip() and n_new[token] < n_found[token] for token in found[b0:b1]):
            return False
        if any(token.strip() and n_new[token] > n_found[token] for token in old[a0:a1]):
            return False
    return True


def _diff_words(old: Sequence[str], new: Sequence[str]) -> list[ChangedLines]:
    """Return the smallest changes between two lists of words."""
    changes: list[ChangedLines] = []
    for step in Indel.opcodes(old, new):
        if step.tag == "equal":
            continue
        change = ChangedLines(step.src_start, step.src_end, step.dest_start, step.dest_end)
        if changes and changes[-1].a1 == change.a0 and changes[-1].b1 == change.b0:
            change = ChangedLines(changes[-1].a0, change.a1, changes[-1].b0, change.b1)
            changes.pop()
        changes.append(change)
    return changes
