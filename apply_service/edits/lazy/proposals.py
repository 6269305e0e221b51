"""What a directive may ask for: insertions next to what it names, replacements and deletions of it or of what is like
the code that comes with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rapidfuzz import fuzz

from apply_service.edits.code_lines import header_name, is_attached
from apply_service.edits.lazy.layout import is_import
from apply_service.edits.lazy.mentions import Role
from apply_service.edits.lazy.spans import Finder

MAX_BETWEEN = 4
"""Lines between two things that are replaced together."""


class Op(NamedTuple):
    """Original lines [start, end) give way to the block; nothing gives way to an insertion."""

    start: int
    end: int


_LABEL = re.compile(r"""\s*(?:[-*]\s+)?["']?(?P<name>[\w.$@-]{2,80})["']?\s{0,8}[:=(]""")


def label(line: str) -> str | None:
    """What a line declares, assigns or calls first."""
    name = header_name(line)
    if name is None and (match := _LABEL.match(line)) is not None:
        name = match["name"]
    return name


class Proposals:
    """Candidate operations for one block, unweighed."""

    def __init__(self, finder: Finder, texts: Sequence[str]) -> None:
        self.finder, self.layout = finder, finder.layout
        self.low, self.high = finder.low, finder.high
        self.size = len(texts)
        self.solid = [text for text in texts if text.strip()]
        self.key = next((text for text in self.solid if not is_attached(text)), self.solid[0] if self.solid else "")
        """The block's first line that is no comment or decorator."""

    def candidates(self) -> set[Op]:
        found: set[Op] = set()
        if self.solid:
            found |= set(self._insertions())
        found |= set(self._replacements())
        return {op for op in found if self.low <= op.start <= op.end <= self.high}

    def _insertions(self) -> Iterator[Op]:
        layout = self.layout
        for span in self.finder.by_role(Role.AFTER):
            for at in self.finder.after(span):
                yield Op(at, at)
        for span in self.finder.by_role(Role.BEFORE):
            for at in self.finder.before(span):
                yield Op(at, at)
        for _, start, end, _ in self.finder.regions:
            yield Op(start, start)
            yield Op(end, end)
            for edge in self.finder.edges:
                at = self.finder.edge_of(edge, start, end)
                yield Op(at, at)
        if self.finder.edges:
            yield Op(layout.end, layout.end)
            yield Op(0, 0)
        if any(mention.sort == "import" for mention in self.finder.words.mentions) or (
            self.solid and is_import(self.solid[0])
        ):
            yield Op(layout.last_import, layout.last_import)

    def _replacements(self) -> Iterator[Op]:
        spans = self.finder.by_role(Role.TARGET, Role.GONE)
        for span in spans:
            yield from self._extents(span.line)
            for start, end in self.layout.enclosing(span.line)[:2]:
                yield Op(start, end)
        yield from self._runs()
        for gone in self.finder.by_role(Role.GONE):
            for line in [span.line for span in self.finder.by_role(Role.TARGET)] + (
                self._like_first() if self.solid else []
            ):
                for start, end in list(self._extents(line)):
                    if max(start, gone.start) - min(end, gone.end) > MAX_BETWEEN:
                        continue
                    yield Op(min(start, gone.start), max(end, gone.end))
        for span in self.finder.by_role(Role.AFTER):
            for at in self.finder.after(span):
                below = self.layout.after_blanks(at)
                if below < len(self.layout.lines):
                    yield from self._extents(below)
            for other in self.finder.by_role(Role.BEFORE):
                if span.end <= other.start:
                    yield Op(self.layout.after_blanks(span.end), self.layout.before_blanks(other.start))
        for span in self.finder.by_role(Role.BEFORE):
            for at in self.finder.before(span):
                above = self.layout.before_blanks(at)
                if above > 0:
                    yield Op(above - 1, above)
                    yield Op(self._run_start(above - 1), above)
        for span in self.finder.by_role(Role.WITHIN):
            yield from self._extents(span.line)
        if self.solid:
            for line in self._like_first():
                yield from self._extents(line)
                yield from self._to_like_last(line)

    def _run_start(self, line: int) -> int:
        """The first of the lines of one sort (comments, decorators) that end with `line`."""
        lines = self.layout.lines
        while line > 0 and lines[line - 1].strip() and is_attached(lines[line - 1]) and is_attached(lines[line]):
            line -= 1
        return line

    def _extents(self, line: int) -> Iterator[Op]:
        """What may be meant by the thing that begins at a line: the line, its header, the whole, with what leads it."""
        layout = self.layout
        start, end = layout.unit(line)
        lead, chained = layout.lead(start), layout.chain(start, end)
        for first in {line, start, lead}:
            for last in {line + 1, end, chained, *self._header_ends(line)}:
                if first < last:
                    yield Op(first, last)
        if start > lead or (line > start):
            yield Op(start, line)

    def _header_ends(self, line: int) -> list[int]:
        scope = self.layout.scope_at(line)
        return [scope.body_start_line] if scope is not None else []

    def _runs(self) -> Iterator[Op]:
        """From one target to the next, where several are named or a stretch is."""
        targets = [
            (m, spans)
            for m, spans in self.finder.spans.items()
            if m.role in (Role.TARGET, Role.UNTIL, Role.GONE) and spans
        ]
        for k, (m, spans) in enumerate(targets):
            for later, others in targets[k + 1 :]:
                for one in spans[:5]:
                    for other in others[:5]:
                        first, second = (one, other) if one.line <= other.line else (other, one)
                        if Role.UNTIL not in (m.role, later.role) and second.start - first.end > MAX_BETWEEN:
                            continue
                        for start in {first.start, self.layout.lead(first.start)}:
                            yield Op(start, max(first.end, self.layout.chain(second.start, second.end)))
                            yield Op(start, second.line + 1)
        for mention, spans in targets:
            if mention.number > 1:
                for span in spans:
                    end = span.end
                    for _ in range(mention.number - 1):
                        below = self.layout.after_blanks(end)
                        end = self.layout.unit(below)[1] if below < len(self.layout.lines) else end
                    yield Op(span.start, end)

    def _search_range(self) -> Iterable[int]:
        """The lines that may be replaced: those of the scopes named, or all."""
        ranges = [(line, end) for line, _, end, quality in self.finder.regions if quality > 0.5]
        lines = self.layout.lines
        everything = range(self.low, min(self.high, len(lines)))
        if not ranges:
            return everything
        return sorted({j for start, end in ranges for j in range(start, min(end + 1, len(lines)))} & set(everything))

    def _like_first(self) -> list[int]:
        return list(
            dict.fromkeys(
                self._like(self.key, self._search_range()) + self._like(self.solid[0], self._search_range(), 3)
            )
        )

    def _like(self, text: str, within: Iterable[int], at_most: int = 5) -> list[int]:
        """The lines most like a text, the likest first."""
        wanted, name = text.strip()[:200], label(text)
        ranked = []
        for j in within:
            line = self.layout.lines[j]
            likeness = fuzz.ratio(wanted, line.strip()[:200], score_cutoff=55)
            is_same = name is not None and name in line and name == label(line)
            if likeness or is_same:
                ranked.append((-likeness - 20.0 * is_same, j))
        return [j for _, j in sorted(ranked)[:at_most]]

    def _to_like_last(self, line: int) -> Iterator[Op]:
        """From a line down to the one that is most like the block's last."""
        if len(self.solid) > 1:
            end = min(len(self.layout.lines), line + 3 * self.size + 20)
            for last in self._like(self.solid[-1], range(line + 1, end), 3):
                yield Op(line, last + 1)
