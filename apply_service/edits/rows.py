"""The alignment problem of a reading: where each shown line may stand in the original, and what leaving it new costs.

Between `reading` and `alignment`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from apply_service.edits.alignment import INSERT_COST, Row, Terrain
from apply_service.edits.candidates import NOTHING, Candidates, Kind, substance
from apply_service.edits.headers import attached_start, definition_end, header_name, is_closer
from apply_service.edits.indentation import indent_of
from apply_service.edits.reading import Reading
from apply_service.edits.snippet import Block, marker_indent

COPY_COST = 0.3
"""Leaving a line new that stands in the file."""
TWIN_COST = 1.0
"""The same for a line that says much and stands there once."""
MIN_SAYING = 0.8
EDGE_COST = 9.0
"""More where it is the first or last line of a block: that is what readers show to tell the place."""
SIGNPOST_COST = 60.0
"""More where the whole block stands in the file, once: it changes nothing and was shown to tell the place."""
NAMESAKE_WORTH = 0.7
"""A changed header that defines the same name."""
WHOLE_FILE_SHARE = 0.6
HELD_WORTH = 20.0
UNPAIRED_COST = 0.25
"""A closing line that does not close what its opener opens."""


class Rows:
    """Candidates of every visible line, by update line, and the rows made of them."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._texts = reading.texts
        self._orphans: set[int] = set()
        self._known = self._headers()
        new = self._lines_of_new_definitions()
        self.candidates = {i: NOTHING if i in new else self._find(i) for _, i in reading.visible}
        self._pair_closers()
        self._hold_whole_file()

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        previous: tuple[int, int] | None = None
        for b, i in self._reading.visible:
            gap = previous is None or previous[0] != b
            found = self.candidates[i]
            scope = self._scope_indent(previous, i) if gap else 0
            rows.append(Row(found.columns, found.scores, gap, scope, self._take_cost(b, i, found)))
            previous = (b, i)
        return rows

    def terrain(self) -> Terrain:
        return Terrain(self._reading.index.weights, self._reading.index.scope_indents)

    def admit(self, i: int) -> None:
        """Line i may stand wherever an equal line does, though it was taken for a line of a new definition."""
        if not len(self.candidates[i].columns):
            self.candidates[i] = self._reading.index.equal(self._texts[i])

    def _find(self, i: int) -> Candidates:
        index, text = self._reading.index, self._texts[i]
        for look in (index.equal, index.elided):
            found = look(text)
            if len(found.columns):
                return found
        namesakes = self._known.get(header_name(text) or "", [])
        return index.similar(text).joined(namesakes[:3], NAMESAKE_WORTH)

    def _headers(self) -> dict[str, list[int]]:
        """The original's definitions by name."""
        found: dict[str, list[int]] = {}
        for j, line in enumerate(self._reading.original):
            name = header_name(line)
            if name is not None:
                found.setdefault(name, []).append(j)
        return found

    def _hold_whole_file(self) -> None:
        """A snippet that repeats most of the file, without a marker, from its first to its last line, is the file."""
        reading = self._reading
        solid = [j for j, text in enumerate(reading.index.stripped) if text]
        if len(reading.snippet.blocks) != 1 or reading.snippet.has_markers or not solid:
            return
        shown = Counter(map(str.strip, reading.block_texts(0)))
        if (shown & Counter(reading.index.stripped[j] for j in solid)).total() < WHOLE_FILE_SHARE * len(solid):
            return
        for (_, i), j in ((reading.visible[0], solid[0]), (reading.visible[-1], solid[-1])):
            if self._texts[i].rstrip() == reading.original[j].rstrip():
                self.candidates[i] = NOTHING.joined([j], HELD_WORTH, Kind.SAME)

    # -- new definitions ---------------------------------------------------------------------------------------------
    def _lines_of_new_definitions(self) -> set[int]:
        """Lines of definitions that the original doesn't have: they match nothing."""
        new: set[int] = set()
        for b, block in enumerate(self._reading.snippet.blocks):
            texts = self._reading.block_texts(b)
            for k, text in enumerate(texts):
                name = header_name(text) if block.lines[k] not in new else None
                if name is None or name in self._known or self._reading.index.count(text):
                    continue
                end = definition_end(texts, k, len(texts))
                if end > k + 1 and not (end == len(texts) and self._is_cut_off(block, texts, k)):
                    new.update(block.lines[attached_start(texts, k, 0) : end])
        return new

    def _is_cut_off(self, block: Block, texts: Sequence[str], k: int) -> bool:
        """Whether the definition at the end of a block goes on in the original: nobody leaves out part of a new one."""
        last = texts[-1]
        if indent_of(last) == indent_of(texts[k]) and is_closer(last):
            return False
        if texts[k].rstrip().endswith(("{", "(", "[")):
            return True
        indent = marker_indent(self._reading.snippet, block.gap_after)
        return self._reading.index.count(last) == 1 or (indent is not None and indent > indent_of(texts[k]))

    # -- closing lines -----------------------------------------------------------------------------------------------
    def _pair_closers(self) -> None:
        """A closing line had better match the line that closes what its opener matches; that of new lines matches
        none.  Closers without an opener are noted."""
        open_at: list[tuple[int, int, int]] = []
        for b, i in self._reading.visible:
            indent = indent_of(self._texts[i])
            while open_at and open_at[-1][0] > indent:
                open_at.pop()
            closes = is_closer(self._texts[i])
            if open_at and open_at[-1][0] == indent and self._texts[i].strip() == "{":
                continue
            if open_at and open_at[-1][0] == indent:
                opener, block = open_at.pop()[1:]
                if closes and self._may_open(opener, i):
                    self._pair(opener, i, same_block=block == b)
                elif closes:
                    self._orphans.add(i)
            elif closes and (not open_at or open_at[-1][2] != b):
                self._orphans.add(i)
            open_at.append((indent, i, b))

    def _may_open(self, opener: int, closer: int) -> bool:
        """Whether the one line has the bracket that the other closes; words close anything."""
        bracket = {"}": "{", ")": "(", "]": "["}.get(self._texts[closer].strip()[:1])
        text = self._texts[opener].rstrip()
        if bracket is None:
            return text[-1:] not in (",", ";")
        return bracket in text and text.count(bracket) >= text.count(self._texts[closer].strip()[0])

    def _pair(self, opener: int, closer: int, *, same_block: bool) -> None:
        found = self.candidates[closer]
        ends = {self._reading.close_of(j) for j in self.candidates[opener].columns.tolist()}
        alone = not ends and same_block and not self._knows_between(opener, closer)
        self.candidates[closer] = NOTHING if alone else found.preferring(ends, UNPAIRED_COST)

    def _knows_between(self, opener: int, closer: int) -> bool:
        """Whether a line that says something stands between the two and in the file."""
        lines = (i for i in range(opener + 1, closer) if i in self.candidates)
        return any(self.candidates[i].is_exact and substance(self._texts[i].strip()) >= 0.4 for i in lines)

    @cached_property
    def _signposts(self) -> set[int]:
        """The blocks that are a run of the file's lines, found once, with a line that no other place has."""
        index, found = self._reading.index, set()
        for b in range(len(self._reading.snippet.blocks)):
            texts = [text.rstrip() for text in self._reading.block_texts(b)]
            alone = next((k for k, text in enumerate(texts) if text.strip() and index.count(text) == 1), None)
            if alone is None or max(map(substance, map(str.strip, texts))) <= MIN_SAYING:
                continue
            start = index.places(texts[alone])[0] - alone
            if start >= 0 and [line.rstrip() for line in index.lines[start : start + len(texts)]] == texts:
                found.add(b)
        return found

    # -- costs -------------------------------------------------------------------------------------------------------
    def _take_cost(self, b: int, i: int, found: Candidates) -> float:
        """A line that stands in the file is unlikely to be new, least of all at the edge of a block."""
        if not found.is_exact:
            return INSERT_COST
        lines = self._reading.snippet.blocks[b].lines
        says = substance(self._texts[i].strip())
        unique = len(found.columns) == 1 and says > MIN_SAYING
        cost = INSERT_COST + (TWIN_COST if unique else COPY_COST * says / len(found.columns))
        if i in (lines[0], lines[-1]):
            cost += EDGE_COST * (1.0 if i in self._orphans else 0.6 + 0.4 * says)
        return cost + SIGNPOST_COST * (b in self._signposts)

    def _scope_indent(self, previous: tuple[int, int] | None, i: int) -> int:
        """The least indentation that a skip before line i should keep to."""
        if previous is None:
            return 0
        here, above = indent_of(self._texts[i]), indent_of(self._texts[previous[1]])
        closes = is_closer(self._texts[i])
        if here > above or (here == above and closes):
            return above + 1
        return here + 1 if closes else here
