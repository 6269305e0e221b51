"""Hunks: the common form of search/replace blocks, diffs and patches.  A hunk keeps, removes and adds lines.

Each format turns its text into hunks.  `merge_hunks` finds the place of each hunk and writes it into the file.

Placing: a quote that occurs exactly once leaves no choice.  For a quote that occurs several times, the rest of the edit
decides, in this order: its line number, its scopes, and the hunks around it.  The certainty depends on which of these
decided.  If a quote is not found, the search continues for its result, which may be in the file already, and then for
similar lines.

Writing: quoted lines that stay keep the file's own wording.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice, pairwise
from typing import Literal, NamedTuple

from apply_service.edits.code_lines import definition_end
from apply_service.edits.diff import diff_lines
from apply_service.edits.line_search import MAX_PLACES, FileLines, Likeness, Place, find_similar, nearest_lines
from apply_service.edits.markers import is_marker
from apply_service.edits.reindent import Reindent
from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.types import Certainty, LineOp, Prediction

CLEAR_MARGIN = 0.08
"""A misquoted stretch is reported as ambiguous if its second-best place scores closer than this to the best one."""
MAX_SEARCHED = 20
"""The most misquoted hunks that are searched for, because each search reads the whole file."""
RANK = {Certainty.CERTAIN: 0, Certainty.LIKELY: 1, Certainty.GUESS: 2}


class Trust:
    """How far an edit's reading can be trusted.

    The worst reason that comes up while the edit is parsed, placed and written decides.
    """

    def __init__(self) -> None:
        self.certainty = Certainty.CERTAIN
        self._said: dict[str, None] = {}

    def guess(self, reason: str) -> None:
        """Record that the edit does not say what the merge does."""
        self.certainty = Certainty.GUESS
        self.note(reason)

    def doubt(self, reason: str) -> None:
        """Record that the merge probably does what the edit says, but not certainly."""
        self.certainty = max(self.certainty, Certainty.LIKELY, key=RANK.__getitem__)
        self.note(reason)

    def note(self, reason: str) -> None:
        """Record something that the caller should know.  It does not lower the certainty."""
        self._said.setdefault(reason)

    def prediction(self, ops: Sequence[LineOp], update_lines: Sequence[str]) -> Prediction:
        """The operations together with the recorded reasons, each reason once."""
        is_certain = self.certainty is Certainty.CERTAIN
        return Prediction(tuple(ops), tuple(update_lines), self.certainty, tuple(self._said), determined=is_certain)


class HunkLine(NamedTuple):
    """One line of a hunk, without its prefix.  `update_line`: the number of its line in the update."""

    kind: Literal["context", "remove", "add"]
    text: str
    update_line: int


@dataclass(frozen=True)
class QuotedHunk:
    """One change, with the lines of the file that the edit quotes around it."""

    label: str
    """The name of the hunk in messages, such as "block 2" or "hunk 3"."""
    lines: tuple[HunkLine, ...]
    stated_line: int | None = None
    """The line of the original, counted from 0, at which the hunk starts according to the edit."""
    scopes: tuple[str, ...] = ()
    """The headers of the scopes that hold the hunk, outermost first."""
    scopes_bind: bool = False
    """By the format's definition the hunk lies in its scopes; otherwise the scopes are only a hint."""
    is_at_end: bool = False
    """The edit says that the hunk reaches the end of the file."""
    old_lacks_newline: bool = False
    new_lacks_newline: bool = False
    newline_note: int | None = None
    """The line of the update that tells whether the file ends in a newline."""
    may_be_cut: bool = False
    """The edit ends with this hunk, and the hunk has fewer lines than its own count says."""
    is_well_formed: bool = False
    """The edit's own counts are right, so its line numbers deserve trust."""

    @cached_property
    def old(self) -> tuple[str, ...]:
        """The lines that the hunk expects in the file."""
        return tuple(line.text for line in self.lines if line.kind != "add")

    @cached_property
    def new(self) -> tuple[str, ...]:
        """The lines that the hunk leaves in the file."""
        return tuple(line.text for line in self.lines if line.kind != "remove")

    @property
    def quotes(self) -> bool:
        """Whether an old line is not blank, so that it can be searched for."""
        return any(line.strip() for line in self.old)

    @property
    def anchor(self) -> str:
        """The longest quoted line, for messages."""
        return max((line.strip() for line in self.old), key=len, default="")[:200]


