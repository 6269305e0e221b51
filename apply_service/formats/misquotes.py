"""Carries a hunk over to a stretch of the file that the hunk misquotes.

The quote, the hunk's result and the file's stretch are merged three ways.  Lines with text come first: each line of the
quote has a counterpart in the file, lacks one, or has changed places with its neighbours.  Blank lines come next: a gap
(a run of blank lines) that the hunk leaves alone stays as in the file.  Nothing is guessed: if the file does not tell
what the hunk would do there, there is no result.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, repeat
from typing import NamedTuple

from rapidfuzz import fuzz

from apply_service.formats.quotes import HunkLine, quote_changes
from apply_service.text.diff import diff_lines
from apply_service.text.indent import Reindent
from apply_service.text.line_search import MIN_SIMILARITY, FileLines, Place
from apply_service.text.lines import leading
from apply_service.text.three_way import accounts_for, merge_words, only_misspells
from apply_service.types import Failure, LikePlace

CLEAR_MARGIN = 0.08
"""A misquoted stretch is ambiguous if the scores of its best and its second-best place differ by less than this."""
MAX_CANDIDATES = 3
MIN_NEXT = 0.45
"""A suggested next edit quotes a place only if the place's score is at least this."""

MAX_MOVED = 4
"""A line may have moved among at most this many blocks of lines."""

Item = int | tuple[str, int | None]
"""A line of the result: a row of the file, or a new line with its line of the update."""


def explain(file: FileLines, label: str, lines: Sequence[HunkLine], places: Sequence[Place]) -> Failure:
    """Return the report of a hunk without a certain place.  `places`: the places that it may mean, the most similar
    first."""
    candidates = tuple(LikePlace(p.start + 1, p.end, round(p.score, 3)) for p in places[:MAX_CANDIDATES])
    if not places:
        return Failure(label)
    quotes = zip(_old(lines), places[0].rows, strict=True)
    pairs = [(text, None if row is None else file.lines[row], row) for text, row in quotes]
    quoted, found, row = next((pair for pair in pairs if pair[0] != pair[1]), (None, None, None))
    told = _next_edit(file, lines, places)
    return Failure(label, candidates, quoted, found, None if row is None else row + 1, told)


def is_clear(places: Sequence[Place]) -> bool:
    """Tell whether the first place is clearly more similar to the quote than the second."""
    return len(places) == 1 or places[0].score - places[1].score >= CLEAR_MARGIN


def _next_edit(file: FileLines, lines: Sequence[HunkLine], places: Sequence[Place]) -> str | None:
    """Return a corrected edit as JSON: it quotes the file at the first place, and makes the hunk's changes there.

    The result is None if it is unclear what these changes would do to the file's lines.
    """
    place = rebase(file, lines, places)
    if place is None or place.new is None:
        return None
    new = [file.lines[item] if isinstance(item, int) else item[0] for item in place.new]
    original = [*file.lines, ""] if file.has_final_newline else list(file.lines)
    quotes = quote_changes(original, [*original[: place.start], *new, *original[place.end :]])
    if not quotes:
        return None
    edits = [{"old_string": "\n".join(one.old), "new_string": "\n".join(one.new)} for one in quotes]
    return json.dumps(edits[0] if len(edits) == 1 else edits, ensure_ascii=False)


def rebase(file: FileLines, lines: Sequence[HunkLine], places: Sequence[Place]) -> Place | None:
    """Return the first place, together with the lines that the hunk makes of it.

    The result is None if another place is equally similar, or if the file does not tell.  `lines`: the hunk's lines.
    `places`: the possible places, the most similar first.
    """
    place = places[0]
    if not is_clear(places) or place.score < MIN_NEXT:
        return None
    old, new = (_side([line.text for line in lines if line.kind != kind]) for kind in ("add", "remove"))
    start, end = _stretch(file, lines, place)
    texts = [row for row in range(start, end) if file.lines[row].strip()]
    shown = [row for line, row in zip(_old(lines), place.rows, strict=True) if line.strip()]
    rows = [None if row is None else bisect_left(texts, row) for row in shown]
    found = _side(file.lines[start:end])
    merge = _Merge(old, new, found, _find_blocks(old.lines, found.lines, rows), _reindent(old, new, found, rows))
    items: list[Item] = []
    at = start
    for change in _find_changes(lines, old, new):
        told = merge.result_of(change)
        if told is None:
            return None
        above = texts[told.gone.start - 1] + 1 if told.gone.start else start
        below = texts[told.gone.stop] if told.gone.stop < len(texts) else end
        blanks = [row for row in range(above, below) if not file.lines[row].strip()]
        n_above = min(told.n_above, found.gaps[told.gone.start])
        n_below = min(told.n_below, len(blanks) - n_above)
        first, last = (_added_blanks(lines, gap) for gap in (change.new.start, change.new.stop))
        items += [*range(at, above), *blanks[:n_above], *islice(first, told.n_above - n_above), *told.new]
        items += [*islice(last, told.n_below - n_below), *blanks[len(blanks) - n_below :]]
        at = below
    return place._replace(rows=(start, end - 1), new=(*items, *range(at, end)))


