"""The predicted merge: a lazy snippet laid on its original by a program alone, and how sure that is.

The page to read first of the merger.  `merge` classifies the snippet's lines (`markers`), cuts it into blocks
(`snippet`), brings them to the file's indentation (`indentation`), aligns them (`candidates`, `alignment`), places what has no anchor
(`placement`), writes the operations, and asks whether a second reading would give another text.  Texts have LF line ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from apply_service.edits.alignment import INSERT_COST, TAKE, Alignment, Row, Terrain
from apply_service.edits.candidates import NOTHING, Candidates, Kind, LineIndex, substance
from apply_service.edits.clarity import Places, find_ends
from apply_service.edits.headers import attached_start, definition_end, header_name, is_closer
from apply_service.edits.fitting import fit_blocks
from apply_service.edits.indentation import indent_of
from apply_service.edits.markers import Role, classify
from apply_service.edits.placement import Placement, place_block
from apply_service.edits.remarks import split_remark
from apply_service.edits.snippet import Block, Snippet, cut_blocks, marker_indent
from apply_service.types import Certainty, LineOp, Prediction

DOUBT_MARGIN = 0.45
"""A second reading that scores less than this below the best, and gives another text, is a doubt."""
MAX_SECOND_READINGS = 10
COPY_COST = 0.3
UNPAIRED_COST = 0.25
EDGE_COST = 5.0


@dataclass(slots=True)
class Doubts:
    """What speaks against the answer; the worst decides the certainty."""

    reasons: list[str] = field(default_factory=list)
    certainty: Certainty = Certainty.CERTAIN

    def likely(self, reason: str) -> None:
        self._add(reason)
        if self.certainty is Certainty.CERTAIN:
            self.certainty = Certainty.LIKELY

    def guess(self, reason: str) -> None:
        self._add(reason)
        self.certainty = Certainty.GUESS

    def _add(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


def merge(original: str, update: str, *, language: str | None = None, path: str | None = None) -> Prediction:
    """The original with the snippet merged in, as far as a program can tell."""
    update_lines = update.split("\n")
    if not original.strip():
        return _new_file(original, update_lines, language, path)
    return _Merger(original.split("\n"), update_lines, language, path).run()


def _new_file(original: str, update_lines: list[str], language: str | None, path: str | None) -> Prediction:
    """An empty original: the snippet is the file."""
    roles = classify(update_lines, (), language=language, path=path)
    ops = [LineOp("drop", j, None, line) for j, line in enumerate(original.split("\n"))]
    outside = {Role.FENCE, Role.CHAT, Role.FILE_NAME}
    shown = [i for i, role in enumerate(roles) if role not in outside]
    ops += [LineOp("take", None, i, update_lines[i]) for i in shown]
    leftover = any(role in (Role.MARKER, Role.DELETION) for role in roles)
    reasons = ("the original is empty but the snippet leaves something out",) if leftover else ()
    certainty = Certainty.LIKELY if leftover else Certainty.CERTAIN
    return Prediction(tuple(ops), tuple(update_lines), certainty, reasons, determined=not leftover)


@dataclass(slots=True)
class _Span:
    """Where a block goes: original lines `start:end` give way to `body`."""

    block: int
    start: int
    end: int
    body: list[LineOp]


class _Merger:
    def __init__(self, original: list[str], update: list[str], language: str | None, path: str | None) -> None:
        self._language = language
        self._ends_with_newline = len(original) > 1 and original[-1] == ""
        self._all = original
        self._original = original[:-1] if self._ends_with_newline else original
        roles = classify(update, self._original, language=language, path=path)
        self._snippet: Snippet = cut_blocks(update, roles)
        self._index = LineIndex(self._original)
        self._texts = list(update)
        self._doubts = Doubts()
        self._orphans: set[int] = set()
        self._places = Places(self._original)
        self._roles = roles
        self._strip_remarks()

    def run(self) -> Prediction:
        self._shift_blocks()
        self._visible = [
            (b, i) for b, block in enumerate(self._snippet.blocks) for i in block.lines if self._texts[i].strip()
        ]
        self._candidates = self._find_candidates()
        rows = self._make_rows()
        alignment = Alignment(rows, Terrain(self._index.weights, self._index.scope_indents))
        chosen = alignment.best()
        ops = self._write(chosen, self._doubts)
        self._question(alignment, chosen, ops)
        if _text_of(ops) == "\n".join(self._all):
            self._doubts.guess("the snippet changes nothing")
        return Prediction(tuple(ops), tuple(self._texts), self._doubts.certainty, tuple(self._doubts.reasons))

    def _strip_remarks(self) -> None:
        known = set(self._index.stripped)
        remarks = {}
        for block in self._snippet.blocks:
            for i in block.lines:
                remark = split_remark(self._texts[i], self._language, known)
                if remark is not None:
                    remarks[i] = remark
        for i, remark in remarks.items():
            self._texts[i] = remark.code
            if not remark.is_sure and len(remarks) == 1:
                self._doubts.likely("remark or comment")

    # -- indentation ---------------------------------------------------------------------------------------------------
    def _shift_blocks(self) -> None:
        blocks = [[self._texts[i] for i in block.lines] for block in self._snippet.blocks]
        for block, shift in zip(self._snippet.blocks, fit_blocks(blocks, self._index), strict=True):
            for i in block.lines:
                self._texts[i] = shift.apply(self._texts[i])

    # -- candidates ----------------------------------------------------------------------------------------------------
    def _find_candidates(self) -> dict[int, Candidates]:
        new = self._lines_of_new_definitions()
        found: dict[int, Candidates] = {}
        for _, i in self._visible:
            if i in new:
                found[i] = NOTHING
                continue
            equal = self._index.equal(self._texts[i])
            found[i] = equal if len(equal.columns) else self._index.similar(self._texts[i])
        self._pair_closers(found)
        return found

    def _lines_of_new_definitions(self) -> set[int]:
        known = {name for name in map(header_name, self._original) if name is not None}
        new: set[int] = set()
        for block in self._snippet.blocks:
            texts = [self._texts[i] for i in block.lines]
            for k, text in enumerate(texts):
                name = header_name(text) if block.lines[k] not in new else None
                if name is None or name in known or self._index.count(text):
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
        indent = marker_indent(self._snippet, block.gap_after)
        return self._index.count(last) == 1 or (indent is not None and indent > indent_of(texts[k]))

    def _pair_closers(self, found: dict[int, Candidates]) -> None:
        """A closing line had better match the line that closes what its opener matches; that of new lines matches
        none.  Closers without an opener are noted."""
        open_at: list[tuple[int, int, int]] = []
        for b, i in self._visible:
            indent = indent_of(self._texts[i])
            while open_at and open_at[-1][0] > indent:
                open_at.pop()
            closes = is_closer(self._texts[i])
            if open_at and open_at[-1][0] == indent:
                opener, block = open_at.pop()[1:]
                if closes and self._texts[opener].rstrip()[-1:] not in (",", ";"):
                    ends = {self._close_of(j) for j in found[opener].columns.tolist()}
                    alone = not ends and block == b and not self._knows_between(opener, i, found)
                    found[i] = NOTHING if alone else found[i].preferring(ends, UNPAIRED_COST)
            elif closes and (not open_at or open_at[-1][2] != b):
                self._orphans.add(i)
            open_at.append((indent, i, b))

    def _knows_between(self, opener: int, closer: int, found: dict[int, Candidates]) -> bool:
        """Whether a line that says something stands between the two and in the file."""
        return any(
            i in found and found[i].is_exact and substance(self._texts[i].strip()) >= 0.4
            for i in range(opener + 1, closer)
        )

    def _close_of(self, j: int) -> int:
        """The first line below j that is not indented deeper."""
        indents = self._index.scope_indents[j + 1 :]
        below = indents <= indent_of(self._original[j])
        return j + 1 + int(np.argmax(below)) if below.any() else -1

    def _make_rows(self) -> list[Row]:
        rows: list[Row] = []
        previous: tuple[int, int] | None = None
        for b, i in self._visible:
            gap = previous is None or previous[0] != b
            found = self._candidates[i]
            scope = self._scope_indent(previous, i) if gap else 0
            rows.append(Row(found.columns, found.scores, gap, scope, self._take_cost(b, i, found)))
            previous = (b, i)
        return rows

    def _take_cost(self, b: int, i: int, found: Candidates) -> float:
        """A line that stands in the file is unlikely to be new, least of all at the edge of a block."""
        if not found.is_exact:
            return INSERT_COST
        lines = self._snippet.blocks[b].lines
        says = substance(self._texts[i].strip())
        cost = INSERT_COST + COPY_COST * says / len(found.columns)
        if i in (lines[0], lines[-1]):
            cost += EDGE_COST * (1.0 if i in self._orphans else 0.6 + 0.4 * says)
        return cost

    def _scope_indent(self, previous: tuple[int, int] | None, i: int) -> int:
        """The least indentation that a skip before line i should keep to."""
        here = indent_of(self._texts[i])
        if previous is None:
            return 0
        above = indent_of(self._texts[previous[1]])
        inside = here > above or (here == above and is_closer(self._texts[i]))
        if inside:
            return above + 1
        return here + 1 if is_closer(self._texts[i]) else here

    # -- writing -------------------------------------------------------------------------------------------------------
    def _write(self, chosen: Sequence[int], doubts: Doubts) -> list[LineOp]:
        column = {i: c for (_, i), c in zip(self._visible, chosen, strict=True)}
        spans = [self._anchored_span(b, block, column, doubts) for b, block in enumerate(self._snippet.blocks)]
        self._place_loose(spans, doubts)
        ops: list[LineOp] = []
        at = 0
        for span in spans:
            assert span is not None
            ops += self._keep(at, max(at, span.start))
            ops += [LineOp("drop", j, None, self._original[j]) for j in range(max(at, span.start), span.start)]
            ops += span.body
            at = max(at, span.end)
        ops += self._keep(at, len(self._original))
        if self._ends_with_newline:
            ops.append(LineOp("keep", len(self._original), None, ""))
        return ops

    def _keep(self, start: int, end: int) -> list[LineOp]:
        return [LineOp("keep", j, None, self._original[j]) for j in range(start, end)]

    def _drop(self, start: int, end: int) -> list[LineOp]:
        return [LineOp("drop", j, None, self._original[j]) for j in range(start, end)]

    def _take(self, lines: Sequence[int]) -> list[LineOp]:
        return [LineOp("take", None, i, self._texts[i]) for i in lines]

    def _anchored_span(self, b: int, block: Block, column: dict[int, int], doubts: Doubts) -> _Span | None:
        anchors = [(k, column[i]) for k, i in enumerate(block.lines) if column.get(i, TAKE) != TAKE]
        if not anchors:
            return None
        first, last = anchors[0], anchors[-1]
        start = first[1] - self._replaced_above(b, block, first, doubts)
        end = last[1] + 1 + self._replaced_below(b, block, last, doubts)
        body = self._drop(start, first[1]) + self._take(block.lines[: first[0]])
        for (k, j), (next_k, next_j) in pairwise(anchors):
            body += self._anchor(block, k, j, doubts)
            body += self._between(block.lines[k + 1 : next_k], j + 1, next_j, doubts)
        body += self._anchor(block, last[0], last[1], doubts)
        body += self._drop(last[1] + 1, end) + self._take(block.lines[last[0] + 1 :])
        return _Span(b, start, end, body)

    def _replaced_above(self, b: int, block: Block, first: tuple[int, int], doubts: Doubts) -> int:
        """How many lines above the first anchor the unanchored lines before it replace."""
        if first[0] == 0:
            return 0
        doubts.likely("no anchor above new lines")
        if b == 0 and not block.marked_before and first[1] <= 8:
            return first[1]
        return 0

    def _replaced_below(self, b: int, block: Block, last: tuple[int, int], doubts: Doubts) -> int:
        if last[0] == len(block.lines) - 1:
            return 0
        doubts.likely("no anchor below new lines")
        left = len(self._original) - last[1] - 1
        if b == len(self._snippet.blocks) - 1 and not block.marked_after and left <= 8:
            return left
        return 0

    def _anchor(self, block: Block, k: int, j: int, doubts: Doubts) -> list[LineOp]:
        i = block.lines[k]
        kind = self._candidates[i].kind_at(j)
        edge = k in (0, len(block.lines) - 1)
        if kind is Kind.SAME or kind is Kind.REMARKED:
            if self._texts[i] != self._original[j]:
                if self._keeps_trailing_blanks and not edge:
                    return [*self._drop(j, j + 1), *self._take([i])]
                doubts.likely("trailing white space differs")
            return [LineOp("both", j, i, self._original[j])]
        if edge:
            doubts.likely("context misquoted")
        if edge and kind in (Kind.MOVED, Kind.SPACED):
            return [LineOp("both", j, i, self._original[j])]
        return [*self._drop(j, j + 1), *self._take([i])]

    def _between(self, lines: Sequence[int], start: int, end: int, doubts: Doubts) -> list[LineOp]:
        """The stretch between two anchors: the block says all; blank lines pair up from both ends."""
        head = 0
        while head < len(lines) and start + head < end and self._both_blank(lines[head], start + head):
            head += 1
        tail = 0
        while tail < min(len(lines), end - start) - head and self._both_blank(lines[-1 - tail], end - 1 - tail):
            tail += 1
        ops = [LineOp("both", start + h, lines[h], self._original[start + h]) for h in range(head)]
        ops += self._drop(start + head, end - tail) + self._take(lines[head : len(lines) - tail])
        for t in range(tail, 0, -1):
            ops.append(LineOp("both", end - t, lines[-t], self._original[end - t]))
        if any(op.kind == "both" and op.update_line is not None and op.text != self._texts[op.update_line] for op in ops):
            doubts.likely("trailing white space differs")
        return ops

    @cached_property
    def _keeps_trailing_blanks(self) -> bool:
        """Whether the snippet shows trailing white space as the file has it: then a lack of it is meant."""
        shown = (self._texts[i] for block in self._snippet.blocks for i in block.lines)
        trailing = {line for line in self._original if line != line.rstrip()}
        return any(line in trailing for line in shown)

    def _both_blank(self, i: int, j: int) -> bool:
        blank = not self._texts[i].strip() and not self._original[j].strip()
        return blank and (self._texts[i] == self._original[j] or not self._keeps_trailing_blanks)

    def _place_loose(self, spans: list[_Span | None], doubts: Doubts) -> None:
        for b, span in enumerate(spans):
            if span is not None:
                continue
            low = max((s.end for s in spans[:b] if s is not None), default=0)
            high = next((s.start for s in spans[b + 1 :] if s is not None), len(self._original))
            block = self._snippet.blocks[b]
            placement = place_block(self._snippet, b, self._texts, self._original, low, max(low, high))
            doubts.guess(placement.reason)
            spans[b] = _Span(b, placement.at, placement.at, self._loose_body(block, placement))

    def _loose_body(self, block: Block, placement: Placement) -> list[LineOp]:
        """The block's lines with the blank lines that part it from its neighbours, taken from the gaps' lines."""
        before = (
            list(block.gap_before)[len(block.gap_before) - placement.blanks_before :] if placement.blanks_before else []
        )
        after = list(block.gap_after)[: placement.blanks_after]
        for i in (*before, *after):
            self._texts[i] = ""
        return self._take([*before, *block.lines, *after])

    # -- certainty -----------------------------------------------------------------------------------------------------
    def _question(self, alignment: Alignment, chosen: list[int], ops: list[LineOp]) -> None:
        """Whether every changed block can only stand where it was put."""
        place = {op.update_line: op.original_line for op in ops if op.kind == "both"}
        floor = 0
        for b, block in enumerate(self._snippet.blocks):
            columns = [place.get(i) for i in block.lines]
            known = [c for c in columns if c is not None]
            if not known:
                continue
            texts = [self._texts[i] for i in block.lines]
            if any(c is None and t.strip() for c, t in zip(columns, texts, strict=True)) or known[-1] - known[0] >= len(texts):
                low, high = self._scope_range(b, block, place, floor, known[-1])
                if not self._places.is_clear(find_ends(texts, columns, self._original), low, high):
                    self._doubts.likely("anchor not unique")
            floor = known[-1] + 1

    def _scope_range(self, b: int, block: Block, place: dict[int | None, int | None], floor: int, last: int) -> tuple[int, int]:
        """Where a block may lie: behind the block before, inside the shown scopes whose headers are unique."""
        low, high = floor, len(self._original)
        indent = min(indent_of(self._texts[i]) for i in block.lines if self._texts[i].strip())
        for _, i in reversed([(c, i) for c, i in self._visible if c < b]):
            j = place.get(i)
            if indent_of(self._texts[i]) >= indent:
                continue
            indent = indent_of(self._texts[i])
            if j is None or self._index.count(self._texts[i]) != 1:
                continue
            end = self._close_of(j)
            if end >= last:
                high = min(high, end + 1)
        return low, high


def _text_of(ops: Sequence[LineOp]) -> str:
    return "\n".join(op.text for op in ops if op.kind != "drop")