def signed_line(at: int, text: str, *, keeps_blank: bool) -> HunkLine:
    """A line of a diff or patch.

    `keeps_blank`: some context lines lack their leading blank, so no context line loses one here.
    """
    if text[:1] == "-":
        return HunkLine("remove", text[1:], at)
    if text[:1] == "+":
        return HunkLine("add", text[1:], at)
    return HunkLine("context", text[1:] if text[:1] == " " and not keeps_blank else text, at)


def hunk_of_replacement(
    label: str, search: Sequence[tuple[int, str]], replace: Sequence[tuple[int, str]], *, stated_line: int | None = None
) -> QuotedHunk:
    """A hunk from old and new text, both as (line of the update, text).  The lines that they share become context."""
    lines: list[HunkLine] = []
    b = 0
    for a0, a1, b0, b1 in diff_lines([text for _, text in search], [text for _, text in replace]):
        lines += (HunkLine("context", text, at) for at, text in replace[b:b0])
        lines += (HunkLine("remove", text, at) for at, text in search[a0:a1])
        lines += (HunkLine("add", text, at) for at, text in replace[b0:b1])
        b = b1
    lines += (HunkLine("context", text, at) for at, text in replace[b:])
    return QuotedHunk(label, tuple(lines), stated_line)


# -- the whole ---------------------------------------------------------------------------------------------------------
def merge_hunks(
    original: str, update: str, hunks: Sequence[QuotedHunk], *, is_ordered: bool, trust: Trust
) -> Prediction:
    """The merge of the original with the hunks.

    `is_ordered`: the format puts hunks in the file's order, and each hunk changes only the original; otherwise a hunk
    may change lines that an earlier hunk wrote.  `trust`: holds the reasons that the parser has recorded.

    Raises:
        NeedsMoreContext: a hunk has no place.
        MalformedEdit: two hunks contradict each other.
    """
    file, update_lines = FileLines(original), update.split("\n")
    parts: list[QuotedHunk] = []
    for hunk in hunks:
        cut = _cut_at_markers(hunk) if hunk.old and not file.stands(hunk.old) else [hunk]
        if len(cut) > 1:
            trust.doubt(f"{hunk.label}: leaves lines out by a marker")
        parts += cut
    chained: list[QuotedHunk] = []
    lost = [] if is_ordered else [hunk for hunk in parts if hunk.old and not file.stands(hunk.old)]
    if 0 < len(lost) < len(parts):
        others = [hunk for hunk in parts if not hunk.old or file.stands(hunk.old)]
        written = FileLines(_text(_draw(file, list(update_lines), others, Trust(), is_ordered=False)))
        found = [(hunk, written.find(hunk.old)) for hunk in lost]
        chained = [hunk for hunk, places in found if len(places) == 1 and places[0].likeness is Likeness.EXACT]
    ids = set(map(id, chained))
    first = [hunk for hunk in parts if id(hunk) not in ids]
    ops = _draw(file, update_lines, first, trust, is_ordered=is_ordered)
    if chained:
        trust.doubt(f"{chained[0].label}: changes what another one wrote")
        ops = compose(ops, _draw(FileLines(_text(ops)), update_lines, chained, trust, is_ordered=False))
    return trust.prediction(ops, update_lines)


def write_file(
    original: str, update: str, new: Sequence[tuple[int, str]], trust: Trust, *, has_final_newline: bool = True
) -> Prediction:
    """The merge that replaces the whole original by the given lines, each as (line of the update, text)."""
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
    return trust.prediction(ops, update_lines)


def compose(first: Sequence[LineOp], second: Sequence[LineOp]) -> list[LineOp]:
    """The operations that have the effect of `first` and then of `second` on its output."""
    ops: list[LineOp] = []
    at = 0
    steps = iter(second)
    for op in first:
        if op.kind == "drop":
            ops.append(op)
            continue
        for step in steps:
            if step.original_line != at:
                ops.append(step)
                continue
            if step.kind != "drop":
                ops.append(op)
            elif op.original_line is not None:
                ops.append(op._replace(kind="drop", update_line=None))
            break
        at += 1
    return _drops_first([*ops, *steps])


def _drops_first(ops: Sequence[LineOp]) -> list[LineOp]:
    """The same operations, with the drops of every replaced stretch before its takes."""
    ordered: list[LineOp] = []
    for is_change, run in groupby(ops, key=lambda op: op.kind in ("drop", "take")):
        stretch = list(run)
        ordered += sorted(stretch, key=lambda op: op.kind == "take") if is_change else stretch
    return ordered


