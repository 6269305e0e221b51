"""Where the code of a directive goes: candidate operations are scored by how they agree with what the directive says.

`Search` resolves the mentions to spans of the file, proposes insertions, replacements and deletions next to them, and
scores each; `place` gives the best ones, `merge_placed` whole snippets that are made of directives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from apply_service.edits.headers import header_name, is_attached, is_definition
from apply_service.edits.indentation import Shift, find_unit, indent_of
from apply_service.edits.lazy.directives import Directive, comment_text, find_directives
from apply_service.edits.lazy.layout import Layout, depth, is_import
from apply_service.edits.lazy.mentions import Mention, Role, Words, read_words
from apply_service.edits.markers import Role as LineRole
from apply_service.edits.markers import classify
from apply_service.syntax.scopes import Scope, find_scopes
from apply_service.types import LineOp

MAX_SPANS = 10
MAX_BETWEEN = 4
"""Lines between two things that are replaced together."""
MAX_WEIGHED = 80
"""Candidates that are looked at closely, those that agree best with the words."""
MAX_PLACED = 4
MIN_SCORE = 2.0
MAX_COMPARED = 1500
"""Characters of a text that is compared with another."""
WEIGHTS = {Role.TARGET: 3.0, Role.GONE: 2.0, Role.AFTER: 3.0, Role.BEFORE: 3.0, Role.WITHIN: 2.0, Role.UNTIL: 2.0}


class Placed(NamedTuple):
    """One way to do what a directive says."""

    directive: Directive
    start: int
    end: int
    """Original lines [start, end) give way ..."""
    lines: tuple[tuple[int | None, str], ...]
    """... to these: update line number (None for a blank line put in) and the text, re-indented."""
    score: float
    features: dict[str, float]
    reason: str


class _Span(NamedTuple):
    """A mention found: its line, the unit it opens or stands in, and how well it fits."""

    line: int
    start: int
    end: int
    quality: float


class _Op(NamedTuple):
    """Original lines [start, end) give way to the block; nothing gives way to an insertion."""

    start: int
    end: int


_LABEL = re.compile(r"""\s*(?:[-*]\s+)?["']?(?P<name>[\w.$@-]{2,80})["']?\s{0,8}[:=(]""")


def _label(line: str) -> str | None:
    """What a line declares, assigns or calls first."""
    name = header_name(line)
    if name is None and (match := _LABEL.match(line)) is not None:
        name = match["name"]
    return name


class Search:
    """One directive's search."""

    def __init__(self, layout: Layout, directive: Directive, update: Sequence[str], language: str | None, low: int, high: int) -> None:
        self.layout, self.directive, self.language = layout, directive, language
        self.low, self.high = low, high
        self.block = [(i, update[i]) for i in directive.block]
        self.texts = [text for _, text in self.block]
        self.solid = [text for text in self.texts if text.strip()]
        self.key = next((text for text in self.solid if not is_attached(text)), self.solid[0] if self.solid else "")
        """The block's first line that is no comment or decorator."""
        self.block_depth = depth(self.texts)
        self.words: Words = read_words(directive.text, self._stands)
        self._worths: dict[tuple[Role, int, int], dict[int, float]] = {}
        self._points: dict[tuple[Role, int, int], list[int]] = {}
        named = sorted((m for m in self.words.mentions if m.kind != "edge"), key=lambda m: (m.role is not Role.WITHIN, m.kind == "sort"))
        self.spans: dict[Mention, list[_Span]] = {}
        for mention in named:
            self.spans[mention] = self._resolve(mention)

    def _stands(self, phrase: str) -> bool:
        return phrase.lower() in self.layout.text and next(self._lines_with(phrase), None) is not None

    # -- mentions ----------------------------------------------------------------------------------------------------
    def _lines_with(self, phrase: str) -> Iterator[int]:
        """The lines that hold a phrase as whole words, small and capital letters alike."""
        pattern = re.escape(" ".join(phrase.lower().split()))
        edge_before, edge_after = phrase[:1].isalnum() or phrase[:1] == "_", phrase[-1:].isalnum() or phrase[-1:] == "_"
        found = re.compile((r"(?<!\w)" if edge_before else "") + pattern + (r"(?!\w)" if edge_after else ""))
        low, high = self.layout.starts[self.low], self.layout.starts[min(self.high, len(self.layout.lines))]
        last = -1
        for match in found.finditer(self.layout.text, low, high):
            line = self.layout.line_at(match.start())
            if line != last:
                last = line
                yield line

    def _resolve(self, mention: Mention) -> list[_Span]:
        if mention.kind == "line":
            first, _, last = mention.text.partition("-")
            a, b = int(first) - 1, int(last or first)
            return [_Span(a, a, b, 1.0)] if 0 <= a < b <= len(self.layout.lines) else []
        if mention.kind == "sort":
            spans = [self._span(j, 0.8) for j in self._of_sort(mention.sort)]
            inside = self._scopes_said(Role.WITHIN) or self._scopes_said(Role.TARGET)
            return self._pick([s for s in spans if any(a <= s.line < b for a, b in inside)] or spans, mention)
        spans = self._named(mention.text)
        if mention.sort:
            spans = [s._replace(quality=s.quality + 0.3 * self._is_sort(s.line, mention.sort)) for s in spans]
        if mention.kind == "code" and any(mention.text in self.layout.lines[s.line] for s in spans):
            spans = [s._replace(quality=s.quality - 0.3 * (mention.text not in self.layout.lines[s.line])) for s in spans]
        if mention.role is not Role.WITHIN:
            inside = self._scopes_said(Role.WITHIN)
            if any(a <= s.line < b for s in spans for a, b in inside):
                spans = [s._replace(quality=s.quality - 0.4 * (not any(a <= s.line < b for a, b in inside))) for s in spans]
        if mention.role in (Role.TARGET, Role.GONE) and any(s.quality > 0.9 for s in spans):
            spans = [s for s in spans if s.quality > 0.65]
        spans.sort(key=lambda span: -span.quality)
        return self._pick(spans[:MAX_SPANS], mention)

    def _scopes_said(self, role: Role) -> list[tuple[int, int]]:
        """The units with a body that mentions of a role name."""
        named = [(m, spans) for m, spans in self.spans.items() if m.role is role]
        found = [spans for m, spans in named if m.kind == "code"] or [spans for _, spans in named]
        return [(s.start, s.end) for spans in found for s in spans if s.quality > 0.7 and s.end > s.line + 1]

    def _pick(self, spans: list[_Span], mention: Mention) -> list[_Span]:
        """With an ordinal, the one that it counts; the others stay possible where counting may have been different."""
        if mention.ordinal and spans:
            spans = sorted(spans, key=lambda span: span.line)
            k = mention.ordinal - 1 if mention.ordinal > 0 else len(spans) - 1
            spans = [s._replace(quality=s.quality * (1.0 if i == k else 0.7)) for i, s in enumerate(spans)]
        return spans

    def _named(self, text: str) -> list[_Span]:
        layout = self.layout
        plain = text.removesuffix("()").rstrip(":")
        found: dict[int, _Span] = {}

        def add(span: _Span) -> None:
            if span.line not in found or found[span.line].quality < span.quality:
                found[span.line] = span

        for scope in layout.scopes_named(plain.lstrip("#<@ ").rstrip("/> ")):
            if self.low <= scope.start_line < self.high:
                add(_Span(scope.header_line, scope.start_line, layout.unit(scope.header_line)[1], 1.0))
        for j in self._lines_with(plain):
            add(self._span(j, self._prominence(j, plain)))
            if len(found) >= 200:
                break
        if not found and re.search(r"\.{3}|…|\(", text):
            parts = [part.strip().lower() for part in re.split(r"\.{3}|…", text.rstrip("()")) if len(part.strip()) > 1]
            for j in self._lines_with(parts[0]) if parts else ():
                line = layout.lines[j].lower()
                if all(part in line or part.strip("})] ") == "" for part in parts[1:]):
                    add(self._span(j, 0.9))
        if not found and re.search(r"\w(?:\.|->|::| > |/)\w", plain):
            self._follow_path(re.split(r"\.|->|::| > |/", plain), add)
        return list(found.values())

    def _follow_path(self, names: Sequence[str], add) -> None:  # type: ignore[no-untyped-def]
        low, high, last = self.low, self.high, None
        for name in names:
            spans = [s for s in (self._span(j, self._prominence(j, name)) for j in self._lines_with(name)) if low <= s.line < high]
            if spans:
                last = max(spans, key=lambda span: (span.quality, -span.line))
                low, high = last.line + (last.end > last.line + 1), last.end
        if last is not None:
            add(last._replace(quality=min(1.0, last.quality + 0.2)))

    def _span(self, line: int, quality: float) -> _Span:
        start, end = self.layout.unit(line)
        return _Span(line, start, end, quality)

    def _prominence(self, line: int, text: str) -> float:
        """How much a line is what the words name: it declares it, is it, begins with it, or only holds it."""
        written = self.layout.lines[line].strip()
        name = header_name(self.layout.lines[line])
        if name is not None and name.lower() == text.lower():
            return 1.0
        bare = written.lstrip("-*<@\"'`# ").lower() if comment_text(written, self.language) is None else written.lower()
        low = text.lower().lstrip("-*<@\"'`# ")
        if written.lower() == text.lower() or bare == low:
            return 1.0
        if re.match(rf"(?:(?:const|let|var|val|type|final|static|export|default|self\.|this\.)\s*)*{re.escape(low)}(?!\w)", bare):
            return 0.9
        share = 0.2 * len(text) / max(len(written), 1)
        if comment_text(written, self.language) is not None:
            return 0.4 + share
        return 0.6 + share + 0.1 * (is_import(written) or name is not None)

    def _is_sort(self, line: int, sort: str) -> bool:
        text = self.layout.lines[line].strip()
        if sort == "import":
            return is_import(text) or text.startswith(("import", '"'))
        if sort == "comment":
            return comment_text(text, self.language) is not None
        if sort == "docstring":
            return text.startswith(('"""', "'''", 'r"""', "/**"))
        if sort == "decorator":
            return text.startswith(("@", "#["))
        if sort == "constructor":
            return re.match(r"(?:async )?(?:def __init__|constructor\b)", text) is not None
        return re.match(rf"(?:\}}\s*)?{re.escape(sort)}\b", text) is not None

    def _of_sort(self, sort: str) -> list[int]:
        found = [j for j in range(self.low, min(self.high, len(self.layout.lines))) if self._is_sort(j, sort)]
        return found[:200]

    # -- candidates --------------------------------------------------------------------------------------------------
    def _by_role(self, *roles: Role) -> list[_Span]:
        return [span for mention, spans in self.spans.items() if mention.role in roles for span in spans]

    @cached_property
    def regions(self) -> list[tuple[int, int, int, float]]:
        """What the mentions of scope enclose: header line, body, quality."""
        found: dict[tuple[int, int], tuple[int, int, int, float]] = {}

        def add(line: int, start: int, end: int, quality: float) -> None:
            if end > line + 1 and (start, end) not in found:
                found[start, end] = (line, *self.layout.body(start, end), quality)

        named = [(m, span) for m, spans in self.spans.items() if m.role is Role.WITHIN for span in spans]
        for mention, span in sorted(named, key=lambda pair: pair[0].kind != "code"):
            if mention.kind == "words" and " " not in mention.text:
                span = span._replace(quality=0.6 * span.quality)
            add(span.line, span.start, span.end, span.quality)
            for k, (start, end) in enumerate(self.layout.enclosing(span.line)[:2]):
                add(start, start, end, span.quality * (0.8 - 0.2 * k))
        for span in self._by_role(Role.AFTER):
            add(span.line, span.start, span.end, span.quality * 0.6)
        return list(found.values())

    @cached_property
    def is_stretch(self) -> bool:
        """Whether the words say where the stretch that gives way begins and where it ends."""
        return bool(self._by_role(Role.UNTIL)) and bool(self._by_role(Role.TARGET, Role.GONE))

    @cached_property
    def edges(self) -> list[Mention]:
        return [mention for mention in self.words.mentions if mention.kind == "edge"]

    def candidates(self) -> set[_Op]:
        found: set[_Op] = set()
        if self.solid:
            found |= set(self._insertions())
        found |= set(self._replacements())
        return {op for op in found if self.low <= op.start <= op.end <= min(self.high, len(self.layout.lines))}

    def _insertions(self) -> Iterator[_Op]:
        layout = self.layout
        for span in self._by_role(Role.AFTER):
            for at in self._after(span):
                yield _Op(at, at)
        for span in self._by_role(Role.BEFORE):
            for at in self._before(span):
                yield _Op(at, at)
        for _, start, end, _ in self.regions:
            yield _Op(start, start)
            yield _Op(end, end)
        if self.edges:
            yield _Op(layout.end, layout.end)
            yield _Op(0, 0)
        if any(mention.sort == "import" for mention in self.words.mentions) or (self.solid and is_import(self.solid[0])):
            yield _Op(layout.last_import, layout.last_import)

    def _after(self, span: _Span) -> list[int]:
        """Where something after the span may go, the likeliest first."""
        key = (Role.AFTER, span.start, span.line)
        if key not in self._points:
            self._points[key] = self._after_points(span)
        return self._points[key]

    def _worth(self, role: Role, span: _Span) -> dict[int, float]:
        """How well the places after (or before) a span agree with it, by the first line with text from there on."""
        key = (role, span.start, span.line)
        if key not in self._worths:
            points = self._after(span) if role is Role.AFTER else self._before(span)
            near = {span.end, span.start, span.line, self.layout.chain(span.start, span.end), self.layout.lead(span.start)}
            self._worths[key] = {}
            for k, point in enumerate(points):
                worth = 1.0 if point in near else 0.9 if point == span.line + 1 else 0.75 - 0.05 * min(k, 5)
                self._worths[key].setdefault(self.layout.solid_from[point], worth)
        return self._worths[key]

    def _after_points(self, span: _Span) -> list[int]:
        ends = [self.layout.chain(span.start, span.end), span.end, span.line + 1]
        return list(dict.fromkeys([*ends, *(end for _, end in self.layout.enclosing(span.line)[:4])]))

    def _before(self, span: _Span) -> list[int]:
        """Where something before the span may go, the likeliest first."""
        key = (Role.BEFORE, span.start, span.line)
        if key not in self._points:
            self._points[key] = self._before_points(span)
        return self._points[key]

    def _before_points(self, span: _Span) -> list[int]:
        starts = [self.layout.lead(span.start), span.start, span.line]
        return list(dict.fromkeys([*starts, *(self.layout.lead(start) for start, _ in self.layout.enclosing(span.line)[:3])]))

    def _replacements(self) -> Iterator[_Op]:
        spans = self._by_role(Role.TARGET, Role.GONE)
        for span in spans:
            yield from self._extents(span.line)
            for start, end in self.layout.enclosing(span.line)[:2]:
                yield _Op(start, end)
        yield from self._runs()
        for gone in self._by_role(Role.GONE):
            for line in [span.line for span in self._by_role(Role.TARGET)] + (self._like_first() if self.solid else []):
                for start, end in list(self._extents(line)):
                    if max(start, gone.start) - min(end, gone.end) > MAX_BETWEEN:
                        continue
                    yield _Op(min(start, gone.start), max(end, gone.end))
        for span in self._by_role(Role.AFTER):
            for at in self._after(span):
                below = self.layout.after_blanks(at)
                if below < len(self.layout.lines):
                    yield from self._extents(below)
            for other in self._by_role(Role.BEFORE):
                if span.end <= other.start:
                    yield _Op(self.layout.after_blanks(span.end), self.layout.before_blanks(other.start))
        for span in self._by_role(Role.BEFORE):
            for at in self._before(span):
                above = self.layout.before_blanks(at)
                if above > 0:
                    yield _Op(above - 1, above)
                    yield _Op(self.layout.parents[above - 1] if False else self._run_start(above - 1), above)
        for span in self._by_role(Role.WITHIN):
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

    def _extents(self, line: int) -> Iterator[_Op]:
        """What may be meant by the thing that begins at a line: the line, its header, the whole, with what leads it."""
        layout = self.layout
        start, end = layout.unit(line)
        lead, chained = layout.lead(start), layout.chain(start, end)
        for first in {line, start, lead}:
            for last in {line + 1, end, chained, *self._header_ends(line)}:
                if first < last:
                    yield _Op(first, last)
        if start > lead or (line > start):
            yield _Op(start, line)

    def _header_ends(self, line: int) -> list[int]:
        scope = self.layout.scope_at(line)
        return [scope.body_start_line] if scope is not None else []

    def _runs(self) -> Iterator[_Op]:
        """From one target to the next, where several are named or a stretch is."""
        targets = [(m, spans) for m, spans in self.spans.items() if m.role in (Role.TARGET, Role.UNTIL, Role.GONE) and spans]
        for k, (m, spans) in enumerate(targets):
            for later, others in targets[k + 1 :]:
                for one in spans[:5]:
                    for other in others[:5]:
                        first, second = (one, other) if one.line <= other.line else (other, one)
                        if Role.UNTIL not in (m.role, later.role) and second.start - first.end > MAX_BETWEEN:
                            continue
                        for start in {first.start, self.layout.lead(first.start)}:
                            yield _Op(start, max(first.end, self.layout.chain(second.start, second.end)))
                            yield _Op(start, second.line + 1)
        for mention, spans in targets:
            if mention.count > 1:
                for span in spans:
                    end = span.end
                    for _ in range(mention.count - 1):
                        below = self.layout.after_blanks(end)
                        end = self.layout.unit(below)[1] if below < len(self.layout.lines) else end
                    yield _Op(span.start, end)

    def _search_range(self) -> Iterable[int]:
        """The lines that may be replaced: those of the scopes named, or all."""
        ranges = [(line, end) for line, _, end, quality in self.regions if quality > 0.5]
        lines = self.layout.lines
        everything = range(self.low, min(self.high, len(lines)))
        if not ranges:
            return everything
        return sorted({j for start, end in ranges for j in range(start, min(end + 1, len(lines)))} & set(everything))

    def _like_first(self) -> list[int]:
        return list(dict.fromkeys(self._like(self.key, self._search_range()) + self._like(self.solid[0], self._search_range(), 3)))

    def _like(self, text: str, within: Iterable[int], at_most: int = 5) -> list[int]:
        """The lines most like a text, the likest first."""
        wanted, name = text.strip()[:200], _label(text)
        ranked = []
        for j in within:
            line = self.layout.lines[j]
            likeness = fuzz.ratio(wanted, line.strip()[:200], score_cutoff=55)
            is_same = name is not None and name in line and name == _label(line)
            if likeness or is_same:
                ranked.append((-likeness - 20.0 * is_same, j))
        return [j for _, j in sorted(ranked)[:at_most]]

    def _to_like_last(self, line: int) -> Iterator[_Op]:
        """From a line down to the one that is most like the block's last."""
        if len(self.solid) > 1:
            end = min(len(self.layout.lines), line + 3 * len(self.texts) + 20)
            for last in self._like(self.solid[-1], range(line + 1, end), 3):
                yield _Op(line, last + 1)

    # -- score -------------------------------------------------------------------------------------------------------
    def ranked(self) -> list[tuple[float, _Op, dict[str, float]]]:
        """The candidates with their scores, best first."""
        agreeing = sorted(((*self._agree(op), op) for op in self.candidates()), key=lambda item: (-item[0], item[2]))
        weighed = []
        for score, features, op in agreeing[:MAX_WEIGHED]:
            likeness = features["likeness"] = self._likeness(op)
            if op.start < op.end and self.solid:
                score += 3.0 * (likeness - 0.4) * (0.5 if self.is_stretch else 1.0)
            weighed.append((score + self._form_score(op), op, features))
        return sorted(weighed, key=lambda item: (-item[0], item[1]))

    def _agree(self, op: _Op) -> tuple[float, dict[str, float]]:
        """How far an operation agrees with the words."""
        is_insert = op.start == op.end
        features: dict[str, float] = {"found": 0.0, "missing": 0.0, "agreement": 0.0}
        total = 0.0
        has_target = bool(self._by_role(Role.TARGET))
        for mention, spans in self.spans.items():
            weight = WEIGHTS.get(mention.role, 0.0)
            if not weight:
                continue
            if not spans:
                features["missing"] += mention.kind == "code"
                continue
            if mention.kind == "words" and " " not in mention.text:
                weight *= 0.6 if mention.sort == "" else 0.8
            agreement = max(self._agreement(mention.role, op, span) for span in spans)
            if mention.count > 1 and mention.kind == "sort":
                agreement *= min(1.0, sum(op.start <= span.line < op.end for span in spans) / mention.count)
            features["found"] += 1
            features["agreement"] += agreement
            total += weight * agreement
        total += self._edge_score(op) * (1.0 if is_insert else 0.5)
        total += self._kind_score(is_insert, has_target)
        return total, features

    def _agreement(self, role: Role, op: _Op, span: _Span) -> float:
        if role is Role.AFTER:
            return self._adjacent(self._worth(Role.AFTER, span), op.start, op.start >= span.line + 1) * span.quality
        if role is Role.BEFORE:
            return self._adjacent(self._worth(Role.BEFORE, span), op.end, op.end <= span.line) * span.quality
        if role is Role.WITHIN and is_import(self.layout.lines[span.line]):
            is_near = op.start == op.end and op.start in (span.start, span.end)
            return (1.0 if is_near else self._inside(op, span)) * span.quality
        if role is Role.WITHIN:
            return self._inside(op, span) * span.quality
        if role is Role.UNTIL:
            return span.quality if op.start < span.line < op.end and op.end <= max(span.end, span.line + 1) else 0.0
        if op.start <= span.line < op.end:
            exact = op.start in (span.start, span.line) and op.end in (span.end, span.line + 1)
            if self.is_stretch and role is Role.TARGET and op.start not in (span.start, span.line):
                return 0.5 * span.quality
            return span.quality * (1.0 + 0.1 * exact)
        return 0.0

    def _adjacent(self, points: dict[int, float], at: int, is_right_side: bool) -> float:
        """1 where the place is next to the point, blank lines aside; little for the right side alone."""
        found = points.get(self.layout.solid_from[at])
        return found if found is not None else 0.15 if is_right_side else -0.4

    def _inside(self, op: _Op, span: _Span) -> float:
        is_insert = op.start == op.end
        best = 0.0
        if span.end > span.line + 1 and span.start <= op.start and op.end <= span.end:
            best = 1.0 if not is_insert or op.start > span.line else 0.0
        elif not is_insert and op.start <= span.line < op.end:
            best = 0.6
        if best < 0.8:
            for k, (start, end) in enumerate(self.layout.enclosing(span.line)[:2]):
                if start <= op.start and op.end <= end and (not is_insert or op.start > start):
                    best = max(best, 0.8 - 0.2 * k)
        return best

    def _edge_score(self, op: _Op) -> float:
        """How far an insertion is at the edge that is spoken of."""
        total, solid_from = 0.0, self.layout.solid_from
        for edge in self.edges:
            bodies = [(start, end, quality) for _, start, end, quality in self.regions]
            bodies.append((0, self.layout.end, 0.4 if bodies else 0.8))
            points = [(start if edge.ordinal > 0 else end, quality) for start, end, quality in bodies]
            side = op.start if edge.ordinal > 0 else op.end
            total += 1.5 * max((q for at, q in points if solid_from[at] == solid_from[side]), default=0.0)
        return min(total, 2.0)

    def _kind_score(self, is_insert: bool, has_target: bool) -> float:
        words = self.words
        if not self.solid:
            return 0.0
        if words.replaces or has_target or words.head_only:
            return -2.0 if is_insert else 0.5
        if words.inserts and not words.deletes:
            return 1.5 if is_insert else -1.5
        if words.deletes or words.keeps_rest:
            return 0.0 if not is_insert else -1.0
        anchored = any(m.role in (Role.AFTER, Role.BEFORE) and spans for m, spans in self.spans.items()) or self.edges
        return (0.8 if anchored else -0.3) if is_insert else 0.0

    def _likeness(self, op: _Op) -> float:
        if op.start == op.end or not self.solid:
            return 0.0
        gone = {j for span in self._by_role(Role.GONE) for j in range(span.start, span.end)} if op.end - op.start < 400 else set()
        if gone.issuperset(range(op.start, op.end)):
            gone = set()
        far = min(op.end, op.start + 4 * len(self.texts) + 40)
        old = [self.layout.lines[j].strip() for j in range(op.start, far) if j not in gone and self.layout.lines[j].strip()]
        if not old:
            return 0.0
        new = [text.strip() for text in self.solid]
        whole = fuzz.ratio("\n".join(old)[:MAX_COMPARED], "\n".join(new)[:MAX_COMPARED]) / 100
        first = fuzz.ratio(old[0][:200], new[0][:200]) / 100
        names = _label(self.key), _label(self.layout.lines[self._first(op)])
        ends = _label(self.solid[-1]), _label(old[-1])
        same_end = 0.05 * (ends[0] is not None and ends[0] == ends[1])
        return 0.5 * whole + 0.5 * max(first, 0.9 if names[0] is not None and names[0] == names[1] else 0.0) + same_end

    def _form_score(self, op: _Op) -> float:
        """Brackets stay in pairs, headers keep their bodies, the block stands at a level that is there."""
        layout, total = self.layout, 0.0
        total -= 1.0 * (op.start < op.end and min(layout.indents[op.start : op.end]) < layout.indents[op.start])
        if layout.depth(op.start, op.end) != self.block_depth:
            total -= 1.5
        if not self.solid:
            exact = (op.start, op.end) == (layout.lead(layout.unit(self._first(op))[0]), layout.unit(self._first(op))[1])
            return total + 0.3 * exact
        opens = self._block_opens()
        last = layout.before_blanks(op.end) - 1
        old_opens = last >= op.start and op.start < op.end and layout.opens(last)
        is_line = self.words.one_line and len(self.solid) == 1 and op.end == op.start + 1
        if opens != old_opens and op.end < len(layout.lines) and not is_line:
            total -= 1.2
        if op.start < op.end:
            start, end = layout.unit(op.start)
            is_part = op.start == start and op.end < layout.before_blanks(end)
            if self.words.keeps_rest or self.words.head_only:
                total -= 1.0 * (op.start < self._first(op) and not is_attached(self.solid[0]) and not self.words.deletes)
                total += 0.6 * is_part + 0.6 * (is_part and self._edges_match(op))
            elif is_line:
                total += 0.5
            else:
                total -= 0.8 * is_part * (not opens)
            if op.end > layout.chain(start, end) and not self._names_several() and not self._edges_match(op):
                total -= 0.4
            total -= 0.3 * (indent_of(layout.lines[op.start]) != indent_of(self.solid[0]))
            if not layout.lines[op.start].strip() or not layout.lines[op.end - 1].strip():
                total -= 1.0
        else:
            if is_import(self.solid[0]):
                near = (layout.before_blanks(op.start) - 1, layout.after_blanks(op.start))
                total += 0.6 * (op.start <= layout.last_import) + 0.4 * any(
                    0 <= j < len(layout.lines) and is_import(layout.lines[j]) for j in near
                )
            total += 0.5 * (indent_of(self.solid[0]) in self._levels(op.start))
            name = header_name(self.solid[0])
            total -= 0.5 * (name is not None and bool(layout.scopes_named(name)) and not self.words.inserts)
        return total

    def _first(self, op: _Op) -> int:
        """The first line of a range that is no comment or decorator."""
        for j in range(op.start, op.end):
            if self.layout.lines[j].strip() and not is_attached(self.layout.lines[j]):
                return j
        return op.start

    def _edges_match(self, op: _Op) -> bool:
        lines = [line.strip() for line in self.layout.lines[op.start : op.end] if line.strip()]
        return bool(lines) and fuzz.ratio(lines[-1][:200], self.solid[-1].strip()[:200]) > 75

    def _names_several(self) -> bool:
        targets = [m for m in self.words.mentions if m.role in (Role.TARGET, Role.UNTIL, Role.GONE)]
        return len(targets) > 1 or any(m.count > 1 for m in self.words.mentions) or self.words.whole

    def _block_opens(self) -> bool:
        """Whether the block ends with a header, its body left out."""
        last = self.solid[-1].rstrip()
        return last.endswith(("{", "(", "[")) or (last.endswith(":") and self.language in ("python", None, "yaml"))

    def _levels(self, at: int) -> set[int]:
        """The indentations that a line at this place may have."""
        layout = self.layout
        above = layout.before_blanks(at) - 1
        below = layout.after_blanks(at)
        floor = indent_of(layout.lines[below]) if below < len(layout.lines) else 0
        levels = {floor}
        while above >= 0:
            if (level := indent_of(layout.lines[above])) >= floor:
                levels.add(level)
            above = layout.parents[above]
        return levels

    # -- writing -----------------------------------------------------------------------------------------------------
    def write(self, op: _Op) -> tuple[int, int, tuple[tuple[int | None, str], ...]]:
        """The operation as lines, without those that stand at the place already."""
        layout = self.layout
        start, end = op
        if not self.solid:
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
            return start, end + min(below - end, max(start - above, below - end))
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
        levels = self._levels(start)
        anchors = [indent_of(layout.lines[s.line]) for s in self._by_role(Role.AFTER, Role.BEFORE) if s.quality > 0.8]
        inner = [indent_of(layout.lines[first]) for _, first, last, q in self.regions if q > 0.8 and first <= start <= last and first < last]
        if base in levels and not (base == 0 and inner and min(inner) > 0 and start < layout.end):
            return shift
        wanted = next((level for level in (*anchors, *inner) if level in levels), max(levels, default=base))
        return shift.moved(wanted - base)

    def _with_gaps(self, at: int, lines: list[tuple[int | None, str]]) -> tuple[int, int, tuple[tuple[int | None, str], ...]]:
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
        return any(layout.before_blanks(point) == above for span in self._by_role(Role.AFTER) for point in self._after(span)[:3])

    def _gap(self, above: int, below: int, texts: Sequence[str]) -> int:
        """Blank lines between the block and its neighbours."""
        layout = self.layout
        there = below - above if above and below < len(layout.lines) else 0
        if self.words.blank is not None:
            return max(there, 1) if self.words.blank else 0
        first = next(text for text in texts if text.strip())
        level = indent_of(first)
        if layout.is_prose:
            is_item = re.match(r"\s*(?:[-*+]|\d+[.)])\s|\s*\|", first)
            return 0 if is_item else 1
        solid = [text for text in texts if text.strip()]
        is_long = len(solid) > 1 and not is_import(first)
        is_code = is_definition(next((text for text in solid if not is_attached(text)), first)) and is_long
        if is_code and self.language not in ("yaml", "json", "toml"):
            return self._usual_gap(level, there)
        siblings = [j for j in self._siblings(above, below, level) if layout.unit(j)[1] > j + 1]
        if is_long and siblings:
            gaps = [j - layout.before_blanks(layout.lead(j)) for j in siblings]
            lead_gaps = [layout.lead(j) - layout.before_blanks(layout.lead(j)) for j in siblings]
            return max(lead_gaps) if gaps else there
        return 0

    def _siblings(self, above: int, below: int, level: int) -> list[int]:
        """The units next to the place at the block's level: the one above where another stands above it, the one below."""
        layout, found = self.layout, []
        j = above - 1
        while j >= 0 and indent_of(layout.lines[j]) > level:
            j = layout.parents[j]
        if j >= 0 and indent_of(layout.lines[j]) == level and not re.match(r"\s*[\])}]", layout.lines[j]):
            start = layout.lead(j)
            over = layout.before_blanks(start) - 1
            if over >= 0 and indent_of(layout.lines[over]) >= level:
                found.append(j)
        if below < len(layout.lines) and above and indent_of(layout.lines[below]) == level and not layout.opens(above - 1):
            found.append(below)
        return found

    def _usual_gap(self, level: int, there: int) -> int:
        layout = self.layout
        gaps = [
            scope.lead_line - layout.before_blanks(scope.lead_line)
            for scope in layout.scopes
            if scope.lead_line and scope.kind in ("function", "method", "class", "module", "section")
            and indent_of(layout.lines[scope.header_line]) == level
        ]
        gaps = [gap for gap in gaps if gap]
        return max(set(gaps), key=gaps.count) if gaps else (there or 1)

    def reason(self, op: _Op) -> str:
        """What was done, in plain words."""
        named = next((m for m in self.words.mentions if self.spans.get(m) and m.role in WEIGHTS), None)
        what = f"`{named.text}`" if named is not None else "the file's edge"
        if not self.solid:
            return f"removed {what}, as its comment says"
        if op.start < op.end:
            return f"replaced lines {op.start + 1} to {op.end} ({what}), as its comment says"
        side = {Role.AFTER: "after", Role.BEFORE: "before"}.get(named.role, "in") if named is not None else "at"
        return f"placed {side} {what}, as its comment says"


def place(
    original: Sequence[str],
    update: Sequence[str],
    directive: Directive,
    *,
    language: str | None,
    low: int = 0,
    high: int | None = None,
    scopes: Sequence[Scope] | None = None,
) -> list[Placed]:
    """The ways to do what a directive says, best first, at most four; none where nothing fits."""
    if scopes is None:
        scopes = find_scopes("\n".join(original), language)
    return _search(Layout(original, scopes, language), update, directive, language, low, len(original) if high is None else high)


def _search(
    layout: Layout, update: Sequence[str], directive: Directive, language: str | None, low: int, high: int
) -> list[Placed]:
    search = Search(layout, directive, update, language, low, high)
    if not search.solid and not search.words.deletes:
        return []
    found: list[Placed] = []
    seen = set()
    for score, op, features in search.ranked()[:20]:
        if score < MIN_SCORE:
            break
        start, end, lines = search.write(op)
        if (start, end, lines) in seen:
            continue
        seen.add((start, end, lines))
        found.append(Placed(directive, start, end, lines, score, features, search.reason(op)))
        if len(found) == MAX_PLACED:
            break
    for k, item in enumerate(found):
        rival = found[k + 1].score if k + 1 < len(found) else 0.0
        item.features["margin"] = item.score - rival
    return found


def merge_placed(
    original: Sequence[str], update: Sequence[str], *, language: str | None, path: str | None, instruction: str = ""
) -> list[tuple[list[Placed], tuple[LineOp, ...]]]:
    """Whole snippets of directives and their code: readings, best first; none where code stands outside them."""
    directives = find_directives(original, update, language=language, path=path)
    roles = classify(update, original, language=language, path=path)
    outside = (LineRole.BLANK, LineRole.FENCE, LineRole.CHAT, LineRole.FILE_NAME)
    solid = [i for i, role in enumerate(roles) if role not in outside]
    if not directives and instruction.strip() and solid:
        directives = [Directive((), instruction, tuple(range(solid[0], solid[-1] + 1)))]
    covered = {i for directive in directives for i in (*directive.lines, *directive.block)}
    if not directives or not covered.issuperset(solid):
        return []
    layout = Layout(original, find_scopes("\n".join(original), language), language)
    choices = [_search(layout, update, directive, language, 0, len(original)) for directive in directives]
    if not all(choices):
        return []
    return [(list(reading), _operations(original, reading)) for reading in _combine(choices)]


def _combine(choices: Sequence[Sequence[Placed]]) -> list[tuple[Placed, ...]]:
    """The best readings whose places do not overlap."""
    readings: list[tuple[float, tuple[Placed, ...]]] = [(0.0, ())]
    for options in choices:
        grown = [
            (total + item.score, (*reading, item))
            for total, reading in readings
            for item in options
            if not any(_overlap(item, other) for other in reading)
        ]
        readings = sorted(grown, key=lambda pair: -pair[0])[: 2 * MAX_PLACED]
    return [reading for _, reading in readings[:MAX_PLACED]]


def _overlap(one: Placed, other: Placed) -> bool:
    return one.start < other.end and other.start < one.end


def _operations(original: Sequence[str], reading: Sequence[Placed]) -> tuple[LineOp, ...]:
    ops: list[LineOp] = []
    at = 0
    for item in sorted(reading, key=lambda placed: (placed.start, placed.end)):
        ops += [LineOp("keep", j, None, original[j]) for j in range(at, item.start)]
        old = original[item.start : item.end]
        for part in LCSseq.opcodes(old, [text for _, text in item.lines]):
            rows, new = range(part.src_start, part.src_end), item.lines[part.dest_start : part.dest_end]
            if part.tag == "equal":
                ops += [LineOp("both", item.start + j, i, old[j]) for j, (i, _) in zip(rows, new, strict=True)]
                continue
            ops += [LineOp("drop", item.start + j, None, old[j]) for j in rows]
            ops += [LineOp("take", None, i, text) for i, text in new]
        at = item.end
    return (*ops, *(LineOp("keep", j, None, original[j]) for j in range(at, len(original))))
