"""The questions that a finished merge must pass before it may call itself certain.

Each question names one way in which a careful reader might understand the snippet differently: in another place,
outside the scope shown, with other words, or with other blank lines.  The answers are features of the reading.  This
module judges a merge; it changes none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from rapidfuzz import fuzz, process
from rapidfuzz.distance import LCSseq

from apply_service.edits.code_lines import find_unit, indent_of, is_closer
from apply_service.edits.lazy.candidates import MAX_FUZZY_LENGTH, LineIndex, squeeze, substance
from apply_service.edits.lazy.misquotes import Quoted
from apply_service.edits.lazy.reading import Reading
from apply_service.edits.markers import Role, names_file
from apply_service.types import LineOp


@dataclass(frozen=True, slots=True)
class LaidBlock:
    """One block that shows at least one line of the original.  Its blank lines are left out."""

    number: int
    """Its index among the snippet's blocks."""
    lines: tuple[int, ...]
    """The numbers of its lines in the update."""
    texts: tuple[str, ...]
    """The lines as the merger read them, without trailing white space."""
    columns: tuple[int | None, ...]
    """For each line the equal line of the original; None for a new line."""
    start: int
    end: int
    """Original lines `start:end`: from the first line that the block shows to the last."""
    opens: bool = False
    """The snippet begins with the block, without a marker."""
    closes: bool = False
    """The snippet ends with the block, without a marker."""

    @property
    def has_new(self) -> bool:
        return None in self.columns


class Laid:
    """A finished merge: its reading, its changes, and its blocks with their places in the original."""

    def __init__(self, reading: Reading, ops: Sequence[LineOp]) -> None:
        self.reading = reading
        shown = ((op.update_line, op.original_line) for op in ops if op.kind == "both")
        self.columns = {i: j for i, j in shown if i is not None and j is not None}
        """The original line of each update line that shows one."""
        solid = [op for op in ops if op.text.strip()]
        self.dropped = {op.original_line for op in solid if op.kind == "drop"}
        """Original lines that the merge removes, except blank ones."""
        self.taken = {op.update_line: op.text for op in solid if op.kind == "take" and op.update_line is not None}
        """Update lines that are new, except blank ones."""
        self.changes: list[tuple[list[LineOp], list[LineOp]]] = []
        """The removed and the added lines of each run of changes, without blank lines."""
        for is_change, run in groupby(ops, key=lambda op: op.kind in ("drop", "take")):
            if is_change:
                changed = [op for op in run if op.text.strip()]
                gone, new = ([op for op in changed if op.kind == kind] for kind in ("drop", "take"))
                self.changes.append((gone, new))
        self.blocks: list[LaidBlock] = []
        """The blocks that show a line of the original."""
        blocks, texts = reading.snippet.blocks, reading.texts
        for b, block in enumerate(blocks):
            lines = tuple(i for i in block.lines if texts[i].strip())
            columns = tuple(self.columns.get(i) for i in lines)
            known = [j for j in columns if j is not None]
            if known:
                said = tuple(texts[i].rstrip() for i in lines)
                opens = b == 0 and not block.marked_before
                closes = b == len(blocks) - 1 and not block.marked_after
                self.blocks.append(LaidBlock(b, lines, said, columns, known[0], known[-1] + 1, opens, closes))

    @cached_property
    def changed(self) -> list[LaidBlock]:
        """The blocks that have a new line or leave out a line of the original."""
        sizes = [len(block.lines) for block in self.reading.snippet.blocks]
        return [block for block in self.blocks if block.has_new or block.end - block.start > sizes[block.number]]


def doubts_of(reading: Reading, ops: Sequence[LineOp]) -> list[str]:
    """The reasons of ALL_DOUBTS that speak against a merge."""
    laid = Laid(reading, ops)
    return [reason for reason, is_true in QUESTIONS if is_true(laid)]


# -- ends that fit another place ---------------------------------------------------------------------------------------
MIN_LETTERS = 6
MAX_TWIN = 3
"""Equal ends elsewhere count as a twin if they are less than this many block lengths apart."""


