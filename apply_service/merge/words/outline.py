"""Outlines a file for directives: finds units of lines, and the places of the things that a directive names.

Units are statements, definitions, entries and paragraphs, with everything nested in them, as ranges of lines.  They
come from the grammar's scopes, or from indentation and brackets if there is no grammar.  Nothing is placed here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from apply_service.merge.words.directives import comment_text
from apply_service.merge.words.mentions import Mention, Relation, read_words
from apply_service.syntax.scopes import Scope, find_scopes
from apply_service.text.lines import (
    Unit,
    attached_start,
    balance,
    definition_end,
    find_unit,
    header_name,
    indent_of,
    is_import,
)

_GOES_ON = re.compile(r"\s*(?:\}\s*)?(?:else|elif|elsif|except|catch|finally|rescue|ensure)\b")
_CLOSES = re.compile(r"\s*(?:[\])}]|</)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s|\s*\||\s*#")
_NEW_ITEM = re.compile(r"\s*(?:[-*+#|]\s)")
_DOTS = re.compile(r"\.{3}|…")
_PATH = re.compile(r"[\w$]+(?:(?:\.|->|::| > |/)[\w$]+)+")
_PATH_SIGN = re.compile(r"\.|->|::| > |/")
_BEGINS = {
    "docstring": r"r?\"\"\"|'''|/\*\*",
    "decorator": r"@|#\[",
    "constructor": r"(?:async )?(?:def __init__|constructor\b)",
    "loop": r"(?:(?:async |await )?for(?:each)?|while|loop|until|do)\b|.{1,80}\.(?:forEach|each)\b",
}
"""How lines of a sort of code begin, if they do not begin with the sort's own name."""
_DECLARED = r"(?:(?:const|let|var|val|type|final|static|export|default|self\.|this\.)\s*)*"
MAX_LINE = 2000
MAX_SPANS = 10
MAX_STATEMENT = 30
"""Words may quote a statement in part only if it has at most this many lines."""
_LAST_COMMA = re.compile(r",([\])}])")
MAX_LINES = 200
"""At most this many lines with a mention are looked at."""


