"""Where quoted lines stand in a file: all places, at the strictest way of comparing that finds any.

Compares whole lines under a key (as they are, without trailing blanks, without indentation, odd characters folded);
`fuzzy_search` is for quotes that no key explains.  The final newline is no line here: only `hunk_merge` touches it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import islice
from operator import eq
from typing import NamedTuple

MAX_PLACES = 200
"""A quote that stands in more places than this is as good as lost."""


class Likeness(IntEnum):
    """How far a quote agrees with the file, best first."""

    EXACT = 0
    TRAILING = 1
    """But for blanks at line ends."""
    EDGES = 2
    """But for blank lines at the quote's start or end, which the file lacks."""
    INDENTED = 3
    """But for indentation."""
    FOLDED = 4
    """But for blanks, quotes and dashes."""
    FUZZY = 5


class Place(NamedTuple):
    """Where a quote stands: for each quoted line the file's line, None for one that the file lacks."""

    rows: tuple[int | None, ...]
    likeness: Likeness
    is_applied: bool = False
    """It is the hunk's new side that stands there: the change is already made."""

    @property
    def start(self) -> int:
        return next(row for row in self.rows if row is not None)

    @property
    def end(self) -> int:
        return next(row for row in reversed(self.rows) if row is not None) + 1


_TRANSLATED = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032`\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\u2026": "...",
        "\u200b": "",
        "\ufeff": "",
    }
)


def fold(line: str) -> str:
    """The line without blanks and with typographic variants made plain."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", line.translate(_TRANSLATED)))


KEYS: dict[Likeness, Callable[[str], str]] = {
    Likeness.EXACT: lambda line: line,
    Likeness.TRAILING: str.rstrip,
    Likeness.EDGES: str.rstrip,
    Likeness.INDENTED: str.strip,
    Likeness.FOLDED: fold,
}


class FileLines:
    """A file's lines, indexed for searching."""

    def __init__(self, text: str) -> None:
        self.all = text.split("\n")
        self.has_final_newline = self.all[-1] == ""
        """True for the empty file too: its one line is no line of text."""
        self.lines: Sequence[str] = self.all[:-1] if self.has_final_newline else self.all
        self._tables: dict[Likeness, tuple[list[str], dict[str, list[int]]]] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def stands(self, quote: Sequence[str], loosest: Likeness = Likeness.FOLDED) -> bool:
        """Whether the quote stands anywhere, at this likeness or a better one."""
        return any(place.likeness <= loosest for place in self.find(quote, limit=1))

    def find(self, quote: Sequence[str], limit: int = MAX_PLACES) -> list[Place]:
        """The places of the quote at the first likeness that has any; never fuzzy."""
        if not any(line.strip() for line in quote):
            return self._whole(quote, Likeness.EXACT, limit) if quote else []
        for likeness in (Likeness.EXACT, Likeness.TRAILING, Likeness.EDGES, Likeness.INDENTED, Likeness.FOLDED):
            trims = likeness is Likeness.EDGES
            places = self._trimmed(quote, likeness, limit) if trims else self._whole(quote, likeness, limit)
            if places:
                return places + (self._at_end(quote) if likeness < Likeness.EDGES else [])
        return []

    def stands_at(self, quote: Sequence[str], start: int) -> bool:
        """Whether the quote stands exactly there."""
        return start >= 0 and list(self.lines[start : start + len(quote)]) == list(quote)

    def _whole(self, quote: Sequence[str], likeness: Likeness, limit: int) -> list[Place]:
        starts = self._starts(quote, likeness, limit)
        if not starts and likeness >= Likeness.INDENTED:
            return self._trimmed(quote, likeness, limit)
        return [Place(tuple(range(start, start + len(quote))), likeness) for start in starts]

    def _at_end(self, quote: Sequence[str]) -> list[Place]:
        """The end of the file, where the quote's blank last lines may be its final newline."""
        stop = max(k for k, line in enumerate(quote) if line.strip()) + 1
        start = len(self.lines) - stop
        if stop == len(quote) or start < 0 or list(self.lines[start:]) != list(quote[:stop]):
            return []
        return [Place((*range(start, start + stop), *(None,) * (len(quote) - stop)), Likeness.EDGES)]

    def _trimmed(self, quote: Sequence[str], likeness: Likeness, limit: int) -> list[Place]:
        """Places without the quote's blank lines at start and end."""
        spoken = [k for k, line in enumerate(quote) if line.strip()]
        head, stop = spoken[0], spoken[-1] + 1
        if head == 0 and stop == len(quote):
            return []
        before, after = (None,) * head, (None,) * (len(quote) - stop)
        return [
            Place((*before, *range(start, start + stop - head), *after), likeness)
            for start in self._starts(quote[head:stop], likeness, limit)
        ]

    def _starts(self, quote: Sequence[str], likeness: Likeness, limit: int) -> list[int]:
        keyed, index = self._keyed(likeness)
        key = KEYS[likeness]
        wanted = [key(line) for line in quote]
        rarest = min(range(len(wanted)), key=lambda k: len(index.get(wanted[k], ())))
        starts = (row - rarest for row in index.get(wanted[rarest], ()) if row >= rarest)
        fitting = (start for start in starts if all(map(eq, islice(keyed, start, start + len(wanted)), wanted)))
        return [start for start in islice(fitting, limit) if start + len(wanted) <= len(keyed)]

    def _keyed(self, likeness: Likeness) -> tuple[list[str], dict[str, list[int]]]:
        if likeness not in self._tables:
            key = KEYS[likeness]
            keyed = [key(line) for line in self.lines]
            index: defaultdict[str, list[int]] = defaultdict(list)
            for row, line in enumerate(keyed):
                index[line].append(row)
            self._tables[likeness] = keyed, dict(index)
        return self._tables[likeness]
