"""Where each hunk belongs, and how sure that is.

Between the parsers and `hunk_merge`.  A quote found once, as it stands, leaves no choice.  A quote found several times
is settled by what else the edit says, best first: its line number, its scopes, the hunks around it; what settles it
decides the certainty.  A quote not found is looked for as already replaced, then as misquoted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise

from apply_service.edits.code_lines import definition_end
from apply_service.edits.fuzzy_search import find_similar
from apply_service.edits.hunks import Hunk
from apply_service.edits.line_search import MAX_PLACES, FileLines, Likeness, Place
from apply_service.edits.nearest import nearest_lines
from apply_service.edits.trust import Trust
from apply_service.errors import NeedsMoreContext
from apply_service.types import Certainty

CLEAR_MARGIN = 0.08
"""A misquoted stretch whose second-best place scores closer than this is named ambiguous."""

MAX_SEARCHED = 20
"""Misquoted hunks that are looked for: each search reads the whole file."""


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    """A hunk and where it goes: its quote's place, or (for one without a quote) the gap before a line."""

    hunk: Hunk
    place: Place | None
    gap: int = 0

    @property
    def start(self) -> int:
        return self.gap if self.place is None else self.place.start

    @property
    def end(self) -> int:
        return self.gap if self.place is None else self.place.end


def place_hunks(file: FileLines, hunks: Sequence[Hunk], trust: Trust, *, is_ordered: bool) -> list[PlacedHunk]:
    """A place for every hunk, in the hunks' order.  `is_ordered`: the format puts hunks in the file's order.

    Raises:
        NeedsMoreContext: a hunk has no place, not even a probable one; names its anchor.
    """
    return _Placement(file, hunks, trust, is_ordered).run()