def _added_blanks(lines: Sequence[HunkLine], gap: int) -> Iterator[tuple[str, int | None]]:
    """Yield the blank lines that a hunk adds in a gap of its new side, and then any number of further blank lines."""
    at = 0
    for line in lines:
        if line.kind == "add" and not line.text.strip() and at == gap:
            yield line.text, line.update_line
        at += line.kind != "remove" and bool(line.text.strip())
    yield from repeat(("", None))


def _old(lines: Sequence[HunkLine]) -> list[str]:
    return [line.text for line in lines if line.kind != "add"]


def _reindent(old: _Side, new: _Side, found: _Side, rows: Sequence[int | None]) -> Reindent:
    """Return how new lines are re-indented: they stay as they are if most quoted lines stand as deep as in the file."""
    pairs = [(text, found.lines[row]) for text, row in zip(old.lines, rows, strict=True) if row is not None]
    n_alike = sum(leading(text) == leading(line) for text, line in pairs)
    return Reindent({}) if 2 * n_alike > len(pairs) else Reindent.of(pairs, new.lines)


# -- lines with text ---------------------------------------------------------------------------------------------------
class _Side(NamedTuple):
    """The lines of a text that are not blank, and how many blank lines stand above each and below the last one."""

    lines: list[str]
    gaps: list[int]


def _side(texts: Sequence[str]) -> _Side:
    lines, gaps = [], [0]
    for text in texts:
        if text.strip():
            lines.append(text)
            gaps.append(0)
        else:
            gaps[-1] += 1
    return _Side(lines, gaps)


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of the quote and the lines of the file in their place, counted without blank lines.

    Either side may be empty.
    """

    quoted: range
    found: range
    is_moved: bool = False
    """Whether both sides have the same lines, in a different order."""

    @property
    def is_clear(self) -> bool:
        """Whether each line of the quote has a counterpart in the file."""
        return self.is_moved or len(self.quoted) == len(self.found) == 1


def _stretch(file: FileLines, lines: Sequence[HunkLine], place: Place) -> tuple[int, int]:
    """Return the file's rows that the quote stands for.

    A quoted line without a row may stand right beside the rows of the others, because the quote swaps it with a
    neighbour.
    """
    quotes = zip(_old(lines), place.rows, strict=True)
    lacking = Counter(text.strip() for text, row in quotes if row is None and text.strip())
    start, end = place.start, place.end
    while end < len(file) and lacking[file.lines[end].strip()] > 0:
        lacking[file.lines[end].strip()] -= 1
        end += 1
    while start > 0 and lacking[file.lines[start - 1].strip()] > 0:
        start -= 1
        lacking[file.lines[start].strip()] -= 1
    return start, end


def _find_blocks(quoted: Sequence[str], found: Sequence[str], rows: Sequence[int | None]) -> list[_Block]:
    """Return the blocks in order.  `rows`: for each quoted line, its line in `found`."""
    blocks: list[_Block] = []
    q = f = 0
    for k, row in [*enumerate(rows), (len(rows), len(found))]:
        if row is None:
            continue
        blocks += _split(quoted, found, range(q, k), range(f, row))
        if k < len(rows):
            blocks.append(_Block(range(k, k + 1), range(row, row + 1)))
        q, f = k + 1, row + 1
    return _join_moved(quoted, found, blocks)


def _split(quoted: Sequence[str], found: Sequence[str], old: range, rows: range) -> Iterator[_Block]:
    """Yield the blocks of a stretch: equal lines stand in both texts, but the search has matched neither."""
    sides = [text[part.start : part.stop] for text, part in ((quoted, old), (found, rows))]
    n_old = n_rows = 0
    end = (len(old), len(old), len(rows), len(rows))
    for a0, a1, b0, b1 in [*diff_lines(*([line.strip() for line in side] for side in sides)), end]:
        for a, b in zip(range(n_old, a0), range(n_rows, b0), strict=True):
            yield _Block(old[a : a + 1], rows[b : b + 1])
        if a0 < a1 or b0 < b1:
            yield _Block(old[a0:a1], rows[b0:b1])
        n_old, n_rows = a1, b1


def _join_moved(quoted: Sequence[str], found: Sequence[str], blocks: list[_Block]) -> list[_Block]:
    """Return the blocks.  If a line has moved among several blocks, up to MAX_MOVED of them become one."""
    for low, block in enumerate(blocks):
        if len(block.quoted) == len(block.found):
            continue
        for high in range(low + 1, min(low + MAX_MOVED, len(blocks))):
            last = blocks[high]
            old, rows = range(block.quoted.start, last.quoted.stop), range(block.found.start, last.found.stop)
            if Counter(quoted[k].strip() for k in old) == Counter(found[k].strip() for k in rows):
                return _join_moved(quoted, found, [*blocks[:low], _Block(old, rows, True), *blocks[high + 1 :]])
    return blocks


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines with text that a hunk removes and adds at one place, counted without blank lines."""

    old: range
    new: range
    added: tuple[HunkLine, ...]
    """The added lines, with the blank lines between them."""