class FileOutline:
    """The lines of a file, and their grouping into units."""

    def __init__(self, lines: Sequence[str], language: str | None) -> None:
        self.lines, self.language = lines, language
        self.scopes = find_scopes("\n".join(lines), language)
        self.is_prose = language in ("markdown", "text", "rst")
        self.text = "\n".join(lines).lower()
        self.starts = list(accumulate((len(line) + 1 for line in self.text.split("\n")), initial=0))
        """The offset of each line in `text`."""
        self._units: dict[int, tuple[int, int]] = {}
        self._around: dict[int, list[tuple[int, int]]] = {}
        self._at_line: dict[int, Scope] = {}
        for scope in self.scopes:
            self._at_line.setdefault(scope.start_line, scope)
            self._at_line.setdefault(scope.header_line, scope)

    # -- lines -----------------------------------------------------------------------------------------------------
    @cached_property
    def indents(self) -> list[int]:
        """The number of columns before the first character of each line; a large number for a blank line."""
        return [indent_of(line) if line.strip() else 1000 for line in self.lines]

    @cached_property
    def unit_of_indent(self) -> Unit | None:
        """One level of the file's indentation."""
        return find_unit(self.lines)

    @property
    def end(self) -> int:
        """One past the last line with text."""
        return self.before_blanks(len(self.lines))

    def before_blanks(self, line: int) -> int:
        """Return `line`, moved up over blank lines."""
        while line > 0 and not self.lines[line - 1].strip():
            line -= 1
        return line

    @cached_property
    def solid_from(self) -> list[int]:
        """For each line (and for the end), the first line with text from there on."""
        found = [len(self.lines)]
        for j in range(len(self.lines) - 1, -1, -1):
            found.append(j if self.lines[j].strip() else found[-1])
        return found[::-1]

    @cached_property
    def _depths(self) -> list[int]:
        return list(accumulate((balance([line]) for line in self.lines), initial=0))

    def depth(self, start: int, end: int) -> int:
        """Return how many brackets lines [start, end) open and do not close."""
        return self._depths[end] - self._depths[start]

    def opens(self, line: int) -> bool:
        """Tell whether the next line with text is indented deeper."""
        below = self.solid_from[line + 1]
        return below < len(self.lines) and indent_of(self.lines[below]) > indent_of(self.lines[line])

    def levels(self, at: int) -> set[int]:
        """Return the indentations that a line at this place may have."""
        above, below = self.before_blanks(at) - 1, self.solid_from[at]
        floor = indent_of(self.lines[below]) if below < len(self.lines) else 0
        levels = {floor}
        while above >= 0:
            if (level := indent_of(self.lines[above])) >= floor:
                levels.add(level)
            above = self.parents[above]
        return levels

    def lines_with(self, phrase: str) -> Iterator[int]:
        """Yield the lines that have a phrase as whole words, regardless of upper and lower case."""
        wanted = " ".join(phrase.lower().split())
        at = 0
        while wanted and (at := self.text.find(wanted, at)) >= 0:
            last = at + len(wanted)
            goes_on = (_is_word(wanted[0]) and at and _is_word(self.text[at - 1])) or (
                _is_word(wanted[-1]) and last < len(self.text) and _is_word(self.text[last])
            )
            if goes_on:
                at += 1
                continue
            line = bisect_right(self.starts, at) - 1
            at = self.starts[line + 1]
            yield line

    def holds(self, phrase: str) -> bool:
        """Tell whether the file has a phrase as whole words."""
        return phrase.lower() in self.text and next(self.lines_with(phrase), None) is not None

    # -- units -----------------------------------------------------------------------------------------------------
    def scope_at(self, line: int) -> Scope | None:
        """Return the outermost scope that begins with this line or has its header there."""
        return self._at_line.get(line)

    def scopes_named(self, name: str) -> list[Scope]:
        """Return the scopes with that name in the same upper and lower case, or else in any case."""
        same = [scope for scope in self.scopes if scope.name == name]
        return same or [scope for scope in self.scopes if scope.name.lower() == name.lower()]

    def unit(self, line: int) -> tuple[int, int]:
        """Return the statement, definition, entry or paragraph that begins with `line`."""
        if line in self._units:
            return self._units[line]
        lines, scope = self.lines, self.scope_at(line)
        start, end = line, definition_end(lines, line, len(lines))
        if self._goes_on(line) and lines[end - 1].strip() in ("end", "fi"):
            end -= 1
        elif scope is not None:
            start, end = scope.start_line, max(scope.end_line, end if scope.kind in ("block", "element") else 0)
        elif self.is_prose and lines[line].strip():
            is_item = _ITEM.match(lines[line]) is not None
            while not is_item and end < len(lines) and lines[end].strip() and not _NEW_ITEM.match(lines[end]):
                end += 1
        elif lines[line].rstrip().endswith("\\"):
            while end < len(lines) and lines[end - 1].rstrip().endswith("\\"):
                end += 1
        self._units[line] = (start, end)
        return start, end

    def chain(self, start: int, end: int) -> int:
        """Return the end of a statement together with its further branches (else, except, ...)."""
        while True:
            follows = end < len(self.lines) and self._goes_on(end)
            is_branch = follows and indent_of(self.lines[end]) == indent_of(self.lines[start])
            if not is_branch and not (self._goes_on(end - 1) and self.opens(end - 1)):
                return end
            further = definition_end(self.lines, end if follows else end - 1, len(self.lines))
            if further <= end:
                return end
            end = further

    def _goes_on(self, line: int) -> bool:
        return _GOES_ON.match(self.lines[line][:MAX_LINE]) is not None

    def lead(self, start: int) -> int:
        """Return the first of the decorators and comments right above a unit."""
        scope = self.scope_at(start)
        if scope is not None:
            return scope.lead_line
        return start if self.is_prose else attached_start(self.lines, start, 0)

    @cached_property
    def parents(self) -> list[int]:
        """The nearest line above each line that is indented less; -1 if there is none."""
        parents, stack = [], [(-1, -1)]
        for j, line in enumerate(self.lines):
            is_solid = bool(line.strip())
            while is_solid and stack[-1][0] >= indent_of(line):
                stack.pop()
            parents.append(stack[-1][1])
            if is_solid and not _CLOSES.match(line[:MAX_LINE]):
                stack.append((indent_of(line), j))
        return parents

    def enclosing(self, line: int) -> list[tuple[int, int]]:
        """Return the units around a line, innermost first."""
        if line not in self._around:
            found = {(s.start_line, s.end_line) for s in self.scopes if s.header_line < line < s.end_line}
            parent, n = self.parents[line], 0
            while parent >= 0 and n < 12:
                found.add(self.unit(parent))
                parent, n = self.parents[parent], n + 1
            self._around[line] = sorted(found, key=lambda span: (span[1] - span[0], span[0]))
        return self._around[line]

    def body(self, start: int, end: int) -> tuple[int, int]:
        """Return the lines of a unit without its header and its closing line."""
        scope = self.scope_at(start)
        if scope is not None and scope.end_line == end and scope.body_start_line < scope.body_end_line:
            return scope.body_start_line, self.before_blanks(scope.body_end_line)
        last = end - 1 if end - 1 > start and _CLOSES.match(self.lines[end - 1][:MAX_LINE]) else end
        deeper = (j for j in range(start + 1, last) if indent_of(self.lines[j]) > indent_of(self.lines[start]))
        return next(deeper, start + 1), self.before_blanks(last)

    def after_units(self, start: int, end: int, number: int) -> int:
        """Return one past the given number of units from `start` on, but at most `end`."""
        at = start
        for _ in range(number):
            begin = self.solid_from[at]
            if begin >= end:
                break
            at = self.unit(begin)[1]
        return min(at, end)

    @cached_property
    def first_import(self) -> int:
        """The line of the first import at the top; 0 if there is none."""
        return next((j for j in range(self.last_import) if is_import(self.lines[j])), 0)

    @cached_property
    def last_import(self) -> int:
        """One past the line of the last import at the top; 0 if there is none."""
        found = 0
        for j, line in enumerate(self.lines):
            if is_import(line) and indent_of(line) == 0:
                found = definition_end(self.lines, j, len(self.lines))
            elif found and (scope := self.scope_at(j)) is not None and scope.kind in ("function", "class"):
                break
        return found


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


