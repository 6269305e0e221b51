"""Finds all places of quoted lines in a file, by the strictest way of comparing that finds any place.

It compares whole lines by a key: the unchanged line, or the line without trailing blanks, without indentation, or with
odd characters folded.  If no key finds a quote, `find_similar` looks for the most similar lines; its result is always a
guess.  The final newline does not count as a line here.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel

MAX_PLACES = 200
"""At most this many places are looked for; a quote with more places does not help."""
MIN_SCORE = 0.55
"""At least this share of a misquoted stretch (by weight of its lines) must be found."""
MIN_SIMILARITY = 62.0
KEY_LENGTH = 300
"""At most this many characters of a line are compared for similarity."""
MAX_VOTERS = 40
MAX_QUOTE = 600
MAX_NEIGHBOURHOODS = 4
MAX_SHOWN = 12
MAX_WIDTH = 160


class Likeness(IntEnum):
    """How closely a quote agrees with the file, the closest agreement first."""

    EXACT = 0
    TRAILING = 1
    """Equal except for blanks at line ends."""
    EDGES = 2
    """Equal except for blank lines at the quote's start or end, which the file lacks."""
    INDENTED = 3
    """Equal except for indentation."""
    FOLDED = 4
    """Equal except for blanks, quotes and dashes."""
    FUZZY = 5


class Place(NamedTuple):
    """The place of a quote: the file's row of each quoted line, None for a line that the file lacks."""

    rows: tuple[int | None, ...]
    likeness: Likeness
    is_applied: bool = False
    """Whether the hunk's new side stands there, so that the change is already made."""
    gap: int = 0
    """The row before which new lines without a quote go."""
    score: float = 1.0
    """The share of a misquoted stretch that is found at this place."""
    new: tuple[int | tuple[str, int | None], ...] | None = None
    """The result for a misquoted stretch: rows of the file that stay, and new lines, each with its line of the update.

    If this is set, `rows` are the first and the last row of the stretch."""

    @property
    def start(self) -> int:
        return next((row for row in self.rows if row is not None), self.gap)

    @property
    def end(self) -> int:
        return next((row + 1 for row in reversed(self.rows) if row is not None), self.gap)


