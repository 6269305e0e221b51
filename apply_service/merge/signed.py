"""Reads lazy snippets whose lines carry the signs of a diff (`+`, `-`, blank) without any `@@`.

`is_signed` decides whether a snippet is of this kind: it looks in the original for the snippet's lines, with and
without their signs.  `read_signed` aligns context and removed lines with the original, all in ascending order.  Then it
places hunks that are out of order, and writes the merge.  As in a diff, only `-` removes a line: lines that the snippet
does not show stay.

Context and removed lines are called quoted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from apply_service.merge.align import Row, Terrain, align
from apply_service.merge.candidates import Candidates, Kind, LineIndex, substance
from apply_service.merge.proposal import Proposal
from apply_service.merge.reading import ReadSnippet
from apply_service.text.indent import Reindent
from apply_service.text.lines import indent_of, leading
from apply_service.text.markers import FENCE, ONLY_ELLIPSIS, Role, classify, is_marker, strip_comment
from apply_service.types import LineKind, LineOp, Merge, Way

EQUAL = (Kind.SAME, Kind.MOVED, Kind.SPACED)
MIN_EVIDENCE = 0.4
MIN_REPEATED = 0.6
"""Added lines count as a repetition of the lines next to them if their total `substance` (how much a line says) is at
least this."""
SKIP_WEIGHT = 0.3
"""The cost of leaving out an original line inside a hunk, as a share of the cost in other snippets."""
MAX_CHAIN = 50
"""At most this many lines beside the added lines are looked at."""
MAX_MOVED = 50
"""A line is also looked for at other indentations if it has at most this many places."""
MAX_PLACES = 500
"""A line helps to tell where its hunk stands only if it has at most this many places."""
DOUBTS = ("unknown", "repeated", "between", "unquoted", "reindented")
REASONS = {
    "context_missing": "a quoted line was not found in the file",
    "context_loose": "a quoted line stands in the file in other words or at another indentation",
    "removed_missing": "a line to remove was not found in the file",
    "removed_loose": "a line to remove stands in the file in other words",
    "ambiguous": "the quoted lines fit another place as well",
    "moved": "quoted lines stand in the file in another order",
    "unknown": "a line without a sign stands nowhere in the file",
    "repeated": "added lines repeat the lines next to them",
    "between": "lines that the snippet does not show lie where it adds some",
    "unquoted": "added lines stand without a quoted line that tells their place",
}
"""Each feature that is a reason for doubt unless it is 0, and its meaning."""
DIFF_INFO = ("diff", "patch", "udiff")


class _Line(NamedTuple):
    """A line of a hunk: its number in the update, its sign, its text without the sign, and the number of the hunk."""

    number: int
    sign: str
    text: str
    hunk: int


class _Choice(NamedTuple):
    """What a reading decides if the snippet leaves it open.  The defaults are the likelier choices."""

    takes_unknown: bool = True
    """Whether an unsigned line that the file lacks counts as a new line with its sign forgotten.  Otherwise it is
    ignored."""
    folds_repeats: bool = True
    """Whether added lines that equal the kept lines next to them are taken to be those lines and are not added
    again."""


def is_signed(original: Sequence[str], update: Sequence[str]) -> bool:
    """Tell whether the snippet's `+`, `-` and blanks in the first column are signs.

    A sign counts if the file has the line without its first column, but not with it.  In lists (`- item`) and in
    continuation lines, the file has the line with its first column.
    """
    index = LineIndex(original)
    signs = {line[0] for line in update if line[:1] in ("+", "-") and not index.count(line)}
    shown = [line for line in update if line.strip()]
    gone = [line[1:] for line in shown if line[0] == "-"]
    if signs == {"+", "-"} and all(line[0] in signs for line in shown) and all(map(index.count, gone)):
        return True  # every line has a sign, so short lines suffice
    evidence, against, added = 0.0, 0.0, 0.0
    shows = False  # whether a line of the file was shown; a fence below such a line belongs to the file
    is_own = False
    for line in update:
        rest = line[1:]
        says = substance(rest.strip())
        if line[:1] in ("`", "~") and FENCE.match(line[:240]):
            is_own = not is_own and (shows or index.count(line) > 0)
            evidence += 0.5 * (_opens_diff(line) and not is_own)
        elif is_own or not line.strip():
            continue
        elif line[0] in " -":
            known, known_raw = _known(index, rest), _known(index, line)
            if line[0] == " ":
                evidence += says * (known == 1.0 > known_raw)
                continue
            if line[1:2] == " " and "+" in signs:
                known = max(known, _known(index, line[2:]))
            evidence += says * (known if known == 1.0 else known / 2) * (known > known_raw)
            against += says * (known < known_raw)
        elif line[0] != "+":
            shows = shows or index.count(line) > 0
        else:
            against += says * (index.count(line) > 0)
            added += 0.5 * (rest[:4] == "    ") + 0.5 * (
                rest[:2] == "  " or rest[:1].isalpha() or rest[:1] in ("\t", "@", "#", "_", "/", "<")
            )
    if added >= 1.0 or any(index.count(line) for line in update if line[:1] not in ("+", "-")):
        evidence += min(added, 1.0)
    return bool(signs) and evidence >= MIN_EVIDENCE and evidence > 2 * against


def read_signed(reading: ReadSnippet, update: Sequence[str]) -> list[Proposal]:
    """Return the readings of a signed snippet, the likeliest first, all with different texts.

    Raises:
        TooLarge: too many lines stand between two lines that occur once.
    """
    reader = _SignedReader(reading.original, update, reading.language, reading.path)
    found: dict[str, Proposal] = {}
    for columns, choice in reader.alternatives():
        ops, texts, features = _Writer(reader, columns, choice).write()
        reasons = tuple(reason for name, reason in REASONS.items() if features[name])
        told = {f"signed_{name}": value for name, value in features.items()}
        found.setdefault(ops.text, Proposal(ops, reading, texts, (Way("signed", len(found)),), reasons, told))
    return list(found.values())


def _known(index: LineIndex, text: str) -> float:
    """Return 1 if the file has the line as it is, a half if only its indentation differs, else 0."""
    return 1.0 if index.has(text.rstrip()) else 0.5 * (index.count(text) > 0)


def _opens_diff(line: str) -> bool:
    """Tell whether the line is a fence that announces a diff."""
    fence = FENCE.match(line[:240])
    return fence is not None and fence["info"].strip().lower() in DIFF_INFO


class _SignedReader:
    """The lines of one snippet, and their possible places in the file."""

    def __init__(self, original: Sequence[str], update: Sequence[str], language: str | None, path: str | None) -> None:
        self.original = original
        self.index = LineIndex(original)
        self.update = update
        self.widths = self._sign_widths()
        signed = [self._split(line) for line in update]
        self.texts = [text for _, text in signed]
        roles = self._roles([sign for sign, _ in signed], language, path)
        self.lines: list[_Line] = []
        self.moved: set[int] = set()
        """Lines that stand out of order."""
        self.margin = 1.0
        """By what share the evidence of a hunk's quoted lines drops at the next best place; the minimum over all
        hunks."""
        hunk = 0
        for i, ((sign, text), role) in enumerate(zip(signed, roles, strict=True)):
            hunk += role in (Role.MARKER, Role.HINT)
            is_end = 0 < i == len(update) - 1 and not update[i]  # the empty text after the last line end is not a line
            if role in (Role.CONTENT, Role.BLANK) and not is_end:
                self.lines.append(_Line(i, sign, text, hunk))
        self.last_hunk = hunk
        self.found = {k: self._find(line) for k, line in enumerate(self.lines) if line.sign != "+"}

    # -- signs -------------------------------------------------------------------------------------------------------
    def _sign_widths(self) -> tuple[int, int]:
        """Return how many columns come before the text in most context lines, and in most signed lines."""
        votes = {sign: Counter({1: 1}) for sign in " -+"}
        leads = {leading(line) for line in self.original if line.strip()[:1] not in ("", "*")}
        for line in self.update:
            if not line.strip() or line[0] not in votes:
                continue
            for width in range(len(line[:2]) - len(line[:2].lstrip("+- ")) + 1):
                rest = line[width:]
                knows = (
                    leading(rest) in leads and rest.strip()[:1] not in ("", "*")
                    if line[0] == "+"
                    else self.index.has(rest.rstrip())
                )
                votes[line[0]][width] += int(100 * substance(rest.strip())) * knows
        signed = votes["+"] + votes["-"]
        parted = all(line[1:2] in ("", " ") for line in self.update if line[:1] in ("+", "-"))
        context = max(votes[" "], key=votes[" "].__getitem__)
        return context, 2 if parted and signed[2] > signed[1] else 1

    def _split(self, line: str) -> tuple[str, str]:
        """Return the sign and text of a line.  A line that the file has only as a whole is unsigned context."""
        wide, signed = self.widths
        if line[:1] in ("+", "-"):
            text = line[2:] if signed == 2 and line[1:2] == " " else line[1:]
            is_own = self.index.has(line.rstrip()) and not self.index.has(text.rstrip())
            return (" ", line) if is_own and (line[0] == "-" or wide == 0) else (line[0], text)
        if line[:1] != " ":
            return " ", line
        ways = [line[width:] for width in (wide, 1, 0, 2) if not line[:width].strip()]
        return " ", next((text for text in ways if self.index.has(text.rstrip())), ways[0])

    def _roles(self, signs: Sequence[str], language: str | None, path: str | None) -> list[Role]:
        texts = list(self.texts)
        first = next((i for i, line in enumerate(texts) if line.strip()), 0)
        if texts and _opens_diff(texts[first]) and not self.index.count(texts[first]):
            texts[first] = "```markdown"  # so that this fence does not count as part of the file, even in Markdown
        roles = classify(texts, self.original, language=language, path=path)
        for i, (sign, text) in enumerate(zip(signs, texts, strict=True)):
            is_code = sign == "+" and (not is_marker(text) or ONLY_ELLIPSIS.match(strip_comment(text).core))
            is_fenced = roles[i] is Role.FENCE and self.update[i][0] == " "
            if is_code or is_fenced or (sign == "-" and roles[i] is not Role.MARKER):
                roles[i] = Role.CONTENT
        for i, (above, line) in enumerate(zip(self.update, self.update[1:], strict=False)):
            if above.startswith("--- ") and line.startswith("+++ ") and not self.index.count(above):
                roles[i] = roles[i + 1] = Role.FILE_NAME
        return roles

    # -- places ------------------------------------------------------------------------------------------------------
    @cached_property
    def _blanks(self) -> Candidates:
        columns = np.flatnonzero(self.index.weights == 0.0).astype(np.int64)
        return Candidates(columns, np.full(len(columns), 0.04), (Kind.SAME,) * len(columns))

    def _find(self, line: _Line) -> Candidates:
        if not line.text.strip():
            return self._blanks
        found = self.index.equal(line.text)
        places = self.index.places(line.text)
        if 0 < len(places) <= MAX_MOVED:
            return found.joined(places, 0.3 * substance(line.text.strip()), Kind.MOVED)
        for look in (self.index.elided, self.index.similar):
            found = found if len(found.columns) else look(line.text)
        return found

    def kind_at(self, k: int, column: int) -> Kind | None:
        """Return how closely line k agrees with the file's line at `column`; None if `column` is no place for it."""
        found = self.found[k]
        return found.kind_at(column) if column in found.columns else None

    def is_equal(self, k: int) -> bool:
        """Tell whether the file has the line, ignoring white space."""
        return bool(self.found[k].kinds) and min(self.found[k].kinds) <= Kind.SPACED

    def _lay(self, lines: Sequence[int], used: Iterable[int] = ()) -> dict[int, int]:
        """Return the column of each given line that has a place.  Columns in `used` are not available."""
        free = np.ones(len(self.original), bool)
        free[list(used)] = False
        rows: list[Row] = []
        for before, k in zip([None, *lines], lines, strict=False):
            line, found = self.lines[k], self.found[k]
            says = substance(line.text.strip())
            gap = before is None or self.lines[before].hunk != line.hunk
            above = -1 if before is None else indent_of(self.lines[before].text)
            here = indent_of(line.text)
            cost = 0.05 if not line.text.strip() else 0.15 + says * (0.9 if self.is_equal(k) else 0.3)
            cost = 0.3 + 2 * cost if line.sign == "-" else cost
            open_columns = free[found.columns]
            scope = 0 if len(found.columns) == 1 else above + 1 if here > above else here
            columns, scores = found.columns[open_columns], found.scores[open_columns]
            rows.append(Row(columns, scores, gap, scope, cost if len(columns) else 0.05))
        terrain = Terrain(self.index.weights * SKIP_WEIGHT, self.index.scope_indents)
        return {lines[match.row]: match.column for match in align(rows, terrain)}

    def _worth(self, columns: Iterable[int]) -> float:
        """Return the sum of `substance` of the lines that the file has."""
        return sum(substance(self.lines[k].text.strip()) for k in columns if self.is_equal(k))

    def _lay_all(self) -> dict[int, int]:
        """Return the column of every quoted line that has a place."""
        rows = list(self.found)
        columns = self._lay(rows)
        late: list[list[int]] = []
        for _, group in groupby(rows, key=lambda k: self.lines[k].hunk):
            hunk = list(group)
            worth = self._worth(columns.keys() & set(hunk))
            if self._worth(hunk) > worth + 0.5 and self._worth(self._lay(hunk)) > 1.5 * worth + 0.5:
                late.append(hunk)
        if late:
            apart = {k for hunk in late for k in hunk}
            columns = self._lay([k for k in rows if k not in apart])
        for _, part in groupby(rows, key=lambda k: (self.lines[k].hunk, k in columns)):
            run = [k for k in part if k not in columns and self.is_equal(k)]
            if run not in late and (self._worth(run) >= 1.5 or any(self.lines[k].sign == "-" for k in run)):
                late.append(run)
        for lines in late:
            found = self._lay([k for k in lines if k not in columns], columns.values())
            self.moved |= found.keys()
            columns |= found
        quoting = {self.lines[k].hunk for k in columns if self.lines[k].text.strip()}
        columns = {k: column for k, column in columns.items() if self.lines[k].hunk in quoting}
        # Quoted lines that the file lacks match the file's lines between their neighbours, if there are as many of
        # these.
        solid = [k for k in self.found if self.lines[k].text.strip()]
        filled: dict[int, int] = {}
        for is_laid, group in groupby(solid, key=columns.__contains__):
            run = list(group)
            low, high = (
                next((k for k in way if k in columns), None)
                for way in (range(run[0], -1, -1), range(run[-1], len(self.lines)))
            )
            if is_laid or low is None or high is None or self.lines[low].hunk != self.lines[high].hunk:
                continue
            hole = [j for j in range(columns[low] + 1, columns[high]) if self.index.stripped[j]]
            if len(hole) == len(run):
                filled.update(zip(run, hole, strict=True))
        columns |= filled
        # If several blank lines fit, the one right above the next line counts.
        used, below = set(columns.values()), None
        for k in sorted(columns, reverse=True):
            next_to = -1 if below is None or self.lines[below].hunk != self.lines[k].hunk else columns[below] - 1
            is_blank = not self.lines[k].text.strip() and columns[k] < next_to and not self.index.stripped[next_to]
            if is_blank and next_to not in used:
                used ^= {columns[k], next_to}
                columns[k] = next_to
            below = k
        return columns

    def alternatives(self) -> list[tuple[dict[int, int], _Choice]]:
        """Return the places and the choices of each reading, the likeliest reading first."""
        columns, plain = self._lay_all(), _Choice()
        self.rivals = self._rival_shifts(columns)
        ways = [(columns, plain)]
        hunk, shift = next((rival for rival in self.rivals.items() if rival[1]), (0, 0))
        if shift:
            moved = {k: column + shift * (self.lines[k].hunk == hunk) for k, column in columns.items()}
            ways.append(({k: column for k, column in moved.items() if 0 <= column < len(self.original)}, plain))
        return [*ways, (columns, _Choice(takes_unknown=False)), (columns, _Choice(folds_repeats=False))]

    def _rival_shifts(self, columns: Mapping[int, int]) -> dict[int, int]:
        """Return, for each hunk, the shift to another place that fits equally well between its neighbours; 0 if there
        is none."""
        shifts: dict[int, int] = {}
        lines: defaultdict[int, list[int]] = defaultdict(list)
        for k in columns:
            lines[self.lines[k].hunk] += [k] if self.lines[k].text.strip() else []
        laid = {hunk: [columns[k] for k in mine if k not in self.moved] for hunk, mine in lines.items()}
        after, changed = len(self.original), {line.hunk for line in self.lines if line.sign != " "}
        for hunk in sorted({line.hunk for line in self.lines}, reverse=True):
            mine, behind, after = lines[hunk], after, min([after, *laid.get(hunk, [])])
            if not mine or hunk not in changed:
                continue
            before = max((max(laid[other], default=-1) for other in (hunk - 1, hunk - 2) if other in laid), default=-1)
            tally: defaultdict[int, float] = defaultdict(float)
            telling = [k for k in mine if len(self.found[k].columns) <= MAX_PLACES]
            if not telling:
                self.margin = 0.0
            for k in telling:
                for column, kind in zip(self.found[k].columns.tolist(), self.found[k].kinds, strict=True):
                    if kind <= Kind.SPACED and before < column < behind:
                        tally[column - columns[k]] += substance(self.lines[k].text.strip())
            own = tally.pop(0, 0.0)
            rival = min(tally, key=lambda shift: (-tally[shift], abs(shift)), default=0)
            self.margin = min(self.margin, 1.0 - (tally[rival] / own if own and rival else 0.0))
            shifts[hunk] = rival if rival and tally[rival] >= own - 1e-9 else 0
        return shifts


