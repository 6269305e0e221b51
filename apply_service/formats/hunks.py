"""Places hunks in a file and writes them.  A hunk keeps, removes and adds lines.

Hunks are the common form of search/replace blocks, diffs and patches.  Each format turns its text into hunks, and
`merge_hunks` finds the place of each hunk and writes it.  The *quote* of a hunk is the lines that it keeps or removes.

If the quote occurs once, there is no choice.  If a quote occurs several times, the stated line number decides, then the
scopes, then the neighbouring hunks.  If the quote is not found, the hunk's result is looked for, because the file may
already have it.  If that is not found either, similar lines are looked for.  Kept lines have the file's wording, and
new lines get the indentation of their place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby, islice, pairwise
from typing import Literal

from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.formats.misquotes import explain, is_clear, rebase
from apply_service.formats.quotes import HunkLine
from apply_service.text.diff import diff_lines
from apply_service.text.fidelity import ops_from_texts
from apply_service.text.indent import Reindent
from apply_service.text.line_search import MAX_PLACES, FileLines, Likeness, Place, find_similar, nearest_lines
from apply_service.text.lines import definition_end
from apply_service.text.markers import is_marker
from apply_service.types import Certainty, Failure, LineOp, Prediction

MAX_SEARCHED = 20
"""At most this many misquoted hunks are looked for, because each search reads the whole file."""
MAX_LABELS = 5
"""An error names at most this many hunks."""
LEAST_LIKE = 0.3
"""A failure names a place only if its score is at least this."""
MIN_TOLD = 4
"""A line with at least this many letters and digits does not stand somewhere by chance."""
MIN_MADE = 2
"""A misquoted hunk counts as already made if its result stands in the file.  That is a guess if the result has fewer
lines than this, not counting blank lines, because a single line may stand there by chance."""


class Trust:
    """Records how far the merge of an edit can be trusted.  The worst recorded reason decides."""

    def __init__(self) -> None:
        self.certainty = Certainty.CERTAIN
        self.failures: list[Failure] = []
        self.made: list[bool] = []
        """For each part of the edit, whether the file already has the change."""
        self._said: dict[str, None] = {}

    def guess(self, reason: str) -> None:
        """Record that the merge does something that the edit does not specify."""
        self.certainty = Certainty.GUESS
        self.note(reason)

    def doubt(self, reason: str) -> None:
        """Record that the merge probably does what the edit says, but not certainly."""
        if self.certainty is Certainty.CERTAIN:
            self.certainty = Certainty.LIKELY
        self.note(reason)

    def note(self, reason: str) -> None:
        """Record something that the caller should know.  It does not lower the certainty."""
        self._said.setdefault(reason)

    def prediction(self, ops: Sequence[LineOp], update_lines: Sequence[str]) -> Prediction:
        """Return the operations together with the recorded reasons, each reason once."""
        is_certain = self.certainty is Certainty.CERTAIN
        return Prediction(
            tuple(ops),
            tuple(update_lines),
            self.certainty,
            tuple(self._said),
            determined=is_certain,
            failures=tuple(self.failures),
            is_made=bool(self.made) and all(self.made),
        )

    def prediction_of(self, original: str, merged: str, update_lines: Sequence[str], n_own: int = 0) -> Prediction:
        """Return the prediction of a merged text that is already written.

        The text's new lines are looked up in `update_lines[n_own:]`.  New lines that are not there are put behind the
        update's lines.
        """
        lines = list(update_lines)
        rows: defaultdict[str, deque[int]] = defaultdict(deque)
        for row, line in enumerate(lines[n_own:], n_own):
            rows[line].append(row)
        ops = []
        for op in ops_from_texts(original, merged):
            if op.kind == "take" and not rows[op.text]:
                rows[op.text].append(len(lines))
                lines.append(op.text)
            if op.kind != "drop" and rows[op.text]:
                op = op._replace(kind="take" if op.kind == "take" else "both", update_line=rows[op.text].popleft())
            ops.append(op)
        return self.prediction(ops, lines)


@dataclass(frozen=True)
class QuotedHunk:
    """One change, with the lines of the file that the edit quotes around it."""

    label: str
    """The name of the hunk in messages, such as "block 2" or "hunk 3".  The number counts the hunks in the edit of one
    file."""
    lines: tuple[HunkLine, ...]
    stated_line: int | None = None
    """The 0-based line of the original at which the hunk starts, according to the edit."""
    scopes: tuple[str, ...] = ()
    """The headers of the scopes that hold the hunk, the outermost first."""
    scopes_bind: bool = False
    """Whether the format defines that the hunk lies in its scopes.  Otherwise the scopes are only a hint."""
    is_at_end: bool = False
    """Whether the edit says that the hunk reaches the end of the file."""
    old_lacks_newline: bool = False
    new_lacks_newline: bool = False
    lacking: tuple[int, int] = (0, 0)
    """Of the edit's last hunk: how many old and new lines it lacks according to its own counts."""
    is_well_formed: bool = False
    """Whether the hunk's own counts are right, so that its line number can be trusted."""

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
        """Whether some old line is not blank, so that the quote can be looked for."""
        return any(line.strip() for line in self.old)

    @property
    def anchor(self) -> str:
        """The longest quoted line, for messages."""
        return max((line.strip() for line in self.old), key=len, default="")[:200]


