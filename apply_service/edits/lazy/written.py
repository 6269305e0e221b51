"""Code written to its place: without the lines that stand there already, re-indented, with blank lines as around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apply_service.edits.code_lines import find_unit, indent_of, is_attached, is_definition
from apply_service.edits.lazy.fitting import Shift
from apply_service.edits.lazy.layout import Layout, is_import
from apply_service.edits.lazy.mentions import Role
from apply_service.edits.lazy.spans import Finder

Lines = tuple[tuple[int | None, str], ...]
"""Update line number (None for a blank line put in) and text."""


class Writer:
    """Writes one directive's block."""

    def __init__(self, layout: Layout, finder: Finder, block: Sequence[tuple[int, str]], language: str | None) -> None:
        self.layout, self.finder, self.block, self.language = layout, finder, block, language

    def write(self, start: int, end: int) -> tuple[int, int, Lines]:
        """The operation as lines, without those that stand at the place already."""
        if not any(text.strip() for _, text in self.block):
            return (*self._cut(start, end), ())
        block = list(self.block)
        if start == end:
            start, end, repeated = self._drop_repeated(start, block)
            if repeated and start == end:
                return start, end, ()
        else:
            repeats = self._repeats(start, block)
            start -= repeats
            tail = self._repeats_below(end, block)
            end += tail
        shift = self._shift(start, end, block)
        lines: list[tuple[int | None, str]] = [(i, shift.apply(text) if text.strip() else "") for i, text in block]
        if start == end:
            return self._with_gaps(start, lines)
        return start, end, tuple(lines)

    def _repeats(self, at: int, block: Sequence[tuple[int, str]]) -> int:
        """How many lines above `at` the block begins with."""
        lines, texts = self.layout.lines, [text.strip() for _, text in block]
        for k in range(min(len(texts) - 1, at, 8), 0, -1):
            if any(texts[:k]) and texts[0] and [line.strip() for line in lines[at - k : at]] == texts[:k]:
                return k
        return 0

    def _repeats_below(self, at: int, block: Sequence[tuple[int, str]]) -> int:
        lines, texts = self.layout.lines, [text.strip() for _, text in block]
        for k in range(min(len(texts) - 1, len(lines) - at, 8), 0, -1):
            same = [line.strip() for line in lines[at : at + k]] == texts[-k:]
            if same and texts[-1] and any(len(text) > 3 for text in texts[-k:]):
                return k
        return 0

    def _drop_repeated(self, at: int, block: list[tuple[int, str]]) -> tuple[int, int, bool]:
        above = self._repeats(self.layout.before_blanks(at), block)
        below = self._repeats_below(self.layout.after_blanks(at), block)
        if not above and not below:
            return at, at, False
        start = self.layout.before_blanks(at) - above if above else at
        end = self.layout.after_blanks(at) + below if below else at
        return start, end, True

    def _cut(self, start: int, end: int) -> tuple[int, int]:
        """What is deleted, with one of two runs of blank lines around it."""
        layout = self.layout
        above, below = layout.before_blanks(start), layout.after_blanks(end)
        if below >= len(layout.lines):
            return above, end
        if above < start and below > end:
            return (above, end) if below - end > start - above else (start, below)
        if start == 0 or (below > end and layout.opens(start - 1)):
            return start, below
        return start, end

    def _shift(self, start: int, end: int, block: Sequence[tuple[int, str]]) -> Shift:
        layout = self.layout
        texts = [text for _, text in block if text.strip()]
        shift = Shift()
        own, unit = find_unit(texts), layout.unit_of_indent
        if own is not None and unit is not None and ("\t" in own.text) != ("\t" in unit.text):
            shift = Shift(0, own.columns, unit.text)
        base = indent_of(shift.apply(texts[0]))
        if start < end:
            first = layout.after_blanks(start)
            return shift.moved(indent_of(layout.lines[first]) - base) if first < end else shift
        levels = self.layout.levels(start)
        anchors = [
            indent_of(layout.lines[s.line]) for s in self.finder.by_role(Role.AFTER, Role.BEFORE) if s.quality > 0.8
        ]
        inner = [
            indent_of(layout.lines[first])
            for _, first, last, q in self.finder.regions
            if q > 0.8 and first <= start <= last and first < last
        ]
        if base in levels and not (base == 0 and inner and min(inner) > 0 and start < layout.end):
            return shift
        wanted = next((level for level in (*anchors, *inner) if level in levels), max(levels, default=base))
        return shift.moved(wanted - base)

    def _with_gaps(self, at: int, lines: list[tuple[int | None, str]]) -> tuple[int, int, Lines]:
        """An insertion with the blank lines that neighbours have around them."""
        layout = self.layout
        above, below = layout.before_blanks(at), layout.after_blanks(at)
        gap = below - above
        wanted = self._gap(above, below, [text for _, text in lines])
        has_above, has_below = above > 0, below < len(layout.lines)
        opens = has_above and below < len(layout.lines) and layout.opens(above - 1)
        if not has_below:
            pad = wanted if has_above else 0
            return above, above, (*[(None, "")] * pad, *lines)
        closes = indent_of(layout.lines[below]) < indent_of(lines[0][1])
        if wanted and not opens and not (closes and gap >= wanted):
            before, after = wanted, (wanted if not closes else gap)
        elif wanted and opens and not closes:
            before, after = gap, wanted
        elif gap and (wanted or closes):
            before, after = (wanted, gap) if closes else (gap, wanted)
        else:
            before, after = (0, gap) if at <= above or self._is_after(above) else (gap, 0)
        if not has_above:
            before = 0
        # The blank lines that are there serve on one side, new ones are put in on the other.
        if gap >= after and after and before + after > 0:
            pad_before, place = before - (gap - after), below - after
            return place, place, (*[(None, "")] * max(pad_before, 0), *lines)
        place = above + min(before, gap)
        put_before = max(before - gap, 0)
        left = gap - min(before, gap)
        return place, place, (*[(None, "")] * put_before, *lines, *[(None, "")] * max(after - left, 0))

    def _is_after(self, above: int) -> bool:
        """Whether the block is told to stand after the line above the place (and not only before the one below)."""
        layout = self.layout
        return any(
            layout.before_blanks(point) == above
            for span in self.finder.by_role(Role.AFTER)
            for point in self.finder.after(span)[:3]
        )

    def _gap(self, above: int, below: int, texts: Sequence[str]) -> int:
        """Blank lines between the block and its neighbours."""
        layout = self.layout
        there = below - above if above and below < len(layout.lines) else 0
        if self.finder.words.blank is not None:
            return max(there, 1) if self.finder.words.blank else 0
        first = next(text for text in texts if text.strip())
        level = indent_of(first)
        if layout.is_prose:
            is_item = re.match(r"\s*(?:[-*+]|\d+[.)])\s|\s*\|", first)
            return 0 if is_item else 1
        solid = [text for text in texts if text.strip()]
        near = [layout.lines[j] for j in (above - 1, below) if 0 <= j < len(layout.lines)]
        if is_import(first) and not there and above == 0 and not any(is_import(line) for line in near):
            return self._usual_gap(level, there)
        is_long = len(solid) > 1 and not is_import(first)
        is_code = is_definition(next((text for text in solid if not is_attached(text)), first)) and is_long
        if is_code and (self.language not in ("yaml", "json", "toml") or first.startswith("[")):
            return self._usual_gap(level, there)
        siblings = [j for j in self._siblings(above, below, level) if layout.unit(j)[1] > j + 1]
        if (is_long or (is_definition(first) and not is_import(first))) and siblings:
            leads = [layout.lead(j) for j in siblings]
            return max(lead - layout.before_blanks(lead) for lead in leads)
        return 0

    def _siblings(self, above: int, below: int, level: int) -> list[int]:
        """The units at this level next to the place: above, where it is not the first, and below."""
        layout, found = self.layout, []
        j = above - 1
        while j >= 0 and indent_of(layout.lines[j]) > level:
            j = layout.parents[j]
        if j >= 0 and indent_of(layout.lines[j]) == level and not re.match(r"\s*[\])}]", layout.lines[j]):
            start = layout.lead(j)
            over = layout.before_blanks(start) - 1
            if over >= 0 and indent_of(layout.lines[over]) >= level:
                found.append(j)
        if (
            below < len(layout.lines)
            and above
            and indent_of(layout.lines[below]) == level
            and not layout.opens(above - 1)
        ):
            found.append(below)
        return found

    def _usual_gap(self, level: int, there: int) -> int:
        layout = self.layout
        gaps = [
            scope.lead_line - layout.before_blanks(scope.lead_line)
            for scope in layout.scopes
            if scope.lead_line
            and scope.kind in ("function", "method", "class", "module", "section")
            and indent_of(layout.lines[scope.header_line]) == level
        ]
        gaps = [gap for gap in gaps if gap]
        return max(set(gaps), key=gaps.count) if gaps else (there or 1)
