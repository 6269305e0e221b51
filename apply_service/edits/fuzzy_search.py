"""Where a misquoted stretch most probably stands in a file, line by line.

For quotes that `line_search` can't find under any key.  Lines vote for where the quote starts (equal lines, and
similar ones by rapidfuzz), and the best-voted neighbourhoods are aligned line by line.  What it finds is a guess, never
more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process

from apply_service.edits.line_search import FileLines, Likeness, Place

MIN_SCORE = 0.55
"""Share of the quote (by weight of its lines) that must be found again."""
MIN_SIMILARITY = 62.0
KEY_LENGTH = 300
"""Characters of a line that are compared."""
MAX_VOTERS = 40
MAX_QUOTE = 600
MAX_NEIGHBOURHOODS = 4
SKIPPED_QUOTE_LINE = -0.35
SKIPPED_FILE_LINE = -0.08


class FuzzyPlace(NamedTuple):
    place: Place
    score: float
    """Share of the quote found there, at most 1."""


def find_similar(file: FileLines, quote: Sequence[str], *, min_score: float = MIN_SCORE) -> list[FuzzyPlace]:
    """The most similar places, best first, none overlapping; empty where nothing is similar enough."""
    keys = [line.strip()[:KEY_LENGTH] for line in quote]
    if not file.lines or not any(keys) or len(keys) > MAX_QUOTE:
        return []
    rows = [line.strip()[:KEY_LENGTH] for line in file.lines]
    found = [_aligned(rows, keys, start) for start in _likely_starts(rows, keys)]
    places: list[FuzzyPlace] = []
    for candidate in sorted(found, key=lambda f: -f.score):
        if candidate.score >= min_score and not any(_overlap(candidate.place, other.place) for other in places):
            places.append(candidate)
    return places


def _overlap(a: Place, b: Place) -> bool:
    return a.start < b.end and b.start < a.end


def _weight(key: str) -> float:
    """How much a line says: brackets little, blank lines next to nothing."""
    return min(len(key), 40) / 40 + 0.02


def _likely_starts(rows: Sequence[str], keys: Sequence[str]) -> list[int]:
    """Rows where the quote's first line would stand, best voted first."""
    table: defaultdict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(rows):
        table[key].append(row)
    distinct = list(table)
    votes: defaultdict[int, float] = defaultdict(float)
    voters = sorted((k for k, key in enumerate(keys) if key), key=lambda k: -_weight(keys[k]))[:MAX_VOTERS]
    for k in voters:
        for key, similarity, _ in _similar(keys[k], table, distinct):
            places = table[key]
            for row in places[:50]:
                votes[row - k] += _weight(keys[k]) * (similarity / 100) ** 2 / len(places)
    return _best_voted(votes)


def _similar(key: str, table: dict[str, list[int]], distinct: Sequence[str]) -> list[tuple[str, float, int]]:
    if key in table:
        return [(key, 100.0, 0)]
    return process.extract(key, distinct, scorer=fuzz.ratio, processor=None, score_cutoff=MIN_SIMILARITY, limit=5)


def _best_voted(votes: Mapping[int, float]) -> list[int]:
    """Starts whose neighbourhood got most votes; lines missing or added inside a quote spread its votes a little."""
    around = {start: sum(votes.get(start + d, 0.0) for d in range(-3, 4)) for start in votes}
    chosen: list[int] = []
    for start in sorted(votes, key=lambda s: (-around[s], -votes[s])):
        if all(abs(start - other) > 3 for other in chosen):
            chosen.append(start)
        if len(chosen) == MAX_NEIGHBOURHOODS:
            break
    return chosen


def _aligned(rows: Sequence[str], keys: Sequence[str], start: int) -> FuzzyPlace:
    """The best line-by-line alignment of the quote around a start (free ends on the file's side)."""
    slack = 3 + len(keys) // 3
    low = max(0, min(start - slack, len(rows) - 1))
    high = max(low + 1, min(len(rows), start + len(keys) + slack))
    window = rows[low:high]
    gains = _gains(keys, window)
    matched = _trace(gains, [_weight(key) for key in keys])
    places = tuple(None if j is None else low + j for j in matched)
    total = sum(_weight(key) for key in keys)
    gained = sum(float(gains[k, j]) for k, j in enumerate(matched) if j is not None)
    if all(row is None for row in places):
        return FuzzyPlace(Place((low,), Likeness.FUZZY), 0.0)
    return FuzzyPlace(Place(places, Likeness.FUZZY), min(1.0, gained / total))


def _gains(keys: Sequence[str], window: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """What matching quoted line k with window line j is worth [n_keys, n_window]; negative where they differ."""
    similar = np.asarray(process.cdist(keys, window, scorer=fuzz.ratio), dtype=np.float64)
    is_blank = np.array([not key for key in keys])[:, None] != np.array([not row for row in window])[None, :]
    worth = np.where((similar >= MIN_SIMILARITY) & ~is_blank, (similar / 100) ** 2, -1.0)
    weighted: np.ndarray[tuple[int, int], np.dtype[np.float64]] = worth * np.array([[_weight(key)] for key in keys])
    return weighted


def _trace(gains: np.ndarray[tuple[int, int], np.dtype[np.float64]], weights: Sequence[float]) -> list[int | None]:
    """Needleman-Wunsch over the gains; for each quoted line the window line it matches."""
    n, m = gains.shape
    score = np.zeros((n + 1, m + 1))
    for k in range(1, n + 1):
        skip = score[k - 1] + SKIPPED_QUOTE_LINE * weights[k - 1]
        match = np.concatenate(([-np.inf], score[k - 1, :-1] + gains[k - 1]))
        best = np.maximum(skip, match)
        # the running maximum carries a score over skipped file lines, each at its price
        price = np.arange(m + 1) * SKIPPED_FILE_LINE
        score[k] = np.maximum.accumulate(best - price) + price
    return _walk_back(score, gains, weights)


def _walk_back(
    score: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    gains: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    weights: Sequence[float],
) -> list[int | None]:
    n = len(gains)
    matched: list[int | None] = [None] * n
    k, j = n, int(np.argmax(score[n]))
    while k > 0:
        if j > 0 and np.isclose(score[k, j], score[k - 1, j - 1] + gains[k - 1, j - 1]):
            k, j = k - 1, j - 1
            matched[k] = j
        elif np.isclose(score[k, j], score[k - 1, j] + SKIPPED_QUOTE_LINE * weights[k - 1]):
            k -= 1
        else:
            j -= 1
    return matched