def _find_changes(lines: Sequence[HunkLine], old: _Side, new: _Side) -> Iterator[_Change]:
    """Yield the changes in order: changes of lines with text, and changes of the blank lines between two lines that
    stay."""
    n_old = n_new = 0
    was_kept = False
    told = [line for line in lines if line.text.strip()]
    for is_kept, run in groupby(told, key=lambda line: line.kind == "context"):
        of_run = list(run)
        if is_kept:
            for k in range(len(of_run)):
                if (k or was_kept) and old.gaps[n_old] != new.gaps[n_new]:
                    yield _Change(range(n_old, n_old), range(n_new, n_new), ())
                n_old, n_new = n_old + 1, n_new + 1
            was_kept = True
            continue
        added = [line for line in of_run if line.kind == "add"]
        n_gone = len(of_run) - len(added)
        within = lines[lines.index(added[0]) : lines.index(added[-1]) + 1] if added else ()
        shown = tuple(line for line in within if line.kind != "remove")
        yield _Change(range(n_old, n_old + n_gone), range(n_new, n_new + len(added)), shown)
        n_old, n_new, was_kept = n_old + n_gone, n_new + len(added), False


class _Told(NamedTuple):
    """What a change does to the file: the lines that are removed, counted without blank lines, and what replaces
    them."""

    gone: range
    n_above: int
    new: tuple[tuple[str, int | None], ...]
    n_below: int


@dataclass(frozen=True, slots=True)
class _Merge:
    """A hunk beside the stretch of the file that it misquotes."""

    old: _Side
    new: _Side
    found: _Side
    blocks: Sequence[_Block]
    reindent: Reindent

    def result_of(self, change: _Change) -> _Told | None:
        """Return what a change does to the file; None if the file does not tell."""
        gone = self._gone(change)
        new = None if gone is None else self._written(change, gone)
        if gone is None or new is None:
            return None
        above, below = change.new.start, change.new.stop
        file, old = (
            [side.gaps[k] for k in (rows.start, rows.stop)]
            for side, rows in ((self.found, gone), (self.old, change.old))
        )
        if change.old and change.new:
            n_above, n_below = (
                _gap_of_change(file[k], old[k], self.new.gaps[at], is_same_line=self._is_changed(change, k))
                for k, at in enumerate((above, below))
            )
            gaps = None if n_above is None or n_below is None else (n_above, n_below)
        elif change.new:
            quoted = _gap(self.old, change.old.start)
            gaps = _gaps_of_insertion(file[0], quoted, _gap(self.new, above), _gap(self.new, below))
        else:
            n = _gap_of_removal((file[0], file[1]), (old[0], old[1]), self.new.gaps[above])
            gaps = None if n is None else (n, 0)
        return None if gaps is None else _Told(gone, gaps[0], new, gaps[1])

    def _is_changed(self, change: _Change, at_end: int) -> bool:
        """Tell whether the first or last new line is the first or last old line with some words changed."""
        old, new = self.old.lines[change.old[-at_end]], self.new.lines[change.new[-at_end]]
        return fuzz.ratio(old.strip(), new.strip()) >= MIN_SIMILARITY

    def _gone(self, change: _Change) -> range | None:
        """Return the lines of the file that are removed; None if the file does not tell."""
        old = change.old
        edges = [block for block in self.blocks if {old.start, old.stop} & {block.quoted.start, block.quoted.stop}]
        sides = [self._side_of(block, change) for block in edges if not block.quoted]
        if None in sides or not all(block.is_clear for block in edges if block.quoted):
            return None
        if not old:
            return self._gap_of(old.start, edges, is_above=sides == [False])
        inside = [block for block in self.blocks if block.quoted.start < old.stop and old.start < block.quoted.stop]
        if inside[0].quoted.start == old.start and inside[-1].quoted.stop == old.stop:
            return range(inside[0].found.start, inside[-1].found.stop)
        return None if change.new or len(inside) > 1 or not inside[0].is_moved else self._moved(inside[0], old)

    def _gap_of(self, at: int, edges: Sequence[_Block], *, is_above: bool) -> range | None:
        """Return the gap of the file that corresponds to gap `at` of the quote; None if it lies among moved lines.

        `is_above`: the gap lies above the lines there that the quote leaves out.
        """
        if any(block.quoted.start < at < block.quoted.stop for block in self.blocks):
            return None
        left_out = next((block.found.start for block in edges if is_above and not block.quoted), None)
        above = next((block.found.stop for block in reversed(self.blocks) if block.quoted.stop <= at), 0)
        row = above if left_out is None else left_out
        return range(row, row)

    def _moved(self, block: _Block, old: range) -> range | None:
        """Return the lines of a moved block that correspond to lines `old` of the quote; None if they do not stand
        together."""
        texts = [self.found.lines[k].strip() for k in block.found]
        rows = sorted(block.found.start + texts.index(self.old.lines[k].strip()) for k in old)
        return range(rows[0], rows[-1] + 1) if rows == list(range(rows[0], rows[0] + len(old))) else None

    def _side_of(self, block: _Block, change: _Change) -> bool | None:
        """Tell whether lines that the quote leaves out beside a change belong to the line above them.

        The lines belong to one neighbour if blank lines separate them from the other neighbour, in the file and in the
        hunk.  The result is None if this does not decide.
        """
        at = block.quoted.start
        above, below = self.found.gaps[block.found.start], self.found.gaps[block.found.stop]
        is_parted = [self.new.gaps[k] > 0 for k in (change.new.start, change.new.stop)]
        if self.old.gaps[at] == 0 or (above > 0) == (below > 0):
            return None
        is_above = above == 0
        if change.old:
            is_outside = is_above if at == change.old.start else not is_above
            return is_above if is_outside and is_parted[at != change.old.start] else None
        return is_above if is_parted[0 if is_above else 1] else None

    def _written(self, change: _Change, gone: range) -> tuple[tuple[str, int | None], ...] | None:
        """Return what replaces the removed lines; None if the file does not tell."""
        old, lines = [self.old.lines[k] for k in change.old], [self.found.lines[k] for k in gone]
        new = tuple((self.reindent.apply(line.text), line.update_line) for line in change.added)
        if sorted(" ".join(text.split()) for text in old) == sorted(" ".join(text.split()) for text in lines):
            return new
        said = "\n".join(old), "\n".join(lines), "\n".join(text for text, _ in new)
        if accounts_for(*said):
            return new
        if len(old) == len(lines) == len(new):
            triples = zip(old, lines, new, strict=True)
            merged = [merge_words(self.reindent.apply(a).rstrip(), b, text.rstrip()) for a, b, (text, _) in triples]
            if None not in merged:
                return tuple((text or "", line) for text, (_, line) in zip(merged, new, strict=True))
        return new if only_misspells(*said) else None