def is_vague(laid: Laid) -> bool:
    """Whether the ends of a changed block fit another place as well.

    A block shows every line between its first and its last, so only its two ends must be clear.  They are clear under
    three conditions.  The unbroken run of context at one end occurs once where the block may stand.  The run at the
    other end is the nearest such run.  The two ends do not stand together elsewhere.  This is stricter than `Rivals` if
    the context says little, and does not see that a line has moved.
    """
    reading, changed = laid.reading, set(laid.changed)
    floor, above = 0, 0
    headers: list[int] = []
    """The lines shown above a block that are indented less than all shown lines after them; the nearest is last."""
    for block in laid.blocks:
        while above < len(reading.visible) and reading.visible[above][0] < block.number:
            i = reading.visible[above][1]
            while headers and indent_of(reading.texts[headers[-1]]) >= indent_of(reading.texts[i]):
                headers.pop()
            headers.append(i)
            above += 1
        if block in changed:
            # The block must end before the innermost scope above it with a unique header ends.
            ceiling, indent = len(reading.original), min(map(indent_of, block.texts))
            for i in reversed(headers):
                text, j = reading.texts[i], laid.columns.get(i)
                if indent_of(text) < indent:
                    indent = indent_of(text)
                    if j is not None and reading.index.count(text) == 1 and reading.close_of(j) >= block.end - 1:
                        ceiling = min(ceiling, reading.close_of(j) + 1)
            if not _is_clear(laid, block, floor, ceiling) or _has_twin(laid, block, floor):
                return True
        floor = block.end
    return False


def _is_clear(laid: Laid, block: LaidBlock, low: int, high: int) -> bool:
    """Whether the block's ends fit only the place where they were put, if the block lies in `low:high`."""
    index, original = laid.reading.index, laid.reading.original
    head, tail = (_context(laid, block.number, step) for step in (1, -1))
    ends = [original[run.start : run.stop] for run in (head, tail)]
    if not all(any(map(marks_place, lines)) for lines in ends if lines):
        return False
    # Readers look only for a run that has a line with more than brackets and short words.
    head_says, tail_says = (any(sum(map(str.isalnum, line[:200])) >= MIN_LETTERS for line in lines) for lines in ends)
    if not head or not tail:
        run = head or tail
        return bool(run) and len(_occurrences(index, run, low, high)) == 1
    heads = _occurrences(index, head, low, high)
    if len(heads) == 1:
        after = _occurrences(index, tail, head.stop, high)
        return after[:1] == [tail.start] and (len(after) == 1 or tail_says)
    before = [place for place in heads if place + len(head) <= tail.stop - 1]
    return len(_occurrences(index, tail, low, high)) == 1 and before[-1:] == [head.start] and head_says


def _context(laid: Laid, b: int, step: int) -> range:
    """The original lines of the unbroken context at the start (step 1) or the end (-1) of a block.

    Blank lines on its inner side are left out.  The range is empty if the block begins (ends) with new lines.
    """
    original, texts = laid.reading.original, laid.reading.texts
    lines = laid.reading.snippet.blocks[b].lines[::step]
    first, n = laid.columns.get(lines[0]), 0
    if first is None:
        return range(0)
    for i in lines:
        at, column = first + step * n, laid.columns.get(i)
        is_blank = not texts[i].strip() and 0 <= at < len(original) and not original[at].strip()
        if not (is_blank if column is None else column == at):
            break
        n += 1
    while n > 1 and not original[first + step * (n - 1)].strip():
        n -= 1
    return range(first, first + n) if step > 0 else range(first - n + 1, first + 1)


def _occurrences(index: LineIndex, run: range, low: int, high: int) -> list[int]:
    """The first lines of all runs in `low:high` that equal these lines, ignoring white space at both ends of lines."""
    wanted = index.stripped[run.start : run.stop]
    said = next((k for k, text in enumerate(wanted) if text), None)
    starts = (j - said for j in index.places(wanted[said])) if said is not None else ()
    n = len(wanted)
    return [start for start in starts if low <= start <= high - n and index.stripped[start : start + n] == wanted]