def _text(ops: Sequence[LineOp]) -> str:
    return "\n".join(op.text for op in ops if op.kind != "drop")


def _cut_at_markers(hunk: QuotedHunk) -> list[QuotedHunk]:
    """The parts of the hunk between context lines that stand for omitted lines (`...`), in order and with its label."""
    parts: list[list[HunkLine]] = [[]]
    for line in hunk.lines:
        if line.kind == "context" and is_marker(line.text):
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return [hunk]
    return [QuotedHunk(hunk.label, tuple(part), scopes=hunk.scopes) for part in parts if part]


def _draw(
    file: FileLines, update_lines: list[str], hunks: Sequence[QuotedHunk], trust: Trust, *, is_ordered: bool
) -> list[LineOp]:
    """The operations of the hunks.  `update_lines` is changed to the lines that the hunks read and write."""
    places = _Placement(file, hunks, trust).run()
    if is_ordered and any(a.start > b.start for a, b in pairwise(places)):
        trust.doubt("the hunks are not in the file's order")
    canvas = _Canvas(file, update_lines, trust)
    for hunk, place in sorted(zip(hunks, places, strict=True), key=lambda placed: (placed[1].start, placed[1].end)):
        canvas.draw(hunk, place)
    return _drops_first(list(canvas.ops()))


