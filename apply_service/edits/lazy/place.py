"""Where the code of a directive goes: candidate operations are scored by how they agree with what the directive says.

`Search` resolves the mentions to spans of the file, proposes insertions, replacements and deletions next to them, and
scores each; `place` gives the best ones, `merge_placed` whole snippets that are made of directives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from apply_service.edits.code_lines import header_name, indent_of, is_attached
from apply_service.edits.lazy.directives import Directive, find_directives
from apply_service.edits.lazy.layout import Layout, depth, is_import
from apply_service.edits.lazy.mentions import Mention, Role
from apply_service.edits.lazy.proposals import Op, Proposals, label
from apply_service.edits.lazy.spans import Finder, Span
from apply_service.edits.lazy.written import Lines, Writer
from apply_service.edits.markers import Role as LineRole
from apply_service.edits.markers import classify
from apply_service.syntax.scopes import Scope, find_scopes
from apply_service.types import LineOp

MAX_WEIGHED = 60
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
    lines: Lines
    """... to these: update line number (None for a blank line put in) and the text, re-indented."""
    score: float
    features: dict[str, float]
    reason: str


_OPEN_TAG = re.compile(r"\s*<(?!(?:meta|link|img|br|hr|input|source)\b)[A-Za-z][^<>]{0,400}(?<!/)>$")


class Search:
    """One directive's search."""

    def __init__(
        self, layout: Layout, directive: Directive, update: Sequence[str], language: str | None, low: int, high: int
    ) -> None:
        self.layout, self.language = layout, language
        block = [(i, update[i]) for i in directive.block]
        self.texts = [text for _, text in block]
        self.solid = [text for text in self.texts if text.strip()]
        self.block_depth = depth(self.texts)
        self.finder = Finder(layout, directive.text, language, low, high)
        self.proposals = Proposals(self.finder, self.texts)
        self.writer = Writer(layout, self.finder, block, language)

    def ranked(self) -> list[tuple[float, Op, dict[str, float]]]:
        """The candidates with their scores, best first."""
        agreeing = sorted(
            ((*self._agree(op), op) for op in self.proposals.candidates()), key=lambda item: (-item[0], item[2])
        )
        weighed = []
        for score, features, op in agreeing[:MAX_WEIGHED]:
            likeness = features["likeness"] = self._likeness(op)
            if op.start < op.end and self.solid:
                score += 3.0 * (likeness - 0.4) * (0.5 if self.finder.is_stretch else 1.0)
            weighed.append((score + self._form_score(op), op, features))
        return sorted(weighed, key=lambda item: (-item[0], item[1]))

    def _agree(self, op: Op) -> tuple[float, dict[str, float]]:
        """How far an operation agrees with the words."""
        is_insert = op.start == op.end
        features: dict[str, float] = {
            "found": 0.0,
            "missing": 0.0,
            "agreement": 0.0,
            "unknown": float(self.finder.words.unknown),
        }
        total = 0.0
        has_target = bool(self.finder.by_role(Role.TARGET))
        for mention, spans in self.finder.spans.items():
            if mention.role is Role.KEPT and mention.kind != "words":
                total -= 1.0 * any(op.start <= span.line < op.end for span in spans)
            weight = WEIGHTS.get(mention.role, 0.0)
            if not weight:
                continue
            if not spans:
                features["missing"] += mention.kind == "code"
                continue
            if mention.kind == "words" and " " not in mention.text:
                weight *= 0.6 if mention.sort == "" else 0.8
            agreement = self._agreement(mention, op, spans)
            weight += 1.0 * (mention.role is Role.GONE and not self.solid)
            features["found"] += 1
            features["agreement"] += agreement
            total += weight * agreement
        total += self._edge_score(op) * (1.0 if is_insert else 0.5)
        total += self._kind_score(is_insert, has_target)
        return total, features

    def _agreement(self, mention: Mention, op: Op, spans: Sequence[Span]) -> float:
        """How far an operation agrees with one mention, at the best of the places that it may mean."""
        role, worth = mention.role, self.finder.worth
        if role is Role.AFTER:
            return max(self._adjacent(worth(role, s), op.start, op.start > s.line) * s.quality for s in spans)
        if role is Role.BEFORE:
            return max(self._adjacent(worth(role, s), op.end, op.end <= s.line) * s.quality for s in spans)
        if role is Role.WITHIN:
            return max(self._inside(op, s) * s.quality for s in spans)
        covered = [s for s in spans if op.start <= s.line < op.end]
        agreement = max((self._covers(role, op, s) * s.quality for s in covered), default=0.0)
        if 1 < mention.number <= len(spans):
            agreement *= min(1.0, len(covered) / mention.number)
        return agreement

    def _covers(self, role: Role, op: Op, span: Span) -> float:
        """How exactly an operation takes a thing that stands in its lines."""
        if role is Role.UNTIL:
            return 1.0 if op.start < span.line and op.end <= max(span.end, span.line + 1) else 0.0
        starts_here = op.start in (span.start, span.line)
        if self.finder.is_stretch and role is Role.TARGET and not starts_here:
            return 0.5
        return 1.1 if starts_here and op.end in (span.end, span.line + 1) else 1.0

    def _adjacent(self, points: dict[int, float], at: int, is_right_side: bool) -> float:
        """1 where the place is next to the point, blank lines aside; little for the right side alone."""
        found = points.get(self.layout.solid_from[at])
        return found if found is not None else 0.15 if is_right_side else -0.4

    def _inside(self, op: Op, span: Span) -> float:
        is_insert = op.start == op.end
        best = 0.0
        if is_insert and op.start in (span.start, span.end) and is_import(self.layout.lines[span.line]):
            return 1.0
        if span.end > span.line + 1 and span.start <= op.start and op.end <= span.end:
            best = 1.0 if not is_insert or op.start > span.line else 0.0
        elif not is_insert and op.start <= span.line < op.end:
            best = 0.6
        if best < 0.8:
            for k, (start, end) in enumerate(self.layout.enclosing(span.line)[:2]):
                if start <= op.start and op.end <= end and (not is_insert or op.start > start):
                    best = max(best, 0.8 - 0.2 * k)
        return best

    def _edge_score(self, op: Op) -> float:
        """How far an insertion is at the edge that is spoken of."""
        total, solid_from = 0.0, self.layout.solid_from
        for edge in self.finder.edges:
            bodies = [(start, end, quality) for _, start, end, quality in self.finder.regions]
            bodies.append((0, self.layout.end, 0.4 if bodies else 0.8))
            points = [(self.finder.edge_of(edge, start, end), quality) for start, end, quality in bodies]
            side = op.start if edge.ordinal > 0 else op.end
            total += 1.5 * max((q for at, q in points if solid_from[at] == solid_from[side]), default=0.0)
        return min(total, 2.0)

    def _kind_score(self, is_insert: bool, has_target: bool) -> float:
        words = self.finder.words
        if not self.solid:
            return 0.0
        if words.replaces or has_target or words.head_only:
            return -2.0 if is_insert else 0.5
        if words.inserts and not words.deletes:
            return 1.5 if is_insert else -1.5
        if words.deletes or words.keeps_rest:
            return 0.0 if not is_insert else -1.0
        anchored = (
            any(m.role in (Role.AFTER, Role.BEFORE) and spans for m, spans in self.finder.spans.items())
            or self.finder.edges
        )
        return (0.8 if anchored else -0.3) if is_insert else 0.0

    def _likeness(self, op: Op) -> float:
        if op.start == op.end or not self.solid:
            return 0.0
        gone = (
            {j for span in self.finder.by_role(Role.GONE) for j in range(span.start, span.end)}
            if op.end - op.start < 400
            else set()
        )
        if gone.issuperset(range(op.start, op.end)):
            gone = set()
        far = min(op.end, op.start + 4 * len(self.texts) + 40)
        old = [
            self.layout.lines[j].strip() for j in range(op.start, far) if j not in gone and self.layout.lines[j].strip()
        ]
        if not old:
            return 0.0
        new = [text.strip() for text in self.solid]
        whole = fuzz.ratio("\n".join(old)[:MAX_COMPARED], "\n".join(new)[:MAX_COMPARED]) / 100
        first = fuzz.ratio(old[0][:200], new[0][:200]) / 100
        names = label(self.proposals.key), label(self.layout.lines[self._first(op)])
        ends = label(self.solid[-1]), label(old[-1])
        same_end = 0.05 * (ends[0] is not None and ends[0] == ends[1])
        return 0.5 * whole + 0.5 * max(first, 0.9 if names[0] is not None and names[0] == names[1] else 0.0) + same_end

    def _form_score(self, op: Op) -> float:
        """Brackets stay in pairs, headers keep their bodies, the block stands at a level that is there."""
        layout, total = self.layout, 0.0
        total -= 1.0 * (op.start < op.end and min(layout.indents[op.start : op.end]) < layout.indents[op.start])
        if layout.depth(op.start, op.end) != self.block_depth:
            total -= 1.5
        if not self.solid:
            exact = (op.start, op.end) == (
                layout.lead(layout.unit(self._first(op))[0]),
                layout.unit(self._first(op))[1],
            )
            return total + 0.3 * exact
        opens = self._block_opens()
        last = layout.before_blanks(op.end) - 1
        old_opens = last >= op.start and op.start < op.end and layout.opens(last)
        is_line = self.finder.words.one_line and len(self.solid) == 1 and op.end == op.start + 1
        if opens != old_opens and op.end < len(layout.lines) and not is_line:
            total -= 1.2
        if op.start < op.end:
            start, end = layout.unit(op.start)
            is_part = op.start == start and op.end < layout.before_blanks(end)
            if self.finder.words.keeps_rest or self.finder.words.head_only:
                total -= 1.0 * (
                    op.start < self._first(op) and not is_attached(self.solid[0]) and not self.finder.words.deletes
                )
                total += 0.6 * is_part + 0.6 * (is_part and self._edges_match(op))
            elif is_line:
                total += 0.5
            else:
                total -= 0.8 * is_part * (not opens)
            if op.end > layout.chain(start, end) and not self._names_several() and not self._edges_match(op):
                total -= 0.4
            level = indent_of(self.solid[0])
            total -= (0.7 if level else 0.3) * (indent_of(layout.lines[op.start]) != level)
            if not layout.lines[op.start].strip() or not layout.lines[op.end - 1].strip():
                total -= 1.0
        else:
            if is_import(self.solid[0]):
                near = (layout.before_blanks(op.start) - 1, layout.after_blanks(op.start))
                total += 0.6 * (op.start <= layout.last_import) + 0.4 * any(
                    0 <= j < len(layout.lines) and is_import(layout.lines[j]) for j in near
                )
            total += 0.5 * (indent_of(self.solid[0]) in self.layout.levels(op.start))
            name = header_name(self.solid[0])
            total -= 0.5 * (name is not None and bool(layout.scopes_named(name)) and not self.finder.words.inserts)
        return total

    def _first(self, op: Op) -> int:
        """The first line of a range that is no comment or decorator."""
        for j in range(op.start, op.end):
            if self.layout.lines[j].strip() and not is_attached(self.layout.lines[j]):
                return j
        return op.start

    def _edges_match(self, op: Op) -> bool:
        lines = [line.strip() for line in self.layout.lines[op.start : op.end] if line.strip()]
        return bool(lines) and fuzz.ratio(lines[-1][:200], self.solid[-1].strip()[:200]) > 75

    def _names_several(self) -> bool:
        targets = [m for m in self.finder.words.mentions if m.role in (Role.TARGET, Role.UNTIL, Role.GONE)]
        return len(targets) > 1 or any(m.number > 1 for m in self.finder.words.mentions) or self.finder.words.whole

    def _block_opens(self) -> bool:
        """Whether the block ends with a header, its body left out."""
        last = self.solid[-1].rstrip()
        return (
            _OPEN_TAG.match(last) is not None
            or last.endswith(("{", "(", "["))
            or (last.endswith(":") and self.language in ("python", None, "yaml"))
        )

    def reason(self, op: Op) -> str:
        """What was done, in plain words."""
        named = next((m for m in self.finder.words.mentions if self.finder.spans.get(m) and m.role in WEIGHTS), None)
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
    return _search(
        Layout(original, scopes, language), update, directive, language, low, len(original) if high is None else high
    )


def _search(
    layout: Layout, update: Sequence[str], directive: Directive, language: str | None, low: int, high: int
) -> list[Placed]:
    search = Search(layout, directive, update, language, low, high)
    if not search.solid and not search.finder.words.deletes:
        return []
    found: list[Placed] = []
    seen = set()
    for score, op, features in search.ranked()[:20]:
        if score < MIN_SCORE:
            break
        start, end, lines = search.writer.write(*op)
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
    outside = (LineRole.BLANK, LineRole.FENCE, LineRole.CHAT, LineRole.FILE_NAME, LineRole.MARKER)
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