def _has_twin(laid: Laid, block: LaidBlock, low: int) -> bool:
    """Whether the first and the last line of a block stand together elsewhere, from line `low` on."""
    index = laid.reading.index
    most = MAX_TWIN * len(laid.reading.snippet.blocks[block.number].lines)
    firsts, lasts = (
        [j for j in index.places(text) if j >= low and j != at and index.lines[j].rstrip() == text.rstrip()]
        for at in (block.start, block.end - 1)
        for text in [index.lines[at]]
    )
    return any(0 < b - a < most for a in firsts for b in lasts)


def marks_place(line: str) -> bool:
    """Whether a line has a letter or digit, or closes something.  A lone sign ("*", "---") may well be new."""
    return any(map(str.isalnum, line[:200])) or is_closer(line)


# -- other places for a block ------------------------------------------------------------------------------------------
REINDENTED = 2.0
"""Cost of reading a block at another indentation than its own."""
HELD_MARGIN = 1.5
"""A rival whose ends both match lines of the original must cost more than the chosen reading by over this."""
FREE_MARGIN = 1.2
"""The same for a rival whose first or last line is new."""
STAY_COST = 1.5
"""Extra cost of a first or last line that is new although an equal line stays elsewhere in the original."""
MIN_LIKENESS = 75.0
"""The least similarity (0-100) at which a new line may be the same as a hidden one."""
MIN_RUN = 1.0
"""Consecutive lines have moved as a whole if their `substance` adds up to this."""
BESIDE = 10
"""Echoes are searched in this many rows on each side of a stretch, plus the block's length."""
MAX_WEIGHED = 200
"""The most rivals of one block that are weighed in full, the cheapest first."""
MIN_EDGE = 0.5
"""The `substance` that the file's first (last) line needs to be recognised in a snippet."""
MAX_STEPS = 30_000
"""The most lines compared for one block, per 256 lines of the block.  The nearest stretches come first."""
WORD = 256


def has_rival(laid: Laid) -> bool:
    """Whether a changed block fits another place as well, at its own indentation or at another one."""
    rows = [j for j, line in enumerate(laid.reading.original) if line.strip()]
    row_of = {j: row for row, j in enumerate(rows)}
    lines = [laid.reading.original[j].rstrip() for j in rows]
    rivals, bare = Rivals(lines), Rivals([line.strip() for line in lines])
    stretches = [Stretch(row_of[block.start], row_of[block.end - 1] + 1) for block in laid.blocks]
    shown = {row for stretch in stretches for row in range(*stretch)}
    floor = 0  # the end of the previous changed block
    for block, stretch in zip(laid.blocks, stretches, strict=True):
        if block.has_new or stretch.stop - stretch.start != len(block.texts):
            shown.difference_update(range(*stretch))
            if rivals.has_rival(block, stretch, floor=floor, shown=shown):
                return True
            block = replace(block, texts=tuple(text.strip() for text in block.texts))
            if bare.has_rival(block, stretch, floor=floor, shown=shown, handicap=REINDENTED):
                return True
            shown.update(range(*stretch))
            floor = stretch.stop
    return False


class Stretch(NamedTuple):
    """Original lines `start:stop`, counted without the blank ones."""

    start: int
    stop: int