def signed_lines(body: Sequence[tuple[int, str]]) -> tuple[HunkLine, ...]:
    """Return the lines of a diff's or patch's hunk.  `body`: its lines with signs, as (line of the update, text).

    The first blank of a context line is its sign, and is removed.  If any context line has no such sign, the blanks of
    all context lines are kept.
    """
    keeps_blank = any(text[:1] not in ("", " ", "+", "-", "\\") for _, text in body)
    kinds: dict[str, Literal["remove", "add"]] = {"-": "remove", "+": "add"}
    lines = []
    for at, text in body:
        if kind := kinds.get(text[:1]):
            lines.append(HunkLine(kind, text[1:], at))
        elif text[:1] != "\\":
            lines.append(HunkLine("context", text if keeps_blank else text.removeprefix(" "), at))
    return tuple(lines)


def hunk_of_replacement(
    label: str, old: Sequence[tuple[int, str]], new: Sequence[tuple[int, str]], *, stated_line: int | None = None
) -> QuotedHunk:
    """Return a hunk that replaces old text by new text, both as (line of the update, text).

    Lines that the old and the new text share become context.
    """
    lines: list[HunkLine] = []
    b = 0
    changes = diff_lines([text for _, text in old], [text for _, text in new])
    for a0, a1, b0, b1 in [*changes, (0, 0, len(new), len(new))]:
        lines += (HunkLine("context", text, at) for at, text in new[b:b0])
        lines += (HunkLine("remove", text, at) for at, text in old[a0:a1])
        lines += (HunkLine("add", text, at) for at, text in new[b0:b1])
        b = b1
    return QuotedHunk(label, tuple(lines), stated_line)


# -- the whole ---------------------------------------------------------------------------------------------------------
def merge_hunks(
    original: str, update: str, hunks: Sequence[QuotedHunk], *, is_ordered: bool, trust: Trust
) -> Prediction:
    """Return the merge of the original with the hunks.

    `is_ordered`: the format puts hunks in the file's order, and each hunk changes only the original.  Otherwise a hunk
    may change lines that another hunk writes.  `trust` already holds the reasons that the parser has recorded.

    Raises NeedsMoreContext if a hunk has no place.  Raises MalformedEdit if two hunks contradict each other.
    """
    file, update_lines = FileLines(original), update.split("\n")
    parts = [part for hunk in hunks for part in _cut_at_gaps(file, hunk, trust)]
    lost = [] if is_ordered else [hunk for hunk in parts if hunk.old and not file.stands(hunk.old)]
    if 0 < len(lost) < len(parts):
        others = [hunk for hunk in parts if not hunk.old or file.stands(hunk.old)]
        written = FileLines(_text(_write(file, list(update_lines), others, Trust())))
        if all(len(written.find(hunk.old, 2, Likeness.EXACT)) == 1 for hunk in lost):
            _write(file, list(update_lines), others, trust)
            trust.doubt(f"{lost[0].label}: changes lines that another part of the edit writes")
            merged = _text(_write(written, update_lines, lost, trust))
            return trust.prediction_of(original, merged, update_lines)
    return trust.prediction(_write(file, update_lines, parts, trust, is_ordered=is_ordered), update_lines)


