"""Whether a shown line that differs from the file's is that line misquoted: shortened, re-spaced, a word lost.

Such a line is context and the file's own wording stays.  Judges two texts; where it is all that the snippet changes,
the caller knows better.
"""

from __future__ import annotations

import re

from apply_service.edits.markers import strip_comment

_RETURN_TYPE = re.compile(r"\s*->\s*[^{:;]+?(?=\s*(?:\{|:|;|$|\bwhere\b))")
_ELLIPSIS = re.compile(r"\.{3}|…")
_CODE = re.compile(r"[={};<>\[\]]|[:,(]$")
MAX_LOST_WORDS = 2
MIN_WORDS = 5


def is_misquoted(shown: str, line: str) -> bool:
    """Whether `shown` reads as a careless copy of `line` rather than an edit of it."""
    shown, line = shown.strip(), line.strip()
    untyped = _RETURN_TYPE.sub("", line)
    return is_elided(shown, line) or (untyped != line and "".join(untyped.split()) == "".join(shown.split()))


def may_be_misquoted(shown: str, line: str) -> bool:
    """Whether `shown` may as well be an edit of `line` as a careless copy."""
    shown, line = shown.strip(), line.strip()
    return is_respaced(shown, line) or _lost_words(shown, line)


def is_respaced(shown: str, line: str) -> bool:
    """Whether columns of spaces inside the file's line were squeezed to one."""
    return shown != line and shown == " ".join(line.split()) and line.count("  ") > 0


def is_elided(shown: str, line: str) -> bool:
    """Whether the line is given with dots for a part of it."""
    return any(_stands_for(shown[: dots.start()], shown[dots.end() :], line) for dots in _ELLIPSIS.finditer(shown))


def _stands_for(head: str, tail: str, line: str) -> bool:
    """Whether dots between `head` and `tail` stand for what the line has there."""
    if re.match(r"\w", tail) or re.search(r"\w$", head):
        return False
    head, tail = head.rstrip(), tail.lstrip()
    return (
        len(head) + len(tail) >= 6
        and len(line) > len(head) + len(tail)
        and line.startswith(head)
        and line.endswith(tail)
    )


def _lost_words(shown: str, line: str) -> bool:
    """Whether a comment, or a line of prose in a longer one, lost a word or two."""
    if not all(strip_comment(text).is_comment or not _CODE.search(text) for text in (shown, line)):
        return False
    here, there = shown.split(), line.split()
    if len(there) < MIN_WORDS or not 0 < len(there) - len(here) <= MAX_LOST_WORDS:
        return False
    rest = iter(there)
    return all(word in rest for word in here)
