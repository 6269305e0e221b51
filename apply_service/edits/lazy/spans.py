"""Where in the file the mentions of a directive stand: as spans, each with how well it fits the words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from apply_service.edits.code_lines import header_name
from apply_service.edits.lazy.directives import comment_text
from apply_service.edits.lazy.layout import Layout, is_import
from apply_service.edits.lazy.mentions import Mention, Role, Words, read_words

MAX_SPANS = 10
MAX_LINES = 200
"""Lines that hold a mention, at most so many are looked at."""


class Span(NamedTuple):
    """A mention found: its line, the unit it opens or stands in, and how well it fits."""

    line: int
    start: int
    end: int
    quality: float


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


class Finder:
    """The mentions of one directive, looked up in lines [low, high) of a file."""

    def __init__(self, layout: Layout, text: str, language: str | None, low: int, high: int) -> None:
        self.layout, self.language = layout, language
        self.low, self.high = low, min(high, len(layout.lines))
        self._worths: dict[tuple[Role, int, int], dict[int, float]] = {}
        self.words: Words = read_words(text, self._stands)
        named = sorted(
            (m for m in self.words.mentions if m.kind != "edge"),
            key=lambda m: (m.role is not Role.WITHIN, m.kind == "sort"),
        )
        self.spans: dict[Mention, list[Span]] = {}
        for mention in named:
            self.spans[mention] = self._resolve(mention)

    def _stands(self, phrase: str) -> bool:
        return phrase.lower() in self.layout.text and next(self._lines_with(phrase), None) is not None

    def _lines_with(self, phrase: str) -> Iterator[int]:
        """The lines that hold a phrase as whole words, small and capital letters alike."""
        wanted = " ".join(phrase.lower().split())
        text, starts = self.layout.text, self.layout.starts
        at, end = starts[self.low], starts[self.high]
        while wanted and (at := text.find(wanted, at, end)) >= 0:
            last = at + len(wanted)
            is_whole = not (_is_word(wanted[0]) and at and _is_word(text[at - 1])) and not (
                _is_word(wanted[-1]) and last < len(text) and _is_word(text[last])
            )
            line = self.layout.line_at(at)
            at = starts[line + 1] if is_whole else at + 1
            if is_whole:
                yield line

    def _resolve(self, mention: Mention) -> list[Span]:
        if mention.kind == "line":
            first, _, last = mention.text.partition("-")
            a, b = int(first) - 1, int(last or first)
            return [Span(a, a, b, 1.0)] if 0 <= a < b <= len(self.layout.lines) else []
        if mention.kind == "sort":
            spans = [self.span(j, 0.8) for j in self._of_sort(mention.sort)]
            spans = [s._replace(end=self.layout.chain(s.start, s.end)) for s in spans]
            inside = self._scopes_said(Role.WITHIN) or self._scopes_said(Role.TARGET)
            return self._pick([s for s in spans if any(a <= s.line < b for a, b in inside)] or spans, mention)
        spans = self._named(mention.text)
        if mention.sort:
            spans = [s._replace(quality=s.quality + 0.3 * self._is_sort(s.line, mention.sort)) for s in spans]
        if mention.kind == "code" and any(mention.text in self.layout.lines[s.line] for s in spans):
            spans = [
                s._replace(quality=s.quality - 0.3 * (mention.text not in self.layout.lines[s.line])) for s in spans
            ]
        most = MAX_SPANS
        if mention.role is not Role.WITHIN:
            said = self._scopes_said(Role.WITHIN)
            here = {s.line for s in spans if any(a <= s.line < b for a, b in said)}
            if here:
                spans = [s._replace(quality=s.quality - 0.4 * (s.line not in here)) for s in spans]
                most = max(MAX_SPANS, min(len(here), 3 * MAX_SPANS))
        if mention.role in (Role.TARGET, Role.GONE) and any(s.quality > 0.9 for s in spans):
            spans = [s for s in spans if s.quality > 0.65]
        spans.sort(key=lambda span: -span.quality)
        return self._pick(spans[:most], mention)

    def _scopes_said(self, role: Role) -> list[tuple[int, int]]:
        """The units with a body that mentions of a role name."""
        named = [(m, spans) for m, spans in self.spans.items() if m.role is role]
        found = [spans for m, spans in named if m.kind == "code"] or [spans for _, spans in named]
        return [(s.start, s.end) for spans in found for s in spans if s.quality > 0.7 and s.end > s.line + 1]

    def _pick(self, spans: list[Span], mention: Mention) -> list[Span]:
        """With an ordinal, the one that it counts; the others stay possible where counting may have been different."""
        if mention.ordinal and spans:
            spans = sorted(spans, key=lambda span: span.line)
            k = mention.ordinal - 1 if mention.ordinal > 0 else len(spans) - 1
            spans = [s._replace(quality=s.quality * (1.0 if i == k else 0.7)) for i, s in enumerate(spans)]
        return spans

    def _named(self, text: str) -> list[Span]:
        layout = self.layout
        plain = text.removesuffix("()").rstrip(":")
        found: dict[int, Span] = {}

        def add(span: Span) -> None:
            if span.line not in found or found[span.line].quality < span.quality:
                found[span.line] = span

        for scope in layout.scopes_named(plain.lstrip("#<@ ").rstrip("/> ")):
            if self.low <= scope.start_line < self.high:
                add(Span(scope.header_line, scope.start_line, layout.unit(scope.header_line)[1], 1.0))
        for j in self._lines_with(plain):
            add(self.span(j, self._prominence(j, plain)))
            if len(found) >= MAX_LINES:
                break
        if not found and re.search(r"\.{3}|…|\(", text):
            parts = [part.strip().lower() for part in re.split(r"\.{3}|…", text.rstrip("()")) if len(part.strip()) > 1]
            for j in self._lines_with(parts[0]) if parts else ():
                line = layout.lines[j].lower()
                if all(part in line or part.strip("})] ") == "" for part in parts[1:]):
                    add(self.span(j, 0.9))
        if not found and re.search(r"\w(?:\.|->|::| > |/)\w", plain):
            self._follow_path(re.split(r"\.|->|::| > |/", plain), add)
        return list(found.values())

    def _follow_path(self, names: Sequence[str], add: Callable[[Span], None]) -> None:
        low, high, last = self.low, self.high, None
        for name in names:
            spans = [
                s
                for s in (self.span(j, self._prominence(j, name)) for j in self._lines_with(name))
                if low <= s.line < high
            ]
            if spans:
                last = max(spans, key=lambda span: (span.quality, -span.line))
                low, high = last.line + (last.end > last.line + 1), last.end
        if last is not None:
            add(last._replace(quality=min(1.0, last.quality + 0.2)))

    def span(self, line: int, quality: float) -> Span:
        start, end = self.layout.unit(line)
        return Span(line, start, end, quality)

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
        if re.match(
            rf"(?:(?:const|let|var|val|type|final|static|export|default|self\.|this\.)\s*)*{re.escape(low)}(?!\w)", bare
        ):
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
        found = [j for j in range(self.low, self.high) if self._is_sort(j, sort)]
        return found[:MAX_LINES]

    def by_role(self, *roles: Role) -> list[Span]:
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
        for span in self.by_role(Role.AFTER):
            add(span.line, span.start, span.end, span.quality * 0.6)
        return list(found.values())

    @cached_property
    def is_stretch(self) -> bool:
        """Whether the words say where the stretch that gives way begins and where it ends."""
        return bool(self.by_role(Role.UNTIL)) and bool(self.by_role(Role.TARGET, Role.GONE))

    @cached_property
    def edges(self) -> list[Mention]:
        return [mention for mention in self.words.mentions if mention.kind == "edge"]

    def edge_of(self, edge: Mention, start: int, end: int) -> int:
        """Where a thing goes that shall be the first, second, ... or last in lines [start, end)."""
        return end if edge.ordinal < 0 else self.layout.after_units(start, end, edge.ordinal - 1)

    def after(self, span: Span) -> list[int]:
        """Where something after the span may go, the likeliest first."""
        ends = [self.layout.chain(span.start, span.end), span.end, span.line + 1]
        return list(dict.fromkeys([*ends, *(end for _, end in self.layout.enclosing(span.line)[:4])]))

    def before(self, span: Span) -> list[int]:
        """Where something before the span may go, the likeliest first."""
        starts = [self.layout.lead(span.start), span.start, span.line]
        around = (self.layout.lead(start) for start, _ in self.layout.enclosing(span.line)[:3])
        return list(dict.fromkeys([*starts, *around]))

    def worth(self, role: Role, span: Span) -> dict[int, float]:
        """How well the places after (or before) a span agree with it, by the first line with text from there on."""
        key = (role, span.start, span.line)
        if key not in self._worths:
            points = self.after(span) if role is Role.AFTER else self.before(span)
            near = {
                span.end,
                span.start,
                span.line,
                self.layout.chain(span.start, span.end),
                self.layout.lead(span.start),
            }
            self._worths[key] = {}
            for k, point in enumerate(points):
                worth = 1.0 if point in near else 0.9 if point == span.line + 1 else 0.75 - 0.05 * min(k, 5)
                self._worths[key].setdefault(self.layout.solid_from[point], worth)
        return self._worths[key]