# -- blank lines -------------------------------------------------------------------------------------------------------
class _Gap(NamedTuple):
    """The number of blank lines between two lines, and the indentation of the less indented of the two.

    `depth` is None at an end of the quote.
    """

    n: int
    depth: int | None


def _gap(side: _Side, at: int) -> _Gap:
    above, below = side.lines[at - 1 : at], side.lines[at : at + 1]
    return _Gap(side.gaps[at], min(len(leading(above[0])), len(leading(below[0]))) if above and below else None)


def _gaps_of_insertion(file: int, old: _Gap, above: _Gap, below: _Gap) -> tuple[int, int] | None:
    """Return the blank lines above and below new lines; None if the file does not tell.

    `file`: the number of blank lines where the new lines go.  `old`: the quote's gap there.  Of the gaps above and
    below the new lines, the one with the same depth as `old` is the gap that was there before.
    """
    ahead = file - old.n
    if ahead == 0:
        return above.n, below.n
    if old.depth is None:
        is_first = above.depth is None
        return (max(0, above.n + ahead), below.n) if is_first else (above.n, max(0, below.n + ahead))
    alike = [gap.depth == old.depth for gap in (above, below)]
    if (above.n > 0) != (below.n > 0):
        return None
    if alike[0] == alike[1]:
        return (max(above.n, file), max(below.n, file)) if ahead > 0 and above.n else None
    return (max(0, above.n + ahead), below.n) if alike[0] else (above.n, max(0, below.n + ahead))


def _gap_of_removal(file: tuple[int, int], old: tuple[int, int], new: int) -> int | None:
    """Return the number of blank lines that stay where lines are removed; None if the file does not tell.

    `file` and `old`: the numbers of blank lines above and below the removed lines.
    """
    if file == old or new == max(file):
        return new
    return file[0] if file[0] == file[1] and new == max(old) else None


def _gap_of_change(file: int, old: int, new: int, *, is_same_line: bool) -> int | None:
    """Return the number of blank lines beside lines that replace others; None if the file does not tell.

    `is_same_line`: the line there is an old line that was changed.
    """
    if file == old or new == file:
        return new
    return file if is_same_line and new == old else None