def _cut_at_gaps(file: FileLines, hunk: QuotedHunk, trust: Trust) -> list[QuotedHunk]:
    """Return the parts of a hunk, cut at those context lines that are markers for omitted lines (`...`)."""
    is_gap = [line.kind == "context" and is_marker(line.text) for line in hunk.lines]
    if not any(is_gap) or not hunk.old or file.stands(hunk.old):
        return [hunk]
    runs = groupby(zip(is_gap, hunk.lines, strict=True), key=lambda pair: pair[0])
    cut = [tuple(line for _, line in run) for gap, run in runs if not gap]
    if len(cut) > 1:
        trust.doubt(f"{hunk.label}: leaves lines out with a marker")
    return [QuotedHunk(hunk.label, lines, scopes=hunk.scopes) for lines in cut]


def _text(ops: Sequence[LineOp]) -> str:
    return "\n".join(op.text for op in ops if op.kind != "drop")


def _write(
    file: FileLines, update_lines: list[str], hunks: Sequence[QuotedHunk], trust: Trust, *, is_ordered: bool = False
) -> list[LineOp]:
    """Return the line operations of the hunks, and change `update_lines` to the lines as they are read and written."""
    places = _find_places(file, hunks, trust)
    if is_ordered and any(a.start > b.start for a, b in pairwise(places)):
        trust.doubt("the hunks stand in another order than in the file")
    canvas = _Canvas(file, update_lines, trust)
    placed = (_without_missing(hunk, place) for hunk, place in zip(hunks, places, strict=True))
    for hunk, place in sorted(placed, key=lambda pair: (pair[1].start, pair[1].end)):
        canvas.draw(hunk, place)
    return canvas.ops()


def _without_missing(hunk: QuotedHunk, place: Place) -> tuple[QuotedHunk, Place]:
    """Return the hunk without the blank lines at its edges that the file lacks.  They are removed from its old and from
    its new lines.

    Otherwise such a line would count as a blank line that the hunk adds.
    """
    if (
        place.likeness is Likeness.FUZZY
        or place.is_applied
        or not place.rows
        or None not in (place.rows[0], place.rows[-1])
    ):
        return hunk, place
    n_head = next((k for k, row in enumerate(place.rows) if row is not None), 0)
    n_tail = next((k for k, row in enumerate(reversed(place.rows)) if row is not None), 0)
    old, new = (
        [(line.update_line, line.text) for line in hunk.lines if line.kind != kind] for kind in ("add", "remove")
    )
    old = old[n_head : len(old) - n_tail]
    while n_head and new and not new[0][1].strip():
        n_head, new = n_head - 1, new[1:]
    while n_tail and new and not new[-1][1].strip():
        n_tail, new = n_tail - 1, new[:-1]
    rows = tuple(row for row in place.rows if row is not None)
    lines = hunk_of_replacement(hunk.label, old, new).lines
    return replace(hunk, lines=lines), place._replace(rows=rows)


# -- placing -----------------------------------------------------------------------------------------------------------
def _find_places(file: FileLines, hunks: Sequence[QuotedHunk], trust: Trust) -> list[Place]:
    """Return a place for every hunk, in the order of the hunks.

    Raises NeedsMoreContext if a hunk has no place, not even a probable one.  The error names its longest quoted line.
    """
    found = [file.find(hunk.old) for hunk in hunks]
    # For each hunk: the first row of any later hunk that has only one possible place.
    below = [len(file) + 1]
    for places in reversed(found[1:]):
        below.append(min(below[-1], places[0].start) if len(places) == 1 else below[-1])
    chosen: list[Place] = []
    # `above`: the furthest end of the hunks so far; `n_lost`: hunks whose quote is not in the file; `drift`: how far
    # the last hunk with a stated line stands from that line
    above = n_lost = drift = 0
    for hunk, places, first_below in zip(hunks, found, reversed(below), strict=False):
        if not hunk.old:
            place = Place((), Likeness.EXACT, gap=_gap(file, hunk, trust))
        elif not places:
            n_lost += 1
            try:
                place = _find_lost(file, hunk, n_lost, trust)
            except NeedsMoreContext as error:
                if labels := [other.label for other, rows in zip(hunks, found, strict=True) if rows and other.old]:
                    error.remedy += f"; {name_labels(labels)} can be found, and sent alone"
                raise
        elif len(places) == 1:
            place = _as_made(file, hunk, places[0], trust)
        else:
            expected = 0 if hunk.stated_line is None else hunk.stated_line + drift
            place = _choose(file, hunk, places, range(above, first_below), expected, trust)
        _doubt_quote(file, hunk, place, trust)
        chosen.append(place)
        trust.made.append(place.is_applied)
        above = max(above, place.end)
        drift = drift if hunk.stated_line is None else place.start - hunk.stated_line
    return chosen