class _Placement:
    def __init__(self, file: FileLines, hunks: Sequence[Hunk], trust: Trust, is_ordered: bool) -> None:
        self._file = file
        self._hunks = hunks
        self._trust = trust
        self._is_ordered = is_ordered
        self._found = [file.find(hunk.old) for hunk in hunks]
        self._fixed: list[PlacedHunk | None] = [
            PlacedHunk(hunk, places[0]) if len(places) == 1 else None
            for hunk, places in zip(hunks, self._found, strict=True)
        ]
        self._above = 0
        """Where the hunks so far end."""
        self._below = self._starts_below()
        self._drift = 0
        """How far from its stated line the last hunk was found."""
        self._n_searched = 0

    def run(self) -> list[PlacedHunk]:
        placed: list[PlacedHunk] = []
        for k, hunk in enumerate(self._hunks):
            placed.append(self._fixed[k] or self._place(k, hunk))
            self._note_placed(placed[-1])
        self._judge(placed)
        return placed

    def _starts_below(self) -> list[int]:
        """For each hunk, where the first of those after it starts that leave no choice."""
        below = len(self._file) + 1
        starts = []
        for fixed in reversed(self._fixed):
            starts.append(below)
            below = below if fixed is None else min(below, fixed.start)
        return starts[::-1]

    def _note_placed(self, placed: PlacedHunk) -> None:
        self._above = max(self._above, placed.end)
        if placed.hunk.stated_line is not None:
            self._drift = placed.start - placed.hunk.stated_line

    def _place(self, k: int, hunk: Hunk) -> PlacedHunk:
        if not hunk.old:
            return self._place_unquoted(hunk)
        if self._found[k]:
            return PlacedHunk(hunk, self._choose(k, hunk, self._found[k]))
        return PlacedHunk(hunk, self._applied(hunk) or self._similar(hunk))

    # -- several places --------------------------------------------------------------------------------------------
    def _choose(self, k: int, hunk: Hunk, places: list[Place]) -> Place:
        if hunk.stated_line is not None and self._file.stands_at(hunk.old, hunk.stated_line):
            if not hunk.is_well_formed:
                self._trust.lower(Certainty.LIKELY, f"{hunk.label}: not unique, taken at the line it states")
            return Place(tuple(range(hunk.stated_line, hunk.stated_line + len(hunk.old))), Likeness.EXACT)
        if hunk.is_at_end and places[-1].end == len(self._file):
            return places[-1]
        scoped = self._in_scope(hunk, places)
        if len(scoped) == 1:
            if not hunk.scopes_bind:
                self._trust.lower(Certainty.LIKELY, f"{hunk.label}: not unique, settled by its heading")
            return scoped[0]
        return self._by_neighbours(k, hunk, scoped or places)

    def _in_scope(self, hunk: Hunk, places: list[Place]) -> list[Place]:
        scopes = self._scope_spans(hunk.scopes)
        if hunk.scopes and not scopes:
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: no scope {' > '.join(hunk.scopes)[:100]!r}")
        if len(scopes) > 1:
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: its scope is not unique")
        inside = [place for place in places if any(start <= place.start < end for start, end in scopes)]
        if inside or not scopes:
            return inside
        after = [place for place in places if place.start >= scopes[0][0]][:1]
        self._trust.lower(Certainty.LIKELY, f"{hunk.label}: not unique, taken below its scope's first line")
        return after

    def _scope_spans(self, scopes: Sequence[str]) -> list[tuple[int, int]]:
        spans = [(0, len(self._file))] if scopes else []
        for scope in scopes:
            named = ((row, end) for start, end in spans for row in self._rows(scope, start, end))
            spans = [(row, definition_end(self._file.lines, row, end)) for row, end in islice(named, MAX_PLACES)]
        return spans

    def _rows(self, scope: str, start: int, end: int) -> list[int]:
        """Lines that the scope names: equal, else beginning so, else holding it."""
        wanted = scope.strip()
        first = last = bisect_left(self._stripped, (wanted, start))
        while last < len(self._stripped) and self._stripped[last][0] == wanted and self._stripped[last][1] < end:
            last += 1
        if first < last:
            return [row for _, row in self._stripped[first:last]]
        first = last = bisect_left(self._stripped, (wanted,))
        while last < len(self._stripped) and self._stripped[last][0].startswith(wanted):
            last += 1
        beginning = sorted(row for _, row in self._stripped[first:last] if start <= row < end)
        return beginning or [row for row in range(start, end) if wanted in self._file.lines[row]]

    @cached_property
    def _stripped(self) -> list[tuple[str, int]]:
        """The file's lines without blanks around them, in order, with their rows."""
        return sorted((line.strip(), row) for row, line in enumerate(self._file.lines))

    def _by_neighbours(self, k: int, hunk: Hunk, places: list[Place]) -> Place:
        """The place that the hunks around leave; what else remains is a guess."""
        above, below = self._above, self._below[k]
        fitting = [place for place in places if above <= place.start and place.end <= below]
        if len(fitting) == 1:
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: not unique, settled by the order of the hunks")
            return fitting[0]
        rows = ", ".join(str(place.start + 1) for place in (fitting or places)[:5])
        self._trust.lower(Certainty.GUESS, f"{hunk.label}: its lines stand at several places (lines {rows})")
        return self._nearest(hunk, fitting or places)

    def _nearest(self, hunk: Hunk, places: list[Place]) -> Place:
        if hunk.stated_line is None:
            return places[0]
        expected = hunk.stated_line + self._drift
        return min(places, key=lambda place: abs(place.start - expected))

    # -- no place --------------------------------------------------------------------------------------------------
    def _place_unquoted(self, hunk: Hunk) -> PlacedHunk:
        """New lines alone: their place is what the edit states, if anything."""
        n_lines = len(self._file)
        if n_lines == 0:
            return PlacedHunk(hunk, None, 0)
        if hunk.stated_line is not None and hunk.stated_line <= n_lines:
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: no context, placed by its line number alone")
            return PlacedHunk(hunk, None, hunk.stated_line)
        if hunk.is_at_end:
            return PlacedHunk(hunk, None, n_lines)
        if hunk.scopes_bind and not hunk.scopes:
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: quotes no line, appended to the file")
            return PlacedHunk(hunk, None, n_lines)
        spans = self._scope_spans(hunk.scopes)
        if not spans:
            raise _needs_context(hunk, "it quotes no line of the file")
        self._trust.lower(Certainty.GUESS, f"{hunk.label}: no context, placed at the end of its scope")
        return PlacedHunk(hunk, None, spans[0][1])

    def _applied(self, hunk: Hunk) -> Place | None:
        places = self._file.find(hunk.new) if any(line.strip() for line in hunk.new) else []
        places = [place for place in places if place.likeness <= Likeness.TRAILING]
        if len(places) != 1:
            return None
        self._trust.lower(Certainty.GUESS, f"{hunk.label}: not found, but its result stands in the file already")
        return places[0]._replace(is_applied=True)

    def _similar(self, hunk: Hunk) -> Place:
        self._n_searched += 1
        if self._n_searched > MAX_SEARCHED:
            raise _needs_context(hunk, f"its lines are not in the file, nor are those of {MAX_SEARCHED} others")
        found = find_similar(self._file, hunk.old)
        if not found:
            raise _needs_context(hunk, "its lines are not in the file", nearest_lines(self._file.lines, hunk.old))
        shown = nearest_lines(self._file.lines, hunk.old)
        self._trust.lower(Certainty.GUESS, f"{hunk.label}: not found, taken at the most similar lines:\n{shown}")
        if len(found) > 1 and found[0].score - found[1].score < CLEAR_MARGIN:
            self._trust.note(f"{hunk.label}: several places are similar")
        return found[0].place

    # -- all placed ------------------------------------------------------------------------------------------------
    def _judge(self, placed: Sequence[PlacedHunk]) -> None:
        for p in placed:
            if p.hunk.scopes_bind and p.hunk.scopes and p.place is not None:
                self._judge_scopes(p.hunk)
            if p.place is not None and not p.place.is_applied:
                self._judge_likeness(p.hunk, p.place)
        if self._is_ordered and any(a.start > b.start for a, b in pairwise(placed)):
            self._trust.lower(Certainty.LIKELY, "the hunks are not in the file's order")

    def _judge_scopes(self, hunk: Hunk) -> None:
        """A scope that stands nowhere is no part of the file, however well the lines below it are found."""
        for scope in hunk.scopes:
            if not self._rows(scope, 0, len(self._file)):
                self._trust.lower(Certainty.LIKELY, f"{hunk.label}: no scope {scope[:100]!r}")

    def _judge_likeness(self, hunk: Hunk, place: Place) -> None:
        if place.likeness is Likeness.TRAILING and self._loses_blanks(hunk, place):
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: replaced lines end in blanks that it doesn't quote")
        elif place.likeness is Likeness.EDGES:
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: quotes blank lines that the file lacks")
        elif place.likeness in (Likeness.INDENTED, Likeness.FOLDED):
            what = "indentation" if place.likeness is Likeness.INDENTED else "blanks, quotes or dashes"
            self._trust.lower(Certainty.LIKELY, f"{hunk.label}: quoted with other {what}")

    def _loses_blanks(self, hunk: Hunk, place: Place) -> bool:
        old = [line for line in hunk.lines if line.kind != "add"]
        return any(
            line.kind == "remove" and row is not None and line.text.strip() and self._file.lines[row] != line.text
            for line, row in zip(old, place.rows, strict=True)
        )


def _needs_context(hunk: Hunk, why: str, nearest: str = "") -> NeedsMoreContext:
    told = f"; the nearest lines are:\n{nearest}" if nearest else ""
    return NeedsMoreContext(
        f"{hunk.label} has no place in the file: {why}{told}",
        value=hunk.anchor,
        remedy="quote the lines around the change exactly as they stand in the file",
    )