class Rivals:
    """Whether another place for a block of one original is as good as the one the merge chose.

    A reading replaces a stretch of the original by the block; all other lines stay.  It costs 1 for each line that it
    removes and 1 for each that it adds.  A line that merely moved counts once.  New lines that resemble hidden lines
    beside the stretch speak against the chosen reading: they probably are those lines.  The answer is certain only if
    every reading that gives another text costs more.

    A stretch holds each end of the block in one of three ways: by an equal line; by the end of the file, if the snippet
    has no marker there; or because no equal line follows farther out, so that the block's line is new.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines`: the original's lines that are not blank, in the form in which they are compared."""
        self._lines = lines
        self._bare = [line.strip() for line in lines]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for row, line in enumerate(lines):
            self._places[line].append(row)

    @cached_property
    def _turned(self) -> tuple[Sequence[str], Sequence[str]]:
        return self._lines[::-1], self._bare[::-1]

    def has_rival(
        self, block: LaidBlock, chosen: Stretch, *, floor: int, shown: Collection[int], handicap: float = 0.0
    ) -> bool:
        """Whether a stretch from row `floor` on is as good a place for the block as `chosen`.

        `shown`: rows that other blocks show; they are not hidden.  `handicap`: extra cost of every rival.
        """
        first, last = block.texts[0], block.texts[-1]
        if block.opens and chosen.start > 0 and first == self._lines[0] and substance(first.strip()) >= MIN_EDGE:
            return True  # The snippet begins like the file, but was placed elsewhere.
        ends_below = block.closes and chosen.stop < len(self._lines)
        if ends_below and last == self._lines[-1] and substance(last.strip()) >= MIN_EDGE:
            return True
        own_cost, own_gone, own_new = self._weigh(block, chosen)
        echo = self._echo(block, own_new, chosen, shown)
        most = own_cost + echo - handicap
        for _, stretch in sorted(self.find(block, chosen, floor, most + HELD_MARGIN))[:MAX_WEIGHED]:
            low, high = min(stretch.start, chosen.start), max(stretch.stop, chosen.stop)
            here, there = (
                [*self._lines[low : place.start], *block.texts, *self._lines[place.stop : high]]
                for place in (stretch, chosen)
            )
            if here == there:  # the same text
                continue
            cost, n_gone, new = self._weigh(block, stretch)
            more_gone, more_new = n_gone - own_gone, new.total() - own_new.total()
            is_anchored = (first, last) == (self._lines[stretch.start], self._lines[stretch.stop - 1])
            if not is_anchored and more_gone >= 0 and more_new >= 0 and more_gone + more_new > 0:
                continue
            limit = most + (FREE_MARGIN if any(self.frees(block, stretch)) else HELD_MARGIN)
            # An echo that both readings have is no reason to prefer either.
            if cost + min(echo, self._echo(block, new & own_new, stretch, shown)) <= limit:
                return True
        return False

    def frees(self, block: LaidBlock, stretch: Stretch) -> tuple[bool, bool]:
        """Whether the first and the last line of the block are new there: no line and no end of the file holds them."""
        lines = self._lines[stretch.start : stretch.stop]
        head = lines[:1] != [block.texts[0]] and not (block.opens and stretch.start == 0)
        tail = lines[-1:] != [block.texts[-1]] and not (block.closes and stretch.stop == len(self._lines))
        return head, tail

    def find(self, block: LaidBlock, around: Stretch, floor: int, limit: float) -> list[tuple[int, Stretch]]:
        """Other stretches than `around` from row `floor` on; of many, only those nearest to `around`.

        Each comes with a lower bound of its cost, which is at most `limit`.  The cost is the number of dropped and of
        new lines; a moved line counts once.
        """
        n, n_block = len(self._lines), len(block.texts)
        longest = n_block + int(limit)
        most = max(2, MAX_STEPS // (2 * (longest + 1) * (1 + n_block // WORD)))
        found = {around: 0}
        for is_back in (False, True):  # first from the rows that hold its first line, then from those of its last line
            texts = block.texts[::-1] if is_back else block.texts
            edges = {row + is_back for row in self._places.get(texts[0], ()) if row >= floor}
            if block.closes if is_back else block.opens:
                edges.add(n if is_back else 0)
            seen = self._places.get(texts[-1], ()) if marks_place(texts[-1]) else ()
            last_seen = -1 if not seen else n - 1 - seen[0] if is_back else seen[-1]
            lines, bare = self._turned if is_back else (self._lines, self._bare)
            masks: dict[str, int] = {}
            for i, line in enumerate(texts):
                masks[line] = masks.get(line, 0) | 1 << i
            may_end = block.opens if is_back else block.closes
            side = _Side(texts, lines, bare, last_seen, may_end, masks, Counter(map(str.strip, texts)))
            for edge in sorted(edges, key=lambda row, middle=around[is_back]: abs(row - middle))[:most]:  # type: ignore[misc]
                start = n - edge if is_back else edge
                end = min(n - floor if is_back else n, start + longest)
                for cost, stop in side.ends(start, end, limit):
                    found.setdefault(Stretch(n - stop, edge) if is_back else Stretch(edge, stop), cost)
        del found[around]
        return [(cost, stretch) for stretch, cost in found.items()]

    def _weigh(self, block: LaidBlock, stretch: Stretch) -> tuple[float, int, Counter[str]]:
        """The cost of laying the block there, the number of removed lines, and the new lines.

        The last two leave out moved lines.
        """
        lines = self._lines[stretch.start : stretch.stop]
        head, tail = self.frees(block, stretch)
        core = block.texts[head : len(block.texts) - tail]
        steps = LCSseq.opcodes(core, lines) if core else ()
        runs = [core[step.src_start : step.src_end] for step in steps if step.tag != "equal"]
        runs = [*([block.texts[:1]] if head else []), *filter(None, runs), *([block.texts[-1:]] if tail else [])]
        """The runs of block lines outside a longest common subsequence of the block and `lines`."""
        n_new = sum(map(len, runs))
        n_gone = len(lines) - (len(block.texts) - n_new)
        here, there = Counter(map(str.strip, block.texts)), Counter(map(str.strip, lines))
        spare = there - (here - Counter(line.strip() for run in runs for line in run))
        moved: list[list[str]] = []
        """The parts of the runs that are also among the removed lines."""
        for run in runs:
            moved.append([])
            for line in map(str.strip, run):
                if spare[line] > 0:
                    spare[line] -= 1
                    moved[-1].append(line)
                else:
                    moved.append([])
        # Lines that moved together save 1 each if they reach `MIN_RUN` together, else only their `substance`.
        said = ((len(part), sum(map(substance, part))) for part in moved)
        spared = sum(n if worth >= MIN_RUN else worth for n, worth in said)
        ends = {line for line, is_free in ((block.texts[0], head), (block.texts[-1], tail)) if is_free}
        stays = sum(line not in lines and line in self._places for line in ends)
        return n_gone + n_new - spared + STAY_COST * stays, (there - here).total(), here - there

    def _echo(self, block: LaidBlock, new: Counter[str], stretch: Stretch, shown: Collection[int]) -> float:
        """How much `substance` of the new lines resembles hidden lines beside the stretch."""
        if not new:
            return 0.0
        width = len(block.texts) + BESIDE
        rows = [*range(max(0, stretch.start - width), stretch.start)]
        rows += range(stretch.stop, min(len(self._lines), stretch.stop + width))
        hidden = {self._bare[row] for row in rows if row not in shown}
        brief = [line for line in hidden if len(line) <= MAX_FUZZY_LENGTH]
        echoes = []
        for line, n in new.items():
            found = None
            if line not in hidden and len(line) <= MAX_FUZZY_LENGTH:
                found = process.extractOne(line, brief, scorer=fuzz.ratio, score_cutoff=MIN_LIKENESS)
            echoes.append(n * substance(line) * (1.0 if line in hidden else found[1] / 100 if found else 0.0))
        return sum(echoes)


class _Side(NamedTuple):
    """Block and original, read forwards, or both reversed."""

    texts: Sequence[str]
    lines: Sequence[str]
    bare: Sequence[str]
    """`lines` without their indentation."""
    last_seen: int
    """The last row of `lines` that equals the block's last line; -1 if there is none, or if the line marks no place."""
    may_end: bool
    """The block may end where `lines` end."""
    masks: Mapping[str, int]
    """For each line of the block a bit mask of its positions in the block."""
    bare_counts: Mapping[str, int]

    def ends(self, start: int, longest: int, limit: float) -> Iterator[tuple[int, int]]:
        """(lower bound of the cost, stop) of each stretch from `start` to at most `longest` whose end holds the block.

        Computes the longest common subsequence of block and stretch for one machine word of block lines at a time
        (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004): once for the whole block, and once for the block
        without its last line.
        """
        n, last = len(self.texts), self.texts[-1]
        whole = full = (1 << n) - 1
        core = full_core = full >> 1
        is_core_asked = longest > self.last_seen  # The last line can be new only after the last row that equals it.
        left, n_bare = dict(self.bare_counts), 0
        for stop in range(start + 1, longest + 1):
            line = self.lines[stop - 1]
            mask = self.masks.get(line)
            if mask is not None:
                here = whole & mask
                whole = ((whole + here) | (whole - here)) & full
                if is_core_asked:
                    here = core & mask
                    core = ((core + here) | (core - here)) & full_core
            if left.get(self.bare[stop - 1], 0) > 0:
                left[self.bare[stop - 1]] -= 1
                n_bare += 1
            common = n - whole.bit_count()
            if line != last:
                if stop < len(self.lines) and self.lines[stop] == last:
                    continue
                if not (self.may_end and stop == len(self.lines)):
                    if stop <= self.last_seen:
                        continue
                    common = n - 1 - core.bit_count()
            cost = n + stop - start - common - n_bare
            if cost <= limit:
                yield cost, stop


# -- scopes ------------------------------------------------------------------------------------------------------------
MAX_HEADER = 2
"""The most lines of a block that only shows a scope."""


def leaves_scope(laid: Laid) -> bool:
    """Whether a block lies outside the scope of the header shown above it, or drops the bounds of its own scope."""
    reading, original = laid.reading, laid.reading.original
    header: int | None = None
    for block in laid.blocks:
        is_known = header is not None and block.columns[0] is not None and block.start >= reading.close_of(header)
        if is_known and header is not None and indent_of(block.texts[0]) > indent_of(original[header]):
            return True
        above: int | None = None
        lows: list[int] = []
        for text, j in zip(block.texts, block.columns, strict=True):
            lows.append(indent_of(text))
            if j is not None:
                # A dropped line is indented less than all lines in its place, the next kept line included.
                gone = [k for k in range(above + 1, j) if k in laid.dropped] if above is not None else []
                if any(reading.index.scope_indents[k] < min(lows) for k in gone):
                    return True
                above, lows = j, []
        last, header = block.end - 1, None
        if len(block.texts) <= MAX_HEADER and not block.has_new:
            below = next((line for line in original[block.end :] if line.strip()), "")
            header = last if indent_of(below) > indent_of(original[last]) else None
    return False


# -- wording -----------------------------------------------------------------------------------------------------------
MIN_KNOWN = 0.3
"""The `substance` that a line needs to be recognised at another indentation."""
MIN_SURE = 0.5
"""The `substance` that a shown line needs to prove that the block is indented like the file."""
MIN_REPEATED = 2.5
"""The `substance` that the lines of a repeated run need together."""


def is_respaced(laid: Laid) -> bool:
    """Whether a new line differs from a line of the file only in white space: on purpose or by mistake.

    Another indentation counts as intended on two conditions: the block shows an indented line as the file has it, and
    its levels are as wide as the file's.
    """
    index = laid.reading.index
    for dropped, taken in laid.changes:
        gone = {op.text.strip() for op in dropped}
        if taken and gone.issuperset(op.text.strip() for op in taken):
            return True
        raw = {op.text for op in dropped}
        trimmed = {text.rstrip() for text in raw}
        known = {squeeze(text) for text in raw if substance(text.strip()) >= MIN_KNOWN}
        for op in taken:
            if op.text in raw:
                continue
            if op.text.rstrip() in trimmed:
                return True
            stands_otherwise = squeeze(op.text) in known
            if not stands_otherwise and op.text[:1] in (" ", "\t") and substance(op.text.strip()) >= MIN_KNOWN:
                places = index.places(op.text)
                stands_otherwise = bool(places) and not any(index.lines[j].rstrip() == op.text.rstrip() for j in places)
            if stands_otherwise and not _shows_margin(laid, op.update_line):
                return True
    return False


def _shows_margin(laid: Laid, i: int | None) -> bool:
    """Whether the block of update line i shows an indented line exactly as the file has it, and not by chance."""
    original = laid.reading.original
    block = next((block for block in laid.blocks if i in block.lines), None)
    if block is None:
        return False
    own, unit = find_unit(block.texts), find_unit(original)
    if own is not None and unit is not None and own != unit:
        return False
    shown = [
        text
        for text, j in zip(block.texts, block.columns, strict=True)
        if j is not None and text == original[j].rstrip()
    ]
    return any(text[:1] in (" ", "\t") and substance(text.strip()) >= MIN_SURE for text in shown)


def is_miscopied(laid: Laid) -> bool:
    """Whether a new line may be a misquoted copy of a line that its block covers."""
    for block in laid.blocks:
        covered = {line.strip() for line in laid.reading.original[block.start : block.end] if line.strip()}
        new = {laid.taken[i].strip() for i in block.lines if i in laid.taken} - covered
        if block.has_new and new and any(map(Quoted(covered).has_copy, new)):
            return True
    return False


def repeats_hidden_run(laid: Laid) -> bool:
    """Whether consecutive new lines equal consecutive hidden lines, indentation included.

    The author of such a run probably meant those hidden lines and not a copy of them.
    """
    lines = [line.rstrip() for line in laid.reading.original]
    shown = set(laid.columns.values())
    rows = [j for j, line in enumerate(lines) if line]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for row, j in enumerate(rows):
        if j not in shown and j not in laid.dropped:
            places[lines[j]].append(row)
    for _, taken in laid.changes:
        said: dict[int, float] = {}
        for op in taken:
            here = places.get(op.text.rstrip(), ())
            said = {row: said.get(row - 1, 0.0) + substance(op.text.strip()) for row in here}
            if any(total >= MIN_REPEATED for total in said.values()):
                return True
    return False


def begins_with_file_name(laid: Laid) -> bool:
    """Whether the first line names the file and was merged as content: it may have been meant only for the reader."""
    roles = laid.reading.snippet.roles
    first = next((i for i, role in enumerate(roles) if role is Role.CONTENT), None)
    if first is None or Role.FILE_NAME in roles:
        return False
    return names_file(laid.reading.texts[first], laid.reading.path)


# -- blank lines -------------------------------------------------------------------------------------------------------
def touches_blank_edge(laid: Laid) -> bool:
    """Whether a change reaches blank lines at the start or end of the file, and the snippet has no marker there.

    The snippet may then replace these blank lines too.
    """
    solid = [j for j, line in enumerate(laid.reading.original) if line.strip()]
    return any(
        (block.opens and 0 < solid[0] == block.start)
        or (block.closes and block.end - 1 == solid[-1] < len(laid.reading.original) - 1)
        for block in laid.changed
    )


def may_hold_blank(laid: Laid) -> bool:
    """Whether a block may begin or end with new lines that include a blank line beside its marker."""
    original, roles = laid.reading.original, laid.reading.snippet.roles
    for block in laid.blocks:
        if not block.has_new:
            continue
        cut = laid.reading.snippet.blocks[block.number]
        covered = [line.rstrip() for line in original[block.start : block.end] if line.strip()]
        for is_marked, gap, beside, rest in (
            (cut.marked_after, cut.gap_after[:1], original[block.end : block.end + 1], block.texts[:-1]),
            (cut.marked_before, cut.gap_before[-1:], original[: block.start][-1:], block.texts[1:]),
        ):
            has_blank = any(roles[i] is Role.BLANK for i in gap)
            # The edge may be new if the rest alone shares as many of the covered lines as the whole block.
            if (
                is_marked
                and has_blank
                and any(line.strip() for line in beside)
                and LCSseq.similarity(rest, covered) == LCSseq.similarity(block.texts, covered)
            ):
                return True
    return False


QUESTIONS: tuple[tuple[str, Callable[[Laid], bool]], ...] = (
    # A new line and its remark stood so far apart that the white space between them may belong to the line.
    ("trailing white space differs", lambda laid: any(map(laid.reading.is_wide, laid.taken))),
    ("file name or comment", begins_with_file_name),
    ("blank lines at the file's start or end", touches_blank_edge),
    ("a line is changed in nothing but its white space", is_respaced),
    ("context misquoted", is_miscopied),
    ("a block leaves its scope", leaves_scope),
    ("new lines repeat hidden ones", repeats_hidden_run),
    ("blank line beside a marker", may_hold_blank),
    ("anchor not unique", is_vague),
    ("another place is as likely", has_rival),
)
"""Pairs of reason and question."""
ALL_DOUBTS = tuple(reason for reason, _ in QUESTIONS)