def _as_made(file: FileLines, hunk: QuotedHunk, place: Place, trust: Trust) -> Place:
    """Return the place.  If the new lines already stand beside the quoted lines, the place is marked as applied."""
    added = [line.text for line in hunk.lines if line.kind == "add"]
    n_above = next((k for k, line in enumerate(hunk.lines) if line.kind != "add"), 0)
    is_insertion = len(added) + len(hunk.old) == len(hunk.new) and tells_something(added)
    if not is_insertion or place.start < n_above or not file.stands_at(hunk.new, place.start - n_above):
        return place
    trust.doubt(f"{hunk.label}: the lines that it adds stand beside its quote already")
    return place._replace(is_applied=True)


def tells_something(lines: Sequence[str]) -> bool:
    """Tell whether any line is more than brackets and blanks, which may stand anywhere."""
    return any(sum(map(str.isalnum, line)) >= MIN_TOLD for line in lines)


def _doubt_quote(file: FileLines, hunk: QuotedHunk, place: Place, trust: Trust) -> None:
    """Record a doubt about whatever the hunk does not quote exactly."""
    for scope in hunk.scopes if hunk.scopes_bind else ():
        # Record a doubt if the file lacks a scope, even if the lines below it are found exactly.
        if not _rows_of_scope(file, scope, 0, len(file)):
            trust.doubt(f"{hunk.label}: the file has no scope {scope[:100]!r}")
    quoted = zip((line for line in hunk.lines if line.kind != "add"), place.rows, strict=False)
    if place.likeness is Likeness.TRAILING and any(
        line.kind == "remove" and row is not None and line.text.strip() and file.lines[row] != line.text
        for line, row in quoted
    ):
        trust.doubt(f"{hunk.label}: the lines that it replaces end in blanks, which it does not show")
    if place.likeness in DOUBTS and not place.is_applied:
        trust.doubt(f"{hunk.label}: {DOUBTS[place.likeness]}")


def _choose(file: FileLines, hunk: QuotedHunk, places: list[Place], room: range, expected: int, trust: Trust) -> Place:
    """Choose one of several places.  `room`: the rows between the neighbouring hunks that have places."""
    label = hunk.label
    if hunk.stated_line is not None and file.stands_at(hunk.old, hunk.stated_line):
        if not hunk.is_well_formed:
            trust.doubt(f"{label}: fits several places; the line that it states was taken")
        return Place(tuple(range(hunk.stated_line, hunk.stated_line + len(hunk.old))), Likeness.EXACT)
    if hunk.is_at_end and places[-1].end == len(file):
        return places[-1]
    scopes = sorted(_scope_spans(file, hunk.scopes))
    scoped = _inside(scopes, places)
    if len(scoped) == 1:
        if not hunk.scopes_bind or len(scopes) > 1:
            trust.doubt(f"{label}: fits several places; the one in its scope was taken")
        return scoped[0]
    places = scoped or places
    fitting = [place for place in places if room.start <= place.start and place.end <= room.stop]
    if len(fitting) == 1:
        trust.doubt(f"{label}: fits several places; the one between its neighbours was taken")
        return fitting[0]
    places = fitting or places
    chosen = min(places, key=lambda place: abs(place.start - expected))
    rows = ", ".join(str(place.start + 1) for place in places[:5]) + ", ..." * (len(places) > 5)
    trust.guess(
        f"{label}: its lines stand at several places (lines {rows}), and line {chosen.start + 1} was taken; quote "
        "a line beside them that tells the places apart"
    )
    trust.failures.append(
        explain(file, hunk.label, hunk.lines, [chosen, *(place for place in places if place is not chosen)])
    )
    return chosen


def _inside(scopes: Sequence[tuple[int, int]], places: Sequence[Place]) -> list[Place]:
    """Return the places that begin in a scope.  `scopes`: in the order of the file."""
    # the first row of each scope, and the furthest end of the scopes before it
    firsts, ends = [start for start, _ in scopes], [0, *accumulate((end for _, end in scopes), max)]
    return [place for place in places if place.start < ends[bisect_right(firsts, place.start)]]