class MentionPlace(NamedTuple):
    """A place that a mention may mean: its line, the unit that the line opens or stands in, and how well the place
    fits."""

    line: int
    start: int
    end: int
    quality: float


class Finder:
    """Looks up the mentions of one directive in a file."""

    def __init__(self, layout: FileOutline, text: str) -> None:
        self.layout = layout
        self._worths: dict[tuple[Relation, int, int], dict[int, float]] = {}
        self.words = read_words(text, layout.holds)
        named = [mention for mention in self.words.mentions if mention.kind != "edge"]
        self.spans: dict[Mention, list[MentionPlace]] = {}
        for mention in sorted(named, key=lambda m: (m.relation is not Relation.WITHIN, m.kind == "sort")):
            self.spans[mention] = self._resolve(mention)

    def span(self, line: int, quality: float) -> MentionPlace:
        return MentionPlace(line, *self.layout.unit(line), quality)

    # -- where the mentions stand ----------------------------------------------------------------------------------
    def _resolve(self, mention: Mention) -> list[MentionPlace]:
        if mention.kind == "line":
            if mention.ordinal:
                said = self._scopes_said(Relation.WITHIN)
                low, high = self.layout.body(*said[0]) if said else (0, len(self.layout.lines))
                solid = [j for j in range(low, high) if self.layout.lines[j].strip()]
                k = mention.ordinal - (mention.ordinal > 0)
                return [MentionPlace(solid[k], solid[k], solid[k] + 1, 1.0)] if -len(solid) <= k < len(solid) else []
            first, _, last = mention.text.partition("-")
            a, b = int(first) - 1, int(last or first)
            return [MentionPlace(a, a, b, 1.0)] if 0 <= a < b <= len(self.layout.lines) else []
        lines = self.layout.lines
        if mention.kind == "sort":
            found = (j for j in range(len(lines)) if self._is_sort(j, mention.sort))
            spans = [self.span(j, 0.8) for j in islice(found, MAX_LINES)]
            spans = [s._replace(end=self.layout.chain(s.start, s.end)) for s in spans]
            inside = self._scopes_said(Relation.WITHIN) or self._scopes_said(Relation.TARGET)
            spans = [s for s in spans if any(a <= s.line < b for a, b in inside)] or spans
        else:
            spans = self._named(mention.text)
            if mention.sort:
                spans = [s._replace(quality=s.quality + 0.3 * self._is_sort(s.line, mention.sort)) for s in spans]
            if mention.kind == "code" and any(mention.text in lines[s.line] for s in spans):
                spans = [s._replace(quality=s.quality - 0.3 * (mention.text not in lines[s.line])) for s in spans]
            most = MAX_SPANS
            said = self._scopes_said(Relation.WITHIN) if mention.relation is not Relation.WITHIN else []
            here = {s.line for s in spans if any(a < s.line < b for a, b in said)}
            if here:
                spans = [s._replace(quality=s.quality - 0.4 * (s.line not in here)) for s in spans]
                most = max(MAX_SPANS, min(len(here), 3 * MAX_SPANS))
            if mention.relation in (Relation.TARGET, Relation.GONE) and any(s.quality > 0.9 for s in spans):
                spans = [s for s in spans if s.quality > 0.65]
            spans = sorted(spans, key=lambda span: -span.quality)[:most]
        if mention.ordinal and len(spans) > 1:
            # The mention's number picks one place.  The others stay possible, because the author may have counted
            # differently.
            spans = sorted(spans, key=lambda span: span.line)
            k = mention.ordinal - 1 if mention.ordinal > 0 else len(spans) - 1
            spans = [s._replace(quality=s.quality * (1.0 if i == k else 0.7)) for i, s in enumerate(spans)]
        return spans

    def _scopes_said(self, relation: Relation) -> list[tuple[int, int]]:
        """Return the units with a body that the mentions of a relation name."""
        named = [(m, spans) for m, spans in self.spans.items() if m.relation is relation]
        found = [spans for m, spans in named if m.kind == "code"] or [spans for _, spans in named]
        return [(s.start, s.end) for spans in found for s in spans if s.quality > 0.7 and s.end > s.line + 1]

    def _named(self, text: str) -> list[MentionPlace]:
        layout = self.layout
        plain = text.removesuffix("()").rstrip(":")
        found: dict[int, MentionPlace] = {}
        for scope in layout.scopes_named(plain.lstrip("#<@ ").rstrip("/> ")):
            end = layout.unit(scope.header_line)[1]
            found.setdefault(scope.header_line, MentionPlace(scope.header_line, scope.start_line, end, 1.0))
        for j in layout.lines_with(plain):
            span = self.span(j, self._prominence(j, plain))
            if j not in found or found[j].quality < span.quality:
                found[j] = span
            if len(found) >= MAX_LINES:
                break
        parts = [part.strip().lower() for part in _DOTS.split(text.rstrip("()")) if len(part.strip()) > 1]
        if not found and parts and (_DOTS.search(text) or "(" in text):
            for j in layout.lines_with(parts[0]):
                line = layout.lines[j].lower()
                if all(part in line or part.strip("})] ") == "" for part in parts[1:]):
                    found[j] = self.span(j, 0.9)
            found = found or {j: self.span(j, 0.9) for j in self._statements_with(parts)}
        is_path = re.search(r"\w(?:\.|->|::| > |/)\w", plain) is not None
        is_name = _PATH.fullmatch(plain) is not None
        if is_path and (not found or (is_name and not any(plain in layout.lines[j] for j in found))):
            # The text is a path: each name is looked for inside the thing that the previous name means.
            low, high, last = 0, len(layout.lines), None
            for name in _PATH_SIGN.split(plain):
                inside = [self.span(j, self._prominence(j, name)) for j in layout.lines_with(name) if low <= j < high]
                if inside:
                    last = max(inside, key=lambda span: (span.quality, -span.line))
                    low, high = last.line + (last.end > last.line + 1), last.end
            if last is not None:
                found = {j: span._replace(quality=span.quality - 0.4) for j, span in found.items()}
                found[last.line] = last._replace(quality=min(1.0, last.quality + 0.2))
        return list(found.values())

    def _statements_with(self, parts: Sequence[str]) -> Iterator[int]:
        """Yield the first line of each statement of several lines that has all parts, ignoring white space."""
        first = parts[0].split()[0]
        squeezed = ["".join(part.split()) for part in parts]
        for j, line in enumerate(self.layout.lines):
            start, end = self.layout.unit(j) if line.strip().lower().startswith(first) else (j, j)
            if 1 < end - start <= MAX_STATEMENT:
                text = "".join("".join(self.layout.lines[start:end]).lower().split())
                text = _LAST_COMMA.sub(r"\1", text)
                if text.startswith(squeezed[0].rstrip(",")) and all(part in text for part in squeezed[1:]):
                    yield j

    def _prominence(self, line: int, text: str) -> float:
        """Return how well a line fits the words.  From best to worst, it declares them, equals them, begins with them,
        or only contains them."""
        written = self.layout.lines[line].strip()
        name = header_name(self.layout.lines[line])
        if name is not None and name.lower() == text.lower():
            return 1.0 if name == text or text.islower() else 0.7
        is_comment = comment_text(written, self.layout.language) is not None
        bare = written.lower() if is_comment else written.lstrip("-*<@\"'`# ").lower()
        low = text.lower().lstrip("-*<@\"'`# ")
        if written.lower() == text.lower() or bare == low:
            return 1.0
        if re.match(rf"{_DECLARED}{re.escape(low)}(?!\w)", bare):
            return 0.9
        share = 0.2 * len(text) / max(len(written), 1)
        return 0.4 + share if is_comment else 0.6 + share + 0.1 * (is_import(written) or name is not None)

    def _is_sort(self, line: int, sort: str) -> bool:
        text = self.layout.lines[line].strip()
        if sort == "import":
            return is_import(text) or text.startswith(("import", '"'))
        if sort == "comment":
            return comment_text(text, self.layout.language) is not None
        return re.match(_BEGINS.get(sort, rf"(?:\}}\s*)?{re.escape(sort)}\b"), text) is not None

    # -- questions about the mentions ------------------------------------------------------------------------------
    def by_relation(self, *relations: Relation) -> list[MentionPlace]:
        return [span for mention, spans in self.spans.items() if mention.relation in relations for span in spans]

    @cached_property
    def regions(self) -> list[tuple[int, int, int, float]]:
        """The header line, body (first line, end) and quality of each scope that a mention names."""
        found: dict[tuple[int, int], tuple[int, int, int, float]] = {}

        def add(line: int, start: int, end: int, quality: float) -> None:
            if end > line + 1 and (start, end) not in found:
                found[start, end] = (line, *self.layout.body(start, end), quality)

        named = [(m, span) for m, spans in self.spans.items() if m.relation is Relation.WITHIN for span in spans]
        for mention, (line, start, end, quality) in sorted(named, key=lambda pair: pair[0].kind != "code"):
            if mention.kind == "words" and mention.text.islower() and " " not in mention.text:
                quality = 0.6 * quality
            add(line, start, end, quality)
            for k, (first, last) in enumerate(self.layout.enclosing(line)[:2]):
                add(first, first, last, quality * (0.8 - 0.2 * k))
        for span in self.by_relation(Relation.AFTER):
            add(span.line, span.start, span.end, span.quality * 0.6)
        return list(found.values())

    @cached_property
    def is_stretch(self) -> bool:
        """Whether the words name the beginning and the end of a stretch that is replaced or removed."""
        has_end = bool(self.by_relation(Relation.UNTIL, Relation.SHORT_OF))
        return has_end and bool(self.by_relation(Relation.TARGET, Relation.GONE))

    @cached_property
    def edges(self) -> list[Mention]:
        return [mention for mention in self.words.mentions if mention.kind == "edge"]

    def edge_of(self, edge: Mention, start: int, end: int) -> int:
        """Return the line for a thing that is to be the first, second, ... or last one in lines [start, end)."""
        return end if edge.ordinal < 0 else self.layout.after_units(start, end, edge.ordinal - 1)

    def after(self, span: MentionPlace) -> list[int]:
        """Return the lines at which something after the span may go, the likeliest first."""
        ends = [self.layout.chain(span.start, span.end), span.end, span.line + 1]
        return list(dict.fromkeys([*ends, *(end for _, end in self.layout.enclosing(span.line)[:4])]))

    def before(self, span: MentionPlace) -> list[int]:
        """Return the lines at which something before the span may go, the likeliest first."""
        starts = [self.layout.lead(span.start), span.start, span.line]
        around = (self.layout.lead(start) for start, _ in self.layout.enclosing(span.line)[:3])
        return list(dict.fromkeys([*starts, *around]))

    def worth(self, relation: Relation, span: MentionPlace) -> dict[int, float]:
        """Return how well each place after (or before) a span agrees with the relation.  A place's key is the first
        line with text from the place on."""
        key = (relation, span.start, span.line)
        if key not in self._worths:
            layout, found = self.layout, self._worths.setdefault(key, {})
            near = {span.end, span.start, span.line, layout.chain(span.start, span.end), layout.lead(span.start)}
            for k, point in enumerate(self.after(span) if relation is Relation.AFTER else self.before(span)):
                worth = 1.0 if point in near else 0.9 if point == span.line + 1 else 0.75 - 0.05 * min(k, 5)
                found.setdefault(layout.solid_from[point], worth)
        return self._worths[key]
