"""Placed hunks written into their file: line operations, and the prediction they make.

Last step of the formats that quote what they change.  Quoted lines that stay keep the file's own wording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from apply_service.edits.hunk_places import PlacedHunk, place_hunks
from apply_service.edits.hunks import Hunk, split_at_markers
from apply_service.edits.line_search import FileLines, Likeness, Place
from apply_service.edits.reindent import Reindent
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit
from apply_service.types import Certainty, LineOp, Prediction


def merge_hunks(
    original: str, update: str, hunks: Sequence[Hunk], *, is_ordered: bool, trust: Trust | None = None
) -> Prediction:
    """The original with the hunks in it.

    `is_ordered`: the format puts hunks in the file's order and means them for the original alone; otherwise a hunk may
    change what an earlier one wrote.  `trust`: what the parser has found to be said already.

    Raises:
        NeedsMoreContext: a hunk has no place.
        MalformedEdit: two hunks contradict each other.
    """
    trust = trust or Trust()
    hunks = _without_markers(FileLines(original), hunks, trust)
    update_lines = update.split("\n")
    chained = [] if is_ordered else _chained(original, update_lines, hunks)
    ids = set(map(id, chained))
    ops = _drawn(original, update_lines, [h for h in hunks if id(h) not in ids], trust, is_ordered=is_ordered)
    if chained:
        trust.lower(Certainty.LIKELY, f"{chained[0].label}: changes what another one wrote")
        merged = _text(ops)
        ops = compose(ops, _drawn(merged, update_lines, chained, trust, is_ordered=False))
    is_certain = trust.certainty is Certainty.CERTAIN
    return Prediction(tuple(ops), tuple(update_lines), trust.certainty, tuple(trust.reasons), determined=is_certain)


def write_file(
    original: str, update: str, new: Sequence[tuple[int, str]], trust: Trust, *, has_final_newline: bool = True
) -> Prediction:
    """The original replaced wholly by (line of the update, text)."""
    file, update_lines = FileLines(original), update.split("\n")
    ops = [LineOp("drop", row, None, line) for row, line in enumerate(file.lines)]
    if file.has_final_newline and not has_final_newline:
        ops.append(LineOp("drop", len(file), None, ""))
    for at, text in new:
        update_lines[at] = text
        ops.append(LineOp("take", None, at, text))
    if file.has_final_newline and has_final_newline:
        ops.append(LineOp("keep", len(file), None, ""))
    elif has_final_newline and update_lines[-1] == "":
        ops.append(LineOp("take", None, len(update_lines) - 1, ""))
    is_certain = trust.certainty is Certainty.CERTAIN
    return Prediction(tuple(ops), tuple(update_lines), trust.certainty, tuple(trust.reasons), determined=is_certain)


def compose(first: Sequence[LineOp], second: Sequence[LineOp]) -> list[LineOp]:
    """The operations that do `first` and then, on its output, `second`."""
    ops: list[LineOp] = []
    at = 0
    steps = iter(second)
    for op in first:
        if op.kind == "drop":
            ops.append(op)
            continue
        for step in steps:
            if step.original_line == at:
                ops += _changed(op, step)
                break
            ops.append(step)
        at += 1
    return _drops_first([*ops, *steps])


def _changed(op: LineOp, step: LineOp) -> list[LineOp]:
    """A written line after a second operation on it."""
    if step.kind != "drop":
        return [op]
    return [] if op.original_line is None else [op._replace(kind="drop", update_line=None)]


def _text(ops: Sequence[LineOp]) -> str:
    return "\n".join(op.text for op in ops if op.kind != "drop")


def _without_markers(file: FileLines, hunks: Sequence[Hunk], trust: Trust) -> list[Hunk]:
    """Hunks that leave lines out by a marker, cut there."""
    cut: list[Hunk] = []
    for hunk in hunks:
        parts = split_at_markers(hunk) if hunk.old and not file.stands(hunk.old) else [hunk]
        if len(parts) > 1:
            trust.lower(Certainty.LIKELY, f"{hunk.label}: leaves lines out by a marker")
        cut += parts
    return cut


def _chained(original: str, update_lines: Sequence[str], hunks: Sequence[Hunk]) -> list[Hunk]:
    """Hunks whose quote stands, once and exactly, only in what the other hunks write."""
    file = FileLines(original)
    lost: list[Hunk] = []
    others: list[Hunk] = []
    for hunk in hunks:
        (lost if hunk.old and not file.stands(hunk.old) else others).append(hunk)
    if not lost or not others:
        return []
    written = FileLines(_text(_drawn(original, list(update_lines), others, Trust(), is_ordered=False)))
    found = [(hunk, written.find(hunk.old)) for hunk in lost]
    return [hunk for hunk, places in found if len(places) == 1 and places[0].likeness is Likeness.EXACT]


def _drawn(
    original: str, update_lines: list[str], hunks: Sequence[Hunk], trust: Trust, *, is_ordered: bool
) -> list[LineOp]:
    """The operations of the hunks; `update_lines` becomes what they read and write."""
    file = FileLines(original)
    placed = place_hunks(file, hunks, trust, is_ordered=is_ordered)
    canvas = _Canvas(file, update_lines, trust)
    for hunk in sorted(placed, key=lambda p: (p.start, p.end)):
        canvas.draw(hunk)
    canvas.judge()
    return _drops_first(list(canvas.ops()))


def _drops_first(ops: Sequence[LineOp]) -> list[LineOp]:
    """The same operations, with the drops of every replaced stretch before its takes."""
    ordered: list[LineOp] = []
    for is_change, run in groupby(ops, key=lambda op: op.kind in ("drop", "take")):
        stretch = list(run)
        ordered += sorted(stretch, key=lambda op: op.kind == "take") if is_change else stretch
    return ordered


@dataclass(slots=True)
class _Canvas:
    """What happens to each line of the file, hunk by hunk."""

    file: FileLines
    update_lines: list[str]
    trust: Trust
    shown: dict[int, int] = field(default_factory=dict)
    """Original line -> line of the update that shows it as context."""
    dropped: dict[int, str] = field(default_factory=dict)
    """Original line -> label of the hunk that removes it."""
    added: defaultdict[int, list[LineOp]] = field(default_factory=lambda: defaultdict(list))
    """Gap (before that original line) -> new lines."""
    drawn: set[tuple[object, ...]] = field(default_factory=set)
    loses_newline: bool = False
    newline_from: int | None = None
    """Line of the update that stands for a final newline to be added."""

    def draw(self, placed: PlacedHunk) -> None:
        hunk, place = placed.hunk, placed.place
        key = (placed.start, hunk.old, hunk.new)
        if key in self.drawn:
            self.trust.lower(Certainty.LIKELY, f"{hunk.label}: repeats an earlier one")
            return
        self.drawn.add(key)
        if place is not None and place.is_applied:
            self._show_applied(hunk, place)
            return
        self._draw_lines(placed)
        self._draw_final_newline(placed)

    def judge(self) -> None:
        """What can only be said when all hunks are drawn."""
        contested = sorted(self.shown.keys() & self.dropped.keys())
        if contested:
            label = self.dropped[contested[0]]
            self.trust.lower(Certainty.LIKELY, f"{label}: changes line {contested[0] + 1}, which another one keeps")

    def _show_applied(self, hunk: Hunk, place: Place) -> None:
        new = [line for line in hunk.lines if line.kind != "remove"]
        for line, row in zip(new, place.rows, strict=True):
            if row is not None:
                self._show(row, line.update_line, line.text)

    def _show(self, row: int, update_line: int, text: str) -> None:
        self.shown[row] = update_line
        self.update_lines[update_line] = text

    def _draw_lines(self, placed: PlacedHunk) -> None:
        hunk = placed.hunk
        rows = iter(placed.place.rows if placed.place is not None else ())
        reindent = self._reindent(placed)
        gap, is_new_gap = placed.start, True
        for line in hunk.lines:
            if line.kind == "add":
                self._judge_shared_gap(gap, hunk, is_new=is_new_gap)
                is_new_gap = False
                text = reindent.apply(line.text)
                self.added[gap].append(LineOp("take", None, line.update_line, text))
                self.update_lines[line.update_line] = text
                continue
            row = next(rows)
            if row is None:
                continue
            reindent.pass_line(line.text, self.file.lines[row])
            if line.kind == "remove":
                self._drop(row, hunk)
            else:
                self._show(row, line.update_line, line.text)
            gap, is_new_gap = row + 1, True

    def _reindent(self, placed: PlacedHunk) -> Reindent:
        if placed.place is None or placed.place.likeness < Likeness.EDGES:
            return Reindent({})
        pairs = zip(placed.hunk.old, placed.place.rows, strict=True)
        quoted = [(text, self.file.lines[row]) for text, row in pairs if row is not None]
        return Reindent.of(quoted, placed.hunk.new)

    def _judge_shared_gap(self, gap: int, hunk: Hunk, *, is_new: bool) -> None:
        if is_new and self.added.get(gap):
            self.trust.lower(Certainty.LIKELY, f"{hunk.label}: another one adds lines at the same place")

    def _drop(self, row: int, hunk: Hunk) -> None:
        if row in self.dropped:
            raise MalformedEdit(
                f"{self.dropped[row]} and {hunk.label} both change line {row + 1}",
                value=self.file.lines[row][:200],
                remedy="say each change once",
            )
        self.dropped[row] = hunk.label

    def _draw_final_newline(self, placed: PlacedHunk) -> None:
        hunk, file = placed.hunk, self.file
        if not (hunk.old_lacks_newline or hunk.new_lacks_newline):
            return
        says_old = hunk.old_lacks_newline if placed.place is not None else not file.has_final_newline
        if placed.end != len(file) or says_old == file.has_final_newline:
            self.trust.lower(Certainty.LIKELY, f"{hunk.label}: is wrong about the final newline")
        elif hunk.new_lacks_newline != says_old:
            self.loses_newline = hunk.new_lacks_newline
            self.newline_from = None if hunk.new_lacks_newline else self._spare_line(hunk)

    def _spare_line(self, hunk: Hunk) -> int | None:
        """The update's own empty last line, else the line with the remark."""
        at = len(self.update_lines) - 1 if self.update_lines[-1] == "" else hunk.newline_note
        if at is not None:
            self.update_lines[at] = ""
        return at

    def ops(self) -> Iterator[LineOp]:
        """Every line of the file once, in order, and the new ones between."""
        for row, text in enumerate(self.file.lines):
            yield from self.added.get(row, ())
            if row in self.dropped:
                yield LineOp("drop", row, None, text)
            elif row in self.shown:
                yield LineOp("both", row, self.shown[row], text)
            else:
                yield LineOp("keep", row, None, text)
        n_lines = len(self.file)
        yield from self.added.get(n_lines, ())
        if self.file.has_final_newline:
            yield LineOp("drop" if self.loses_newline else "keep", n_lines, None, "")
        elif self.newline_from is not None:
            yield LineOp("take", None, self.newline_from, "")