def _scope_spans(file: FileLines, scopes: Sequence[str]) -> list[tuple[int, int]]:
    """Return the stretches (first row, end) of the innermost scope, each inside a stretch of the scope around it."""
    spans = [(0, len(file))] if scopes else []
    for scope in scopes:
        named = ((row, end) for start, end in spans for row in _rows_of_scope(file, scope, start, end))
        spans = [(row, definition_end(file.lines, row, end)) for row, end in islice(named, MAX_PLACES)]
    return spans


def _rows_of_scope(file: FileLines, scope: str, start: int, end: int) -> list[int]:
    """Return the rows from `start` to `end` that equal the scope's header, or else the rows that contain the header."""
    wanted = scope.strip()
    equal = file.rows_of(Likeness.INDENTED).get(wanted, [])
    first = bisect_left(equal, start)
    if found := [row for row in equal[first : first + MAX_PLACES] if row < end]:
        return found
    return [row for row in range(start, end) if wanted in file.lines[row]]


def _gap(file: FileLines, hunk: QuotedHunk, trust: Trust) -> int:
    """Return the row before which a hunk without a quote goes: the stated line, or the end of its scope or of the file.

    Raises NeedsMoreContext if the edit names none of these.
    """
    if len(file) == 0 or hunk.is_at_end:
        return len(file)
    if hunk.stated_line is not None and hunk.stated_line <= len(file):
        trust.doubt(f"{hunk.label}: shows no line of the file and was placed by its line number alone")
        return hunk.stated_line
    if hunk.scopes_bind and not hunk.scopes:
        trust.doubt(f"{hunk.label}: shows no line of the file and was appended to it")
        return len(file)
    spans = _scope_spans(file, hunk.scopes)
    if not spans:
        raise _needs_context(hunk, "it quotes no line of the file")
    trust.guess(f"{hunk.label}: shows no line of the file and was placed at the end of its scope")
    return spans[0][1]


def _find_lost(file: FileLines, hunk: QuotedHunk, n_lost: int, trust: Trust) -> Place:
    """Return the probable place of a hunk whose quote is not in the file: the place of its result or of similar lines.

    Raises NeedsMoreContext if the file has neither.
    """
    made = file.find(hunk.new, 2, Likeness.TRAILING) if any(map(str.strip, hunk.new)) else []
    if len(made) == 1:
        is_shown = sum(bool(line.strip()) for line in hunk.new) >= MIN_MADE
        tell = trust.doubt if is_shown else trust.guess
        tell(f"{hunk.label}: its old lines are not in the file, which already has the new ones")
        return made[0]._replace(is_applied=True)
    if n_lost > MAX_SEARCHED:
        raise _needs_context(hunk, f"its lines are not in the file, and neither are those of {MAX_SEARCHED} others")
    found, shown = find_similar(file, hunk.old), nearest_lines(file, hunk.old)
    if not found:
        error = _needs_context(hunk, "its lines are not in the file", shown)
        error.failures = [
            explain(file, hunk.label, hunk.lines, find_similar(file, hunk.old, min_score=LEAST_LIKE)).as_dict()
        ]
        raise error
    trust.guess(f"{hunk.label}: its lines are not in the file; the most similar ones were taken:\n{shown}")
    trust.failures.append(explain(file, hunk.label, hunk.lines, found))
    if not is_clear(found):
        trust.note(f"{hunk.label}: several places are similar")
    return rebase(file, hunk.lines, found) or found[0]


DOUBTS = {
    Likeness.EDGES: "quotes blank lines that the file lacks",
    Likeness.INDENTED: "quoted with other indentation",
    Likeness.FOLDED: "quoted with other blanks, quotes or dashes",
}


def name_labels(labels: Sequence[str]) -> str:
    """Return the labels in words, such as `block 1, block 2 and 5 more`."""
    more = f" and {len(labels) - MAX_LABELS} more" if len(labels) > MAX_LABELS else ""
    return ", ".join(labels[:MAX_LABELS]) + more


def _needs_context(hunk: QuotedHunk, why: str, nearest: str = "") -> NeedsMoreContext:
    told = f"; the nearest lines are:\n{nearest}" if nearest else ""
    return NeedsMoreContext(
        f"{hunk.label} has no place in the file: {why}{told}",
        value=hunk.anchor,
        remedy="quote the lines around the change exactly as they stand in the file",
    )


