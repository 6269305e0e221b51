"""Whether a shown line that differs from the file's is that line misquoted: shortened, re-spaced, a word lost.

Such a line is context and the file's own wording stays.  Judges two texts; where it is all that the snippet changes,
the caller knows better.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property

from rapidfuzz.distance import Postfix, Prefix

from apply_service.text.markers import strip_comment

_RETURN_TYPE = re.compile(r"\s*->\s*[^{:;]+?(?=\s*(?:\{|:|;|$|\bwhere\b))")
_ELLIPSIS = re.compile(r"\.{3}|…")
_VISIBLE = re.compile(r"\S")
_CODE = re.compile(r"[={};<>\[\]]|[:,(]$")
MAX_LOST_WORDS = 2
MIN_WORDS = 5


def is_misquoted(shown: str, line: str) -> bool:
    """Whether `shown` reads as a careless copy of `line` rather than an edit of it."""
    shown, line = shown.strip(), line.strip()
    untyped = _RETURN_TYPE.sub("", line)
    return is_elided(shown, line) or (untyped != line and "".join(untyped.split()) == "".join(shown.split()))


def may_be_misquoted(shown: str, line: str) -> bool:
    """Whether `shown` may as well be an edit of `line` as a careless copy: columns of spaces squeezed to one, or a word
    or two lost from a comment or a line of prose."""
    shown, line = shown.strip(), line.strip()
    if "  " in line and shown == " ".join(line.split()):
        return True
    here, there = shown.split(), line.split()
    if len(there) < MIN_WORDS or not 0 < len(there) - len(here) <= MAX_LOST_WORDS:
        return False
    rest = iter(there)
    return _is_said(shown) and _is_said(line) and all(word in rest for word in here)


def is_elided(shown: str, line: str) -> bool:
    """Whether the line is given with dots for a part of it."""
    if "..." not in shown and "…" not in shown:
        return False
    n_head, n_tail = Prefix.similarity(shown, line), Postfix.similarity(shown, line)
    last = 0
    for dots in _ELLIPSIS.finditer(shown):
        start, end = dots.span()
        head = last + len(shown[last:start].rstrip())
        last = end
        if head > n_head:
            return False
        beside = shown[max(0, start - 1) : start] + shown[end : end + 1]
        is_in_word = any(sign.isalnum() or sign == "_" for sign in beside)
        visible = _VISIBLE.search(shown, end)
        tail = len(shown) - visible.start() if visible else 0
        if not is_in_word and tail <= n_tail and 6 <= head + tail < len(line):
            return True
    return False


def _is_said(text: str) -> bool:
    """Whether the text is a comment, or has no sign of code."""
    return strip_comment(text).is_comment or not _CODE.search(text)


class ElidedLines:
    """Lines of a file, asked which of them a text gives with dots for a part."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines`: without their outer white space."""
        self._lines = lines

    @cached_property
    def _forwards(self) -> list[tuple[str, int]]:
        return sorted((line, j) for j, line in enumerate(self._lines))

    @cached_property
    def _backwards(self) -> list[tuple[str, int]]:
        return sorted((line[::-1], j) for j, line in enumerate(self._lines))

    def places(self, shown: str) -> list[int]:
        """The numbers of the lines that `shown`, without outer white space, gives so; looks only at those with its
        beginning, or with its end if these are fewer."""
        if "..." not in shown and "…" not in shown:
            return []
        parts = _ELLIPSIS.split(shown)
        heads = _with_beginning(self._forwards, parts[0].rstrip())
        tails = _with_beginning(self._backwards, parts[-1].lstrip()[::-1])
        return sorted(j for _, j in min(heads, tails, key=len) if is_elided(shown, self._lines[j]))


def _with_beginning(ordered: Sequence[tuple[str, int]], beginning: str) -> Sequence[tuple[str, int]]:
    """Those of the lines, which are in order, that begin so."""
    n = len(beginning)
    low = bisect_left(ordered, (beginning, -1))
    return ordered[low : bisect_right(ordered, beginning, low, key=lambda pair: pair[0][:n])]