class _Writer:
    """One reading: turns the lines of the snippet and their places into operations."""

    def __init__(self, reader: _SignedReader, columns: Mapping[int, int], choice: _Choice) -> None:
        self._reader = reader
        self._original = reader.original
        self._lines = reader.lines
        self._columns = columns
        self._choice = choice
        self._texts = list(reader.texts)
        self._dropped = {c for k, c in columns.items() if self._lines[k].sign == "-"}
        self._doubts: Counter[str] = Counter()

    def write(self) -> tuple[Merge, tuple[str, ...], dict[str, float]]:
        """Return the operations, the update's lines without signs and re-indented, and features that describe how well
        they fit."""
        inserts: defaultdict[int, list[int]] = defaultdict(list)
        for _, group in groupby(range(len(self._lines)), key=lambda k: self._lines[k].hunk):
            hunk = list(group)
            self._reindent(hunk)
            for at, run in self._runs(hunk):
                inserts[at] += self._unrepeated(at, run)
        shown = {c: self._lines[k].number for k, c in self._columns.items() if c not in self._dropped}
        ops: list[LineOp] = []
        for j in range(len(self._original) + 1):
            ops += (LineOp("take", None, i, self._texts[i]) for i in (self._lines[k].number for k in inserts[j]))
            if j < len(self._original):
                kind: LineKind = "drop" if j in self._dropped else "both" if j in shown else "keep"
                ops.append(LineOp(kind, j, shown.get(j), self._original[j]))
        runs = groupby(ops, key=lambda op: op.kind in ("drop", "take"))
        ordered = [
            op for edits, run in runs for op in (sorted(run, key=lambda op: op.kind == "take") if edits else run)
        ]
        context = [k for k, line in enumerate(self._lines) if line.sign == " " and line.text.strip()]
        removed = [k for k, line in enumerate(self._lines) if line.sign == "-" and line.text.strip()]
        kinds = {k: self._reader.kind_at(k, column) for k, column in self._columns.items()}
        exact = sum(kinds.get(k) is Kind.SAME for k in context)
        laid = sum(k in kinds for k in context)
        features = {
            "context_exact": exact / max(1, len(context)),
            "context_loose": (laid - exact) / max(1, len(context)),
            "context_missing": 1.0 - laid / len(context) if context else 0.0,
            "removed_missing": float(sum(k not in kinds for k in removed)),
            "removed_loose": float(sum((kinds.get(k) or Kind.SAME) > Kind.SPACED for k in removed)),
            "ambiguous": float(sum(map(bool, self._reader.rivals.values()))),
            "margin": self._reader.margin,
            "moved": float(len(self._reader.moved)),
            **{name: float(self._doubts[name]) for name in DOUBTS},
        }
        return Merge(ordered), tuple(self._texts), features

    def _reindent(self, hunk: Sequence[int]) -> None:
        """Bring the hunk's lines to the indentation that its quoted lines have in the file."""
        columns, reader = self._columns, self._reader
        quoted = [k for k in hunk if k in columns and self._lines[k].text.strip()]
        votes = Counter(
            (leading(self._lines[k].text), leading(self._original[columns[k]]))
            for k in quoted or columns
            if self._lines[k].text.strip() and reader.kind_at(k, columns[k]) in EQUAL
        )
        shifted = list(hunk)
        if 2 * sum(n for (ours, theirs), n in votes.items() if ours == theirs) >= votes.total():
            # Signs may replace blanks while context lines have no column for signs.  In that case the indentation of
            # all removed lines is off by the same number of columns.
            shifted = [k for k in hunk if self._lines[k].sign != " "]
            removed = [k for k in quoted if self._lines[k].sign == "-" and reader.kind_at(k, columns[k]) in EQUAL]
            votes = Counter((leading(self._lines[k].text), leading(self._original[columns[k]])) for k in removed)
            if not votes or any(ours == theirs for ours, theirs in votes):
                return
        shift = Reindent.of([(ours + "x", theirs + "x") for (ours, theirs), _ in votes.most_common()])
        for k in shifted:
            number = self._lines[k].number
            self._texts[number] = shift.apply(self._texts[number])
        self._doubts["reindented"] += 1

    # -- added lines -------------------------------------------------------------------------------------------------
    def _runs(self, hunk: Sequence[int]) -> list[tuple[int, list[int]]]:
        """Return the hunk's new lines in runs, as (original line, run).  Each run goes right above its original
        line."""
        anchors = [k for k in hunk if k in self._columns]
        new = self._new_lines(hunk)
        if not anchors:
            if not new:
                return []
            # Blank lines are added only to separate the new lines from others.
            place = self._free_place(hunk, new)
            if place and self._original[place - 1].strip():
                new = [k for k in hunk if k < new[0] and not self._lines[k].text.strip()] + new
            while new and not any(map(str.strip, self._original[place:])) and not self._lines[new[-1]].text.strip():
                new = new[:-1]
            return [(place, new)]
        runs: dict[int, list[int]] = {}
        for k in new:
            runs.setdefault(bisect_left(anchors, k), []).append(k)
        near = ((anchors[max(0, n - MAX_CHAIN) : n], anchors[n : n + MAX_CHAIN], run) for n, run in runs.items())
        return [(self._place(above, below, run), run) for above, below, run in near]

    def _new_lines(self, hunk: Sequence[int]) -> list[int]:
        """Return the added lines of a hunk, and those of its unsigned lines that the file lacks, which count as
        added."""
        reader = self._reader
        new = {k for k in hunk if self._lines[k].sign == "+"}
        for k in hunk:
            line = self._lines[k]
            if line.sign != " " or k in self._columns:
                continue
            if not line.text.strip():
                if k - 1 in new and k < hunk[-1]:
                    new.add(k)
            elif not reader.is_equal(k) or k - 1 in new:
                self._doubts["unknown"] += 1
                is_prefixed = reader.widths[0] > 0 and reader.update[line.number][:1] == " "
                if self._choice.takes_unknown and not (is_prefixed and k in (hunk[0], hunk[-1])):
                    new.add(k)
        return sorted(new)

    def _place(self, above: Sequence[int], below: Sequence[int], run: Sequence[int]) -> int:
        """Return the place of a run between the quoted lines above and below it."""
        columns = self._columns
        if not above or not below:
            return columns[above[-1]] + 1 if above else columns[below[0]]
        start, end = columns[above[-1]] + 1, columns[below[0]]
        if end <= start:
            return start
        if not any(line.strip() for line in self._original[start:end]):
            blank_last = not self._lines[run[-1]].text.strip() and self._lines[run[0]].text.strip()
            return end if blank_last and self._lines[above[-1]].sign != "-" else start
        self._doubts["between"] += 1
        late = self._lines[below[0]].sign == "-" or self._chain(above[::-1]) < self._chain(below)
        return end if late and self._lines[above[-1]].sign != "-" else start

    def _chain(self, anchors: Sequence[int]) -> int:
        """Return how many quoted lines, counted from the first, stand next to one another in the file."""
        length = 1
        for one, other in pairwise(anchors):
            low, high = sorted((self._columns[one], self._columns[other]))
            if any(line.strip() for line in self._original[low + 1 : high]):
                break
            length += bool(self._lines[other].text.strip())
        return length

    def _free_place(self, hunk: Sequence[int], new: Sequence[int]) -> int:
        """Return the place of a hunk without quoted lines: the start, the end, or the end of the scope that the
        previous hunk opens."""
        n = len(self._original)
        before = [c + 1 for k, c in self._columns.items() if k < hunk[0]]
        after = [c for k, c in self._columns.items() if k > hunk[-1]]
        number = self._lines[hunk[0]].hunk
        end = n - 1 if n and not self._original[-1] else n
        if number == 0 and not before:
            return 0
        self._doubts["unquoted"] += 1
        if not before or number == self._reader.last_hunk:
            return min(after) if after else end
        start, stop = max(before), min((c for c in after if c >= max(before)), default=end)
        solid = [k for k in new if self._lines[k].text.strip()]
        own = min((indent_of(self._texts[self._lines[k].number]) for k in solid), default=0)
        place = start
        for j in range(start, stop):
            if self._original[j].strip():
                if indent_of(self._original[j]) < own:
                    break
                place = j + 1
        return place

    def _unrepeated(self, at: int, run: list[int]) -> list[int]:
        """Return the run without the lines at its ends that repeat the kept lines beside it."""
        texts = [self._texts[self._lines[k].number].rstrip() for k in run]
        near = min(len(run), MAX_CHAIN)
        stop = min(at + near, len(self._original))
        above = [self._original[j].rstrip() for j in range(max(0, at - near), at) if j not in self._dropped]
        below = [self._original[j].rstrip() for j in range(at, stop) if j not in self._dropped]
        head = max((n for n in range(1, len(above) + 1) if above[-n:] == texts[:n]), default=0)
        tail = max((n for n in range(1, len(below) + 1) if below[:n] == texts[-n:]), default=0)
        low, high = 0, len(run)
        if sum(map(substance, map(str.strip, texts[:head]))) >= MIN_REPEATED:
            low = head
        if sum(map(substance, map(str.strip, texts[len(run) - tail :]))) >= MIN_REPEATED:
            high = max(low, len(run) - tail)
        self._doubts["repeated"] += len(run) - (high - low)
        return run[low:high] if self._choice.folds_repeats else run