# -- placing -----------------------------------------------------------------------------------------------------------
class _Placement:
    """Finds a place for every hunk, in the order of the hunks.

    Raises:
        NeedsMoreContext: a hunk has no place, not even a probable one; the error names its anchor.
    """

    def __init__(self, file: FileLines, hunks: Sequence[QuotedHunk], trust: Trust) -> None:
        self._file = file
        self._hunks = hunks
        self._trust = trust
        self._n_searched = 0

    def run(self) -> list[Place]:
        found = [self._file.find(hunk.old) for hunk in self._hunks]
        # For each hunk: the first line of all later hunks that have only one possible place.
        below = [len(self._file) + 1]
        for places in reversed(found[1:]):
            below.append(min(below[-1], places[0].start) if len(places) == 1 else below[-1])
        chosen: list[Place] = []
        above = 0  # the end of the hunks so far
        drift = 0  # the distance between the last hunk's stated line and its place
        for hunk, places, first_below in zip(self._hunks, found, reversed(below), strict=False):
            if not hunk.old:
                place = Place((), Likeness.EXACT, gap=self._gap(hunk))
            elif not places:
                place = self._find_lost(hunk)
            else:
                place = places[0] if len(places) == 1 else self._choose(hunk, places, (above, first_below), drift)
            chosen.append(place)
            above = max(above, place.end)
            if hunk.stated_line is not None:
                drift = place.start - hunk.stated_line
        for hunk, place in zip(self._hunks, chosen, strict=True):
            if place.rows:
                self._judge(hunk, place)
        return chosen

    def _choose(self, hunk: QuotedHunk, places: list[Place], between: tuple[int, int], drift: int) -> Place:
        """Choose one of several places."""
        trust, label = self._trust, hunk.label
        if hunk.stated_line is not None and self._file.stands_at(hunk.old, hunk.stated_line):
            if not hunk.is_well_formed:
                trust.doubt(f"{label}: not unique, taken at the line it states")
            return Place(tuple(range(hunk.stated_line, hunk.stated_line + len(hunk.old))), Likeness.EXACT)
        if hunk.is_at_end and places[-1].end == len(self._file):
            return places[-1]
        scopes = self._scope_spans(hunk.scopes)
        scoped = [place for place in places if any(start <= place.start < end for start, end in scopes)]
        if hunk.scopes and not scopes:
            trust.doubt(f"{label}: no scope {' > '.join(hunk.scopes)[:100]!r}")
        if len(scopes) > 1:
            trust.doubt(f"{label}: its scope is not unique")
        if scopes and not scoped:
            scoped = [place for place in places if place.start >= scopes[0][0]][:1]
            trust.doubt(f"{label}: not unique, taken below its scope's first line")
        if len(scoped) == 1:
            if not hunk.scopes_bind:
                trust.doubt(f"{label}: not unique, settled by its heading")
            return scoped[0]
        places = scoped or places
        fitting = [place for place in places if between[0] <= place.start and place.end <= between[1]]
        if len(fitting) == 1:
            trust.doubt(f"{label}: not unique, settled by the order of the hunks")
            return fitting[0]
        places = fitting or places
        rows = ", ".join(str(place.start + 1) for place in places[:5])
        trust.guess(f"{label}: its lines stand at several places (lines {rows})")
        if hunk.stated_line is None:
            return places[0]
        expected = hunk.stated_line + drift
        return min(places, key=lambda place: abs(place.start - expected))

    def _scope_spans(self, scopes: Sequence[str]) -> list[tuple[int, int]]:
        spans = [(0, len(self._file))] if scopes else []
        for scope in scopes:
            named = ((row, end) for start, end in spans for row in self._rows_of_scope(scope, start, end))
            spans = [(row, definition_end(self._file.lines, row, end)) for row, end in islice(named, MAX_PLACES)]
        return spans

    def _rows_of_scope(self, scope: str, start: int, end: int) -> list[int]:
        """The lines that equal the scope's header; else those that begin with it; else those that contain it."""
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
        """The file's lines without white space at their ends, sorted, with their rows."""
        return sorted((line.strip(), row) for row, line in enumerate(self._file.lines))

    def _gap(self, hunk: QuotedHunk) -> int:
        """The place of a hunk that quotes no line: the place that the edit states, if it states one."""
        n_lines, trust, label = len(self._file), self._trust, hunk.label
        if n_lines == 0:
            return 0
        if hunk.stated_line is not None and hunk.stated_line <= n_lines:
            trust.doubt(f"{label}: no context, placed by its line number alone")
            return hunk.stated_line
        if hunk.is_at_end:
            return n_lines
        if hunk.scopes_bind and not hunk.scopes:
            trust.doubt(f"{label}: quotes no line, appended to the file")
            return n_lines
        spans = self._scope_spans(hunk.scopes)
        if not spans:
            raise _needs_context(hunk, "it quotes no line of the file")
        trust.guess(f"{label}: no context, placed at the end of its scope")
        return spans[0][1]

    def _find_lost(self, hunk: QuotedHunk) -> Place:
        """The probable place of a hunk whose quote is not in the file: its result, or else the most similar lines."""
        made = self._file.find(hunk.new, loosest=Likeness.TRAILING) if any(map(str.strip, hunk.new)) else []
        made = [place for place in made if place.likeness <= Likeness.TRAILING]
        if len(made) == 1:
            self._trust.guess(f"{hunk.label}: not found, but its result stands in the file already")
            return made[0]._replace(is_applied=True)
        self._n_searched += 1
        if self._n_searched > MAX_SEARCHED:
            raise _needs_context(hunk, f"its lines are not in the file, and neither are those of {MAX_SEARCHED} others")
        found, shown = find_similar(self._file, hunk.old), nearest_lines(self._file, hunk.old)
        if not found:
            raise _needs_context(hunk, "its lines are not in the file", shown)
        self._trust.guess(f"{hunk.label}: not found, taken at the most similar lines:\n{shown}")
        if len(found) > 1 and found[0].score - found[1].score < CLEAR_MARGIN:
            self._trust.note(f"{hunk.label}: several places are similar")
        return found[0].place

    def _judge(self, hunk: QuotedHunk, place: Place) -> None:
        for scope in hunk.scopes if hunk.scopes_bind else ():
            # Doubt a scope that the file lacks, even if the lines below it are found exactly.
            if not self._rows_of_scope(scope, 0, len(self._file)):
                self._trust.doubt(f"{hunk.label}: no scope {scope[:100]!r}")
        if place.is_applied:
            return
        said = {
            Likeness.EDGES: "quotes blank lines that the file lacks",
            Likeness.INDENTED: "quoted with other indentation",
            Likeness.FOLDED: "quoted with other blanks, quotes or dashes",
        }.get(place.likeness)
        quoted = zip((line for line in hunk.lines if line.kind != "add"), place.rows, strict=True)
        if place.likeness is Likeness.TRAILING and any(
            line.kind == "remove" and row is not None and line.text.strip() and self._file.lines[row] != line.text
            for line, row in quoted
        ):
            said = "replaced lines end in blanks that it doesn't quote"
        if said is not None:
            self._trust.doubt(f"{hunk.label}: {said}")


def _needs_context(hunk: QuotedHunk, why: str, nearest: str = "") -> NeedsMoreContext:
    told = f"; the nearest lines are:\n{nearest}" if nearest else ""
    return NeedsMoreContext(
        f"{hunk.label} has no place in the file: {why}{told}",
        value=hunk.anchor,
        remedy="quote the lines around the change exactly as they stand in the file",
    )