_PLAIN = str.maketrans(
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
    """Return the line without blanks, and with plain characters in place of typographic variants."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", line.translate(_PLAIN)))


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
        lines = text.split("\n")
        self.has_final_newline = lines[-1] == ""
        """Whether the text ends with a newline.  This is also true for the empty file, because its only line is not a
        line of text."""
        self.lines: Sequence[str] = lines[:-1] if self.has_final_newline else lines
        self._tables: dict[Callable[[str], str], tuple[list[str], dict[str, list[int]]]] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def rows_of(self, likeness: Likeness) -> dict[str, list[int]]:
        """Return the rows of every line, by the line's key at this likeness."""
        key = KEYS[likeness]
        if key not in self._tables:
            index: defaultdict[str, list[int]] = defaultdict(list)
            keyed = [key(line) for line in self.lines]
            for row, line in enumerate(keyed):
                index[line].append(row)
            self._tables[key] = keyed, dict(index)
        return self._tables[key][1]

    def stands(self, quote: Sequence[str], loosest: Likeness = Likeness.FOLDED) -> bool:
        """Tell whether the file has the quote anywhere, at this likeness or a better one."""
        return bool(self.find(quote, limit=1, loosest=loosest))

    def stands_at(self, quote: Sequence[str], start: int) -> bool:
        """Tell whether the file has exactly the quote at row `start`."""
        return start >= 0 and list(self.lines[start : start + len(quote)]) == list(quote)

    def find(self, quote: Sequence[str], limit: int = MAX_PLACES, loosest: Likeness = Likeness.FOLDED) -> list[Place]:
        """Return the places of the quote at the first likeness that has any.  Similar lines are not looked for."""
        if not self.lines:
            return []
        shown = [k for k, line in enumerate(quote) if line.strip()]
        if not shown:
            return self._places(quote, 0, len(quote), Likeness.EXACT, limit) if quote else []
        head, stop = shown[0], shown[-1] + 1
        has_blank_edge = head > 0 or stop < len(quote)
        for likeness in (likeness for likeness in KEYS if likeness <= loosest):
            places: list[Place] = []
            if likeness is not Likeness.EDGES:
                places = self._places(quote, 0, len(quote), likeness, limit)
            if not places and likeness >= Likeness.EDGES and has_blank_edge:
                places = self._places(quote, head, stop, likeness, limit)
            if not places:
                continue
            at_end = len(self) - stop
            if likeness < Likeness.EDGES and stop < len(quote) and self.stands_at(quote[:stop], at_end):
                # at the end of the file, the quote's blank last lines may be its final newline
                missing = (None,) * (len(quote) - stop)
                places.append(Place((*range(at_end, len(self)), *missing), Likeness.EDGES))
            return places
        return []

    def _places(self, quote: Sequence[str], head: int, stop: int, likeness: Likeness, limit: int) -> list[Place]:
        """Return the places of lines `head:stop` of the quote; the quote's other lines count as missing."""
        key, rows_of = KEYS[likeness], self.rows_of(likeness)
        keyed = self._tables[key][0]
        wanted = [key(line) for line in quote[head:stop]]
        rarest = min(range(len(wanted)), key=lambda k: len(rows_of.get(wanted[k], ())))
        starts = (row - rarest for row in rows_of.get(wanted[rarest], ()) if row >= rarest)
        fitting = (at for at in starts if keyed[at] == wanted[0] and keyed[at : at + len(wanted)] == wanted)
        before, after = (None,) * head, (None,) * (len(quote) - stop)
        return [Place((*before, *range(at, at + len(wanted)), *after), likeness) for at in islice(fitting, limit)]


# -- misquoted lines ---------------------------------------------------------------------------------------------------
def find_similar(file: FileLines, quote: Sequence[str], *, min_score: float = MIN_SCORE) -> list[Place]:
    """Return the most similar places that do not overlap, the best first; empty if nothing is similar enough.

    Lines vote for where the quote starts (equal lines, and similar ones by rapidfuzz), and the best-voted
    neighbourhoods are aligned line by line.
    """
    keys = [line.strip()[:KEY_LENGTH] for line in quote]
    if not file.lines or not any(keys) or len(keys) > MAX_QUOTE:
        return []
    rows = [line.strip()[:KEY_LENGTH] for line in file.lines]
    found: list[Place] = []
    for place in sorted((_align(rows, keys, start) for start in _likely_starts(rows, keys)), key=lambda p: -p.score):
        overlaps = any(place.start < other.end and other.start < place.end for other in found)
        if place.score >= min_score and not overlaps:
            found.append(place)
    return found


def nearest_lines(file: FileLines, quote: Sequence[str]) -> str:
    """Return the stretch most similar to the quote as `12 | text` lines, so that the author can correct the quote.  The
    result is empty if nothing is similar."""
    if found := find_similar(file, quote, min_score=0.3):
        first, end = found[0].start, found[0].end
    else:
        longest = max((line.strip()[:KEY_LENGTH] for line in quote), key=len, default="")
        rows = [line.strip()[:KEY_LENGTH] for line in file.lines]
        best = process.extractOne(longest, rows, scorer=fuzz.ratio, score_cutoff=45.0) if longest else None
        if best is None:
            return ""
        first, end = max(best[2] - 1, 0), best[2] + 2
    shown = range(first, min(end, first + MAX_SHOWN, len(file)))
    return "\n".join(f"{row + 1} | {file.lines[row][:MAX_WIDTH]}" for row in shown)


def _weight(key: str) -> float:
    """Return the weight of a line: little for brackets, and almost none for blank lines."""
    return min(len(key), 40) / 40 + 0.02


def _likely_starts(rows: Sequence[str], keys: Sequence[str]) -> list[int]:
    """Return rows where the quote's first line may stand, the row with the most votes first."""
    table: defaultdict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(rows):
        table[key].append(row)
    distinct = list(table)
    votes: defaultdict[int, float] = defaultdict(float)
    voters = sorted((k for k, key in enumerate(keys) if key), key=lambda k: -_weight(keys[k]))[:MAX_VOTERS]
    for k in voters:
        similar = [(keys[k], 100.0, 0)]
        if keys[k] not in table:
            similar = process.extract(keys[k], distinct, scorer=fuzz.ratio, score_cutoff=MIN_SIMILARITY, limit=5)
        for key, similarity, _ in similar:
            for row in table[key][:50]:
                votes[row - k] += _weight(keys[k]) * (similarity / 100) ** 2 / len(table[key])
    # lines missing or added inside a quote spread its votes a little
    around = {start: sum(votes.get(start + d, 0.0) for d in range(-3, 4)) for start in votes}
    chosen: list[int] = []
    for start in sorted(votes, key=lambda s: (-around[s], -votes[s])):
        if all(abs(start - other) > 3 for other in chosen):
            chosen.append(start)
        if len(chosen) == MAX_NEIGHBOURHOODS:
            break
    return chosen


def _align(rows: Sequence[str], keys: Sequence[str], start: int) -> Place:
    """Return the quote's lines matched, in order, with the most similar lines near row `start`."""
    slack = 3 + len(keys) // 3
    low = max(0, min(start - slack, len(rows) - 1))
    window = rows[low : max(low + 1, min(len(rows), start + len(keys) + slack))]
    similar = process.cdist(keys, window, scorer=fuzz.ratio)
    # Keep the likeliest row of each quoted line, so that an exact alignment can drop the rows out of order.
    seen = [-1] * len(window)
    is_text = np.array([bool(row) for row in window])
    for k, key in enumerate(keys):
        best = similar[k].max()
        likest = ((similar[k] == best) & (is_text == bool(key))).nonzero()[0]
        if len(likest) and best >= MIN_SIMILARITY:
            seen[int(likest[abs(likest + (low - start - k)).argmin()])] = k
    matched: list[int | None] = [None] * len(keys)
    for op in Indel.opcodes(range(len(keys)), seen):
        if op.tag == "equal":
            matched[op.src_start : op.src_end] = range(low + op.dest_start, low + op.dest_end)
    found = (_weight(keys[k]) * (similar[k, row - low] / 100) ** 2 for k, row in enumerate(matched) if row is not None)
    score = min(1.0, float(sum(found)) / sum(map(_weight, keys)))
    return Place(tuple(matched), Likeness.FUZZY, score=score)