# -- writing -----------------------------------------------------------------------------------------------------------
class _Canvas:
    """Collects the changes of all hunks, by the line of the file."""

    def __init__(self, file: FileLines, update_lines: list[str], trust: Trust) -> None:
        self._file = file
        self._update_lines = update_lines
        self._trust = trust
        self._shown: dict[int, int] = {}  # original line -> line of the update that shows it as context
        self._dropped: dict[int, str] = {}  # original line -> label of the hunk that removes it
        self._added: defaultdict[int, list[LineOp]] = defaultdict(list)  # original line -> new lines above it
        self._drawn: set[tuple[object, ...]] = set()
        self._has_newline = file.has_final_newline

    def draw(self, hunk: QuotedHunk, place: Place) -> None:
        if place.is_applied:
            return
        key = (place.start, hunk.old, hunk.new)
        if key in self._drawn:
            self._trust.doubt(f"{hunk.label}: repeats an earlier change")
            return
        self._drawn.add(key)
        if place.new is not None:
            self._draw_stretch(hunk.label, place, place.new)
            return
        reindent = Reindent({})
        if place.likeness >= Likeness.EDGES:
            quoted = zip(hunk.old, place.rows, strict=True)
            reindent = Reindent.of([(text, self._file.lines[row]) for text, row in quoted if row is not None], hunk.new)
        rows = iter(place.rows)
        gap, is_new_gap = place.start, True
        for line in hunk.lines:
            if line.kind == "add":
                if is_new_gap and self._added.get(gap):
                    self._trust.doubt(f"{hunk.label}: another change adds lines at the same place")
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
                self._shown[row] = line.update_line
                self._update_lines[line.update_line] = line.text
            elif row in self._dropped:
                raise MalformedEdit(
                    f"{self._dropped[row]} and {hunk.label} both change line {row + 1}",
                    value=self._file.lines[row][:200],
                    remedy="combine them into one",
                )
            else:
                self._dropped[row] = hunk.label
            gap, is_new_gap = row + 1, True
        if hunk.old_lacks_newline or hunk.new_lacks_newline:
            self._end_file(hunk, place)

    def _draw_stretch(self, label: str, place: Place, items: Sequence[int | tuple[str, int | None]]) -> None:
        """Write the new lines of a misquoted stretch, and drop the rows that do not stay."""
        at, new = place.start, list[LineOp]()
        for item in (*items, place.end):
            if not isinstance(item, int):
                text, update_line = item
                if update_line is None:
                    update_line = len(self._update_lines)
                    self._update_lines.append(text)
                self._update_lines[update_line] = text
                new.append(LineOp("take", None, update_line, text))
                continue
            self._dropped |= dict.fromkeys(range(at, item), label)
            self._added[item] += new
            at, new = item + 1, []

    def _end_file(self, hunk: QuotedHunk, place: Place) -> None:
        """Apply what the hunk says about the newline at the end of the file."""
        says_newline = not hunk.old_lacks_newline if place.rows else self._file.has_final_newline
        if place.end != len(self._file) or says_newline != self._file.has_final_newline:
            self._trust.doubt(f"{hunk.label}: is wrong about the newline at the end of the file")
        else:
            self._has_newline = not hunk.new_lacks_newline

    def ops(self) -> list[LineOp]:
        """Return the operations, which have every line of the file once and in order.

        In each stretch, new lines come after all removed lines.
        """
        if contested := sorted(self._shown.keys() & self._dropped.keys()):
            row = contested[0]
            self._trust.doubt(f"{self._dropped[row]}: changes line {row + 1}, which another change keeps")
        ops: list[LineOp] = []
        takes: list[LineOp] = []
        lines = [*self._file.lines, ""] if self._file.has_final_newline else self._file.lines
        for row, text in enumerate(lines):
            takes += self._added.get(row, ())
            if row in self._dropped or (row == len(self._file) and not self._has_newline):
                ops.append(LineOp("drop", row, None, text))
                continue
            shown = self._shown.get(row)
            ops += [*takes, LineOp("keep" if shown is None else "both", row, shown, text)]
            takes = []
        if not self._file.has_final_newline:
            takes += self._added.get(len(self._file), ())
        if self._has_newline and not self._file.has_final_newline:
            # The remark about the newline, or the update's own empty last line, stands for the new line end.
            at = max(at for at, line in enumerate(self._update_lines) if not line or line.startswith("\\ "))
            self._update_lines[at] = ""
            takes.append(LineOp("take", None, at, ""))
        return ops + takes