# -- writing -----------------------------------------------------------------------------------------------------------
class _Canvas:
    """Collects, hunk by hunk, the change of each line of the file."""

    def __init__(self, file: FileLines, update_lines: list[str], trust: Trust) -> None:
        self._file = file
        self._update_lines = update_lines
        self._trust = trust
        self._shown: dict[int, int] = {}  # original line -> line of the update that shows it as context
        self._dropped: dict[int, str] = {}  # original line -> label of the hunk that removes it
        self._added: defaultdict[int, list[LineOp]] = defaultdict(list)  # gap (before that original line) -> new lines
        self._drawn: set[tuple[object, ...]] = set()
        self._loses_newline = False
        self._newline_from: int | None = None  # line of the update that stands for a final newline to be added

    def draw(self, hunk: QuotedHunk, place: Place) -> None:
        key = (place.start, hunk.old, hunk.new)
        if key in self._drawn:
            self._trust.doubt(f"{hunk.label}: repeats an earlier one")
            return
        self._drawn.add(key)
        if not place.is_applied:
            self._draw_lines(hunk, place)
            self._draw_final_newline(hunk, place)
            return
        for line, row in zip((line for line in hunk.lines if line.kind != "remove"), place.rows, strict=True):
            if row is not None:
                self._show(row, line)

    def _show(self, row: int, line: HunkLine) -> None:
        self._shown[row] = line.update_line
        self._update_lines[line.update_line] = line.text

    def _draw_lines(self, hunk: QuotedHunk, place: Place) -> None:
        reindent = Reindent({})
        if place.likeness >= Likeness.EDGES:
            quoted = zip(hunk.old, place.rows, strict=True)
            reindent = Reindent.of([(text, self._file.lines[row]) for text, row in quoted if row is not None], hunk.new)
        rows = iter(place.rows)
        gap, is_new_gap = place.start, True
        for line in hunk.lines:
            if line.kind == "add":
                if is_new_gap and self._added.get(gap):
                    self._trust.doubt(f"{hunk.label}: another one adds lines at the same place")
                is_new_gap = False
                text = reindent.apply(line.text)
                self._added[gap].append(LineOp("take", None, line.update_line, text))
                self._update_lines[line.update_line] = text
                continue
            row = next(rows)
            if row is None:
                continue
            reindent.pass_line(line.text, self._file.lines[row])
            if line.kind == "context":
                self._show(row, line)
            elif row not in self._dropped:
                self._dropped[row] = hunk.label
            else:
                raise MalformedEdit(
                    f"{self._dropped[row]} and {hunk.label} both change line {row + 1}",
                    value=self._file.lines[row][:200],
                    remedy="state each change only once",
                )
            gap, is_new_gap = row + 1, True

    def _draw_final_newline(self, hunk: QuotedHunk, place: Place) -> None:
        if not (hunk.old_lacks_newline or hunk.new_lacks_newline):
            return
        has_newline = self._file.has_final_newline
        says_old = hunk.old_lacks_newline if place.rows else not has_newline
        if place.end != len(self._file) or says_old == has_newline:
            self._trust.doubt(f"{hunk.label}: is wrong about the final newline")
        elif hunk.new_lacks_newline and not says_old:
            self._loses_newline, self._newline_from = True, None
        elif says_old and not hunk.new_lacks_newline:
            # The update's own empty last line stands for the new line end, or else the line with the remark.
            at = len(self._update_lines) - 1 if self._update_lines[-1] == "" else hunk.newline_note
            self._loses_newline, self._newline_from = False, at
            if at is not None:
                self._update_lines[at] = ""

    def ops(self) -> Iterator[LineOp]:
        """Every line of the file once and in order, with the new lines between them."""
        if contested := sorted(self._shown.keys() & self._dropped.keys()):
            row = contested[0]
            self._trust.doubt(f"{self._dropped[row]}: changes line {row + 1}, which another one keeps")
        for row, text in enumerate(self._file.lines):
            yield from self._added.get(row, ())
            if row in self._dropped:
                yield LineOp("drop", row, None, text)
            elif row in self._shown:
                yield LineOp("both", row, self._shown[row], text)
            else:
                yield LineOp("keep", row, None, text)
        n_lines = len(self._file)
        yield from self._added.get(n_lines, ())
        if self._file.has_final_newline:
            yield LineOp("drop" if self._loses_newline else "keep", n_lines, None, "")
        elif self._newline_from is not None:
            yield LineOp("take", None, self._newline_from, "")
