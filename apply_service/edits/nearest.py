"""The lines of a file that come nearest to what an edit quotes, numbered, so that its author can correct the quote."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz import fuzz, process

from apply_service.edits.fuzzy_search import KEY_LENGTH, find_similar
from apply_service.edits.line_search import FileLines

MAX_SHOWN = 12
MAX_WIDTH = 160
MIN_SIMILARITY = 45.0


def nearest_lines(original_lines: Sequence[str], wanted_lines: Sequence[str]) -> str:
    """The stretch most like the wanted one as `12 | text` lines; empty where nothing is like it."""
    found = find_similar(FileLines("\n".join(original_lines)), wanted_lines, min_score=0.3)
    if found:
        first, end = found[0].place.start, found[0].place.end
    else:
        longest = max((line.strip()[:KEY_LENGTH] for line in wanted_lines), key=len, default="")
        rows = [line.strip()[:KEY_LENGTH] for line in original_lines]
        best = process.extractOne(longest, rows, scorer=fuzz.ratio, score_cutoff=MIN_SIMILARITY) if longest else None
        if best is None:
            return ""
        first, end = max(best[2] - 1, 0), best[2] + 2
    shown = range(first, min(end, first + MAX_SHOWN, len(original_lines)))
    return "\n".join(f"{row + 1} | {original_lines[row][:MAX_WIDTH]}" for row in shown)
