"""Whether a shown line that differs from the file's is that line misquoted: shortened, re-spaced, a word lost.

Such a line is context and the file's own wording stays.  Judges two texts; where it is all that the snippet changes,
the caller knows better.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from rapidfuzz.distance import Postfix, Prefix

from apply_service.edits.markers import strip_comment

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


class ElidedLines:
    """Lines of a file, asked which of them a text gives with dots for a part."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines`: without their outer white space."""
        self._lines = lines

    @cached_property
    def _forwards(self) -> tuple[list[str], list[int]]:
        order = sorted(range(len(self._lines)), key=self._lines.__getitem__)
        return [self._lines[j] for j in order], order

    @cached_property
    def _backwards(self) -> tuple[list[str], list[int]]:
        turned = [line[::-1] for line in self._lines]
        order = sorted(range(len(turned)), key=turned.__getitem__)
        return [turned[j] for j in order], order

    def places(self, shown: str) -> list[int]:
        """The numbers of the lines that `shown`, without outer white space, gives so; looks only at those with its
        beginning, or with its end if these are fewer."""
        if "..." not in shown and "…" not in shown:
            return []
        parts = _ELLIPSIS.split(shown)
        heads = _with_beginning(*self._forwards, parts[0].rstrip())
        tails = _with_beginning(*self._backwards, parts[-1].lstrip()[::-1])
        return sorted(j for j in min(heads, tails, key=len) if is_elided(shown, self._lines[j]))


def _with_beginning(ordered: Sequence[str], numbers: Sequence[int], beginning: str) -> Sequence[int]:
    """The numbers of the lines, which are in order, that begin so."""
    n = len(beginning)
    low = bisect_left(ordered, beginning)
    return numbers[low : bisect_right(ordered, beginning, low, key=lambda line: line[:n])]


class Quoted:
    """Lines of a file, asked whether a text is a careless copy of one.

    The same as to ask `is_misquoted` and `may_be_misquoted` of each line, but few of them are looked at for a text.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = [line.strip() for line in lines]
        self._elided = ElidedLines(self._lines)
        untyped = ((line, _RETURN_TYPE.sub("", line)) for line in self._lines if "->" in line)
        self._untyped = {"".join(short.split()) for line, short in untyped if short != line}
        self._respaced = {" ".join(line.split()) for line in self._lines if "  " in line}
        self._parts: defaultdict[tuple[int, int, tuple[str, ...]], list[list[str]]] = defaultdict(list)
        for line in self._lines:
            words = line.split()
            if len(words) >= MIN_WORDS and _is_said(line):
                for key in _thirds(words):
                    self._parts[key].append(words)

    def has_copy(self, text: str) -> bool:
        """Whether the text may be a careless copy of one of the lines."""
        shown = text.strip()
        if shown in self._respaced or "".join(shown.split()) in self._untyped:
            return True
        if self._elided.places(shown):
            return True
        return _is_said(shown) and self._lost_words(shown.split())

    def _lost_words(self, here: Sequence[str]) -> bool:
        """Two lost words leave one third of the line's words whole, at one of three places."""
        for n_lost in range(1, MAX_LOST_WORDS + 1):
            n, cut = len(here) + n_lost, (len(here) + n_lost) // 3
            keys = [(n, 0, tuple(here[:cut])), (n, 2, tuple(here[2 * cut - n_lost :]))]
            keys += [(n, 1, tuple(here[cut - k : 2 * cut - k])) for k in range(n_lost + 1)]
            found = (there for key in keys for there in self._parts.get(key, ()))
            if any(_is_within(here, there) for there in found):
                return True
        return False


def _thirds(words: Sequence[str]) -> list[tuple[int, int, tuple[str, ...]]]:
    """Number of words, which third, and its words."""
    n, cut = len(words), len(words) // 3
    bounds = (0, cut, 2 * cut, n)
    return [(n, k, tuple(words[bounds[k] : bounds[k + 1]])) for k in range(3)]


def may_be_misquoted(shown: str, line: str) -> bool:
    """Whether `shown` may as well be an edit of `line` as a careless copy."""
    shown, line = shown.strip(), line.strip()
    return is_respaced(shown, line) or _lost_words(shown, line)


def is_respaced(shown: str, line: str) -> bool:
    """Whether columns of spaces inside the file's line were squeezed to one."""
    return shown != line and shown == " ".join(line.split()) and line.count("  ") > 0


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
        is_in_word = _is_word(shown[end : end + 1]) or _is_word(shown[start - 1 : start])
        visible = _VISIBLE.search(shown, end)
        tail = len(shown) - visible.start() if visible else 0
        if not is_in_word and tail <= n_tail and 6 <= head + tail < len(line):
            return True
    return False


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def _lost_words(shown: str, line: str) -> bool:
    """Whether a comment, or a line of prose in a longer one, lost a word or two."""
    here, there = shown.split(), line.split()
    if len(there) < MIN_WORDS or not 0 < len(there) - len(here) <= MAX_LOST_WORDS:
        return False
    return _is_said(shown) and _is_said(line) and _is_within(here, there)


def _is_said(text: str) -> bool:
    """Whether the text is a comment, or has no sign of code."""
    return strip_comment(text).is_comment or not _CODE.search(text)


def _is_within(here: Sequence[str], there: Sequence[str]) -> bool:
    """Whether the words are some of those `there`, in the same order."""
    rest = iter(there)
    return all(word in rest for word in here)
