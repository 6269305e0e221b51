"""Finds twins: other places of the file that a changed block fits as well as the place where it was put.

It judges a finished merge.  A block fits a place if it meets two conditions.  First, the file has all lines there that
the block shows unchanged, ignoring blanks at their ends.  Second, the lines that the block would replace there are as
similar to its new lines as the lines that it replaces here.  A header above the block, the order of the blocks, or a
word can rule a place out.  No fitted numbers are used.

The held lines of a block are the file's lines that fix its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz import fuzz, process

from apply_service.merge.candidates import NO_SCOPE
from apply_service.merge.reading import SECTIONED, ReadSnippet
from apply_service.text.lines import header_name, indent_of, is_branch, is_closer, leading
from apply_service.text.markers import Role
from apply_service.types import LineOp, Merge

MAX_COMPARED = 200
"""At most this many places of one line are compared."""
MAX_PLACES = 5
"""Equal places become readings if there are fewer than this.  Otherwise only their lines are named."""
MAX_TWINS = 12
"""At most this many lines of equal places are named."""
SLACK = 2
"""A block may replace at most this many more lines at another place than it replaces here."""
AS_LIKE = 5.0
"""Two similarities (0 to 100) count as equal if they differ by at most this."""
MIN_LIKE = 60.0
"""The minimum similarity of a replaced line to the new line, if the block shows nothing else."""
_WORD = re.compile(r"`(\w+)`|(\w+)\(|[^\W\d]\w{2,}")
"""Names in a text.  A word of fewer than three letters counts only in backticks or before a bracket."""
_ANY_WORD = re.compile(r"\w+")
COMMON = frozenset(
    ("the", "and", "for", "with", "from", "into", "this", "that", "its", "rest", "code", "existing", "unchanged",
     "same", "keep", "kept", "stays", "stay", "as", "is", "other", "others", "remaining", "remains", "file", "line",
     "lines",
     "previous", "above", "below", "more", "new", "add", "function", "class", "method", "test")
)  # fmt: skip
"""Words of markers and sentences around code that name nothing."""
MIN_REMOVED = 4
"""If another place needs only one changed line, it counts if the merge adds and removes at least this many lines
here."""
_HEADING = re.compile(r"(#{1,6})\s|\[")


class Twin(NamedTuple):
    """Another place of a changed block: its first line in the file, and the merge with the block there.

    `ops` is None if that merge can't be written without a guess.  `is_named`: words name this place, and not the one
    that was taken.
    """

    line: int
    ops: Merge | None
    is_named: bool


class _Part:
    """A block that changes something, as the operations `start:stop` of a merge."""

    def __init__(
        self, reading: ReadSnippet, ops: Merge, span: tuple[int, int], rows: Sequence[int], *, shows_old: bool
    ) -> None:
        self.lines, self.index = reading.original, reading.index
        self.rows = [] if shows_old else [(i, reading.texts[i]) for i in rows]
        """The block's lines, each with its number in the update."""
        start, stop = span
        self.ops, self.start, self.stop = ops, start, stop
        self.own = ops[start:stop]
        self.span = [op.original_line for op in self.own if op.original_line is not None]
        kinds = {"both", "drop"} if shows_old else {"both"}
        shown = [op.original_line for op in self.own if op.kind in kinds and op.text.strip()]
        self.shows_lines = bool(shown)
        gone = [op.original_line for op in self.own if op.kind == "drop" and op.text.strip()]
        self.held = [j for j in shown or gone if j is not None]
        """The lines of the file that fix the block's place: the lines that the block shows, or else those that it
        replaces."""
        self.closes_only = all(is_closer(self.lines[j]) for j in self.held)
        names = [{header_name(op.text) for op in self.own if op.kind == kind} - {None} for kind in ("drop", "take")]
        self.names = names[0] & names[1]
        """The names of definitions that the block replaces with new definitions."""
        above = (op.original_line for op in reversed(ops[: start + 1]) if op.original_line is not None)
        self.at = self.held[0] if self.held else next(above, 0)
        """A line of the file where the block was put."""

    @cached_property
    def new(self) -> list[str]:
        """The new lines below each held line and above the next one."""
        found: dict[int, list[str]] = {j: [] for j in self.held}
        at = None
        for op in self.own:
            at = op.original_line if op.original_line in found else at
            if op.kind == "take" and op.text.strip() and at is not None:
                found[at].append(op.text)
        return ["\n".join(texts) for texts in found.values()]

    def places(self) -> Iterator[list[int]]:
        """Yield, for every other place of the file, the lines there that correspond to the held lines."""
        if not self.shows_lines and len(self.held) == 1 and self.new[0] and "\n" not in self.new[0]:
            new, here = self.new[0].strip(), self.index.stripped[self.held[0]]
            least = max(MIN_LIKE, fuzz.ratio(new, here))
            for _, _, j in process.extract(
                new, self.index.stripped, scorer=fuzz.ratio, score_cutoff=least, limit=MAX_COMPARED
            ):
                if j != self.held[0] and self._defines_as_much([j]):
                    yield [j]
            return
        if not self.held:
            return
        n = min(range(len(self.held)), key=lambda n: self.index.count(self.lines[self.held[n]]))
        for j in self.index.places(self.lines[self.held[n]])[:MAX_COMPARED]:
            ahead, behind = (self._follow(n, j, step) for step in (1, -1))
            if ahead is not None and behind is not None:
                there = [*behind[::-1], j, *ahead]
                if there != self.held and self._is_as_like(there):
                    yield there

    def _defines_as_much(self, there: Sequence[int]) -> bool:
        """Tell whether definitions with the names of those that the block replaces exist there too."""
        low, high = there[0] - self.held[0] + self.span[0], there[-1] - self.held[-1] + self.span[-1] + 1
        return self.names <= {header_name(line) for line in self.lines[max(0, low) : high]}

    def _follow(self, n: int, j: int, step: int) -> list[int] | None:
        """Return the places of the held lines after number `n`, or before it if `step` is negative.  The result is None
        if one of these held lines is missing.  Held line `n` stands at line `j`."""
        found = []
        beyond = range(n, len(self.held) - 1) if step > 0 else range(n, 0, -1)
        for k in beyond:
            text = self.index.stripped[self.held[k + step]]
            usual = abs(self.held[k + step] - self.held[k])
            most = usual + SLACK if usual > 1 else usual
            near = (j + step * by for by in sorted(range(1, most + 1), key=lambda by: abs(by - usual)))
            place = next((at for at in near if 0 <= at < len(self.lines) and self.index.stripped[at] == text), None)
            if place is None:
                return None
            found.append(j := place)
        return found

    def _is_as_like(self, there: Sequence[int]) -> bool:
        """Tell whether the lines that the block replaces there are as similar to its new lines as those that it
        replaces here."""
        moves = any(self.lines[j] != self.lines[k] for j, k in zip(self.held, there, strict=True))
        gaps = zip(pairwise(self.held), pairwise(there), strict=True)
        replaces = any(any(map(str.strip, self.lines[a + 1 : b])) and c + 1 < d for (a, b), (c, d) in gaps)
        if self.closes_only and moves and not replaces:
            return False  # a closing line tells nothing but its indentation
        for (a, b), (c, d), new in zip(pairwise(self.held), pairwise(there), self.new, strict=False):
            here, other = ("\n".join(filter(str.strip, self.lines[x + 1 : y])) for x, y in ((a, b), (c, d)))
            if here == other:
                continue
            # It is a different edit if nothing is removed there, or if new lines are unlike the lines that they would
            # replace.
            if not (other or new):
                return False
            if new and fuzz.ratio(new, other) < (fuzz.ratio(new, here) - AS_LIKE if here else MIN_LIKE):
                return False
        return self._defines_as_much(there)

    def rigid_places(self) -> Iterator[int]:
        """Yield the lines of the file at which the block begins almost unchanged.

        The number of lines that differ there may be at most half the number that the merge changes here.  A block that
        shows a line which the file has only once stays at that line.
        """
        solid = [n for n, (_, text) in enumerate(self.rows) if text.strip()]
        cost = sum(op.kind in ("drop", "take") and op.text.strip() != "" for op in self.own)
        most = max(1, cost // 2)
        here = {op.update_line: op.original_line for op in self.own if op.kind == "both"}
        alone = [n for n in solid if self.index.count(self.rows[n][1]) == 1]
        once = [(n, j) for n in alone if (j := here.get(self.rows[n][0])) is not None]
        starts = (j - n for n in solid for j in self.index.places(self.rows[n][1])[:MAX_COMPARED])
        for at, n_equal in Counter(starts).items():
            if n_equal < max(2, len(solid) - most) or not 0 <= at <= len(self.lines) - len(self.rows):
                continue
            others = [n for n in solid if not self._is_equal(n, at + n)]
            # A line does not fix the block's place if it costs a removal here, while only one line would change there.
            is_held = any(j != at + n for n, j in once) and cost > 0 and not (len(others) == 1 and cost >= MIN_REMOVED)
            is_here = any(here.get(self.rows[n][0]) == at + n for n in solid) and cost > 0
            says = any(n not in others and not is_closer(self.rows[n][1]) for n in solid)
            if len(others) <= most and says and not is_held and not is_here:
                yield at

    def _is_equal(self, n: int, j: int) -> bool:
        return 0 <= j < len(self.lines) and self.rows[n][1].strip() == self.index.stripped[j]

    def laid(self, at: int) -> Merge | None:
        """Return the merge with the block written over the file from line `at` on."""
        equal = next(n for n, (_, text) in enumerate(self.rows) if text.strip() and self._is_equal(n, at + n))
        old, new = leading(self.rows[equal][1]), leading(self.lines[at + equal])
        block = list[LineOp]()
        for n, (i, text) in enumerate(self.rows):
            if self._is_equal(n, at + n):
                block.append(LineOp("both", at + n, i, self.lines[at + n]))
            else:
                block.append(LineOp("drop", at + n, None, self.lines[at + n]))
                block.append(LineOp("take", None, i, _at_margin(text, old, new)))
        return self._with(block, range(at, at + len(self.rows)))

    def moved(self, there: Sequence[int]) -> Merge | None:
        """Return the merge with the block at another place; None if the distances between the held lines differ there,
        or if another change touches that place."""
        by = there[0] - self.held[0]
        if any(k - j != by for j, k in zip(self.held, there, strict=True)) or not self.span[0] + by >= 0:
            return None
        if self.span[-1] + by >= len(self.lines):
            return None
        held = set(self.held)
        for op in self.own:
            j = op.original_line
            if j is None or j in held or self.held[0] < j < self.held[-1]:
                continue
            if self.index.stripped[j] != self.index.stripped[j + by]:
                return None
        old, new = leading(self.lines[self.held[0]]), leading(self.lines[there[0]])
        block = [
            op._replace(text=_at_margin(op.text, old, new))
            if op.original_line is None
            else op._replace(original_line=op.original_line + by, text=self.lines[op.original_line + by])
            for op in self.own
        ]
        return self._with(block, range(self.span[0] + by, self.span[-1] + by + 1))

    def _with(self, block: Sequence[LineOp], covered: range) -> Merge | None:
        """Return the merge with the block moved to the place of the `covered` lines; None if other changes touch these
        lines."""
        stay = [LineOp("keep", j, None, self.lines[j]) for j in self.span]
        rest = [*self.ops[: self.start], *stay, *self.ops[self.stop :]]
        inside = [k for k, op in enumerate(rest) if op.original_line is not None and op.original_line in covered]
        if len(inside) != len(covered) or any(op.kind in ("drop", "take") for op in rest[inside[0] : inside[-1] + 1]):
            return None
        return Merge([*rest[: inside[0]], *block, *rest[inside[-1] + 1 :]])


def find_twins(reading: ReadSnippet, ops: Merge, words: str = "", *, shows_old: bool = False) -> list[Twin]:
    """Return the other places of all changed blocks of a merge, block by block.

    If words name some of a block's places, only those count.  `words`: the text beside the snippet.  `shows_old`: the
    snippet shows the removed lines, as a diff does.
    """
    parts = _changed_parts(reading, ops, shows_old=shows_old)
    roles, texts = reading.snippet.roles, reading.snippet.texts
    marked = (text for text, role in zip(texts, roles, strict=True) if role not in (Role.CONTENT, Role.BLANK))
    said = _words("\n".join([words, *marked]))
    found = list[Twin]()
    for part in parts:
        twins = [*_twins_of(reading, part, parts, said)]
        found += [twin for twin in twins if twin.is_named] or twins
    taken = _text(ops)
    others = dict[tuple[str, ...] | int, Twin]()
    for twin in found:
        own = twin.line if twin.ops is None else _text(twin.ops)
        if own != taken:
            others.setdefault(own, twin)
    known = {twin.line for twin in others.values() if twin.ops is not None}
    return [twin for twin in others.values() if twin.ops is not None or twin.line not in known]


def _text(ops: Merge) -> tuple[str, ...]:
    return tuple(op.text for op in ops if op.kind != "drop")


def _words(text: str) -> set[str]:
    return {(match[1] or match[2] or match[0]).lower() for match in _WORD.finditer(text)} - COMMON


def _changed_parts(reading: ReadSnippet, ops: Merge, *, shows_old: bool) -> list[_Part]:
    """Return the blocks that change something, each with all of its changes; all blocks if nothing changes."""
    block_of = {i: b for b, block in enumerate(reading.snippet.blocks) for i in block.lines}
    places: dict[int, list[int]] = {}
    for k in ops.shown:
        i = ops[k].update_line
        if i is not None and i in block_of:
            places.setdefault(block_of[i], []).append(k)
    found = []
    changes_nothing = not any(op.kind in ("drop", "take") and op.text.strip() for op in ops)
    for b, own in places.items():
        start, stop = own[0], own[-1] + 1
        while start > 0 and ops[start].kind in ("drop", "take") and ops[start - 1].kind == "drop":
            start -= 1
        while stop < len(ops) and ops[stop - 1].kind in ("drop", "take") and ops[stop].kind == "drop":
            stop += 1
        part = _Part(reading, ops, (start, stop), reading.snippet.blocks[b].lines, shows_old=shows_old)
        changes = changes_nothing or any(op.kind in ("drop", "take") and op.text.strip() for op in part.own)
        if changes and all(op.kind != "keep" or not op.text.strip() for op in part.own):
            found.append(part)
    return found


def _names(line: str) -> set[str]:
    """Return the words in the name of the scope that a line opens."""
    return set(_ANY_WORD.findall((header_name(line) or "").lower())) - COMMON


def _twins_of(reading: ReadSnippet, part: _Part, parts: Sequence[_Part], said: Collection[str]) -> Iterator[Twin]:
    lines = reading.original
    shown = {
        j for k in part.ops.shown if not part.start <= k < part.stop and (j := part.ops[k].original_line) is not None
    }
    places, rigid = [*part.places()], [*part.rigid_places()]
    low, high = _bounds(reading, part, parts) if places or rigid else (0, 0)
    found = [(there[0], part.moved(there)) for there in places if low <= there[0] <= there[-1] < high]
    found += [(at, part.laid(at)) for at in rigid if low <= at < at + len(part.rows) <= high]
    above = _scopes(reading, part.at) if found else []
    wanted = {lines[j].strip() for j in above if j in shown}
    for at, ops in found:
        others = _scopes(reading, at)
        own, other = (
            {word for j in set(one) - set(two) for word in _names(lines[j])}
            for one, two in ((above, others), (others, above))
        )
        is_named, is_other_named = (not (a - b).isdisjoint(said) for a, b in ((own, other), (other, own)))
        if wanted <= {lines[j].strip() for j in others} and (is_other_named or not is_named):
            yield Twin(at, ops, is_other_named and not is_named)


def _bounds(reading: ReadSnippet, part: _Part, parts: Sequence[_Part]) -> tuple[int, int]:
    """Return the lines of the file between which the block must stay.

    The bounds are other changed blocks, shown lines that the file has once, and definitions named by markers beside the
    block.
    """
    lines, low, high = reading.original, 0, len(reading.original)
    for other in parts:
        if other.span and other.start < part.start:
            low = max(low, other.span[-1] + 1)
        elif other.span and other.start > part.start:
            high = min(high, other.span[0])
    for k in part.ops.shown:
        op = part.ops[k]
        if op.kind == "both" and op.original_line is not None and part.index.count(op.text) == 1:
            if k < part.start:
                low = max(low, op.original_line + 1)
            elif k >= part.stop:
                high = min(high, op.original_line)
    own = {op.update_line for op in part.own}
    for block in reading.snippet.blocks:
        if own.isdisjoint(block.lines):
            continue
        above, below = (
            {word for i in gap for word in _words(reading.texts[i])} for gap in (block.gap_before, block.gap_after)
        )
        for j, line in enumerate(lines):
            name = header_name(line) if above or below else None
            if name is not None and reading.names[name] == 1:
                if name.lower() in above and j < part.at:
                    low = max(low, j + 1)
                elif name.lower() in below and j > max([part.at, *part.held]):
                    high = min(high, j)
    return low, high


def _scopes(reading: ReadSnippet, j: int) -> list[int]:
    """Return the lines that open the scopes around line `j`, the innermost first."""
    parents = _parents(tuple(reading.original), tuple(reading.index.scope_indents.tolist()), reading.language or "")
    found = []
    while (j := parents[j]) >= 0:
        found.append(j)
    return found


@lru_cache(maxsize=4)
def _parents(lines: Sequence[str], levels: Sequence[int], language: str) -> list[int]:
    """Return the line that opens the scope around each line, or -1 if there is none.

    Scopes follow from indentation, or from headings in files with sections.  A closing line stands inside the scope
    that it closes, and a further branch inside the branch that it continues.
    """
    found, open_lines = list[int](), list[tuple[int, int]]()
    for j, line in enumerate(lines):
        level = levels[j]
        if language in SECTIONED:
            heading = _HEADING.match(line)
            level = NO_SCOPE if heading is None else len(heading[1] or "")
        goes_on = is_closer(line) or is_branch(line)
        inside = indent_of(line) if level == NO_SCOPE and language not in SECTIONED else level
        while (
            level != NO_SCOPE
            and open_lines
            and (open_lines[-1][0] > level or (open_lines[-1][0] == level and not goes_on))
        ):
            open_lines.pop()
        found.append(next((at for by, at in reversed(open_lines) if by < inside or (goes_on and by == inside)), -1))
        if level != NO_SCOPE:
            open_lines.append((level, j))
    return found


def _at_margin(text: str, old: str, new: str) -> str:
    return new + text[len(old) :] if text.startswith(old) and text.strip() else text


def few_twins(twins: Sequence[Twin]) -> list[Merge]:
    """Return the merges of the other places, those with the most similar new and replaced lines first.  If there are
    many, only the most similar count; none if these are too many."""
    known = sorted((twin.ops for twin in twins if twin.ops is not None), key=_how_like, reverse=True)
    if len(twins) >= MAX_PLACES:
        known = [ops for ops in known if _how_like(ops) > _how_like(known[0]) - AS_LIKE]
    return known if len(known) < MAX_PLACES else []


def tell_twins(twins: Sequence[Twin]) -> str:
    """Return a sentence that names the lines of equal places."""
    lines = sorted({twin.line + 1 for twin in twins})
    more = f" and {len(lines) - MAX_TWINS} more" if len(lines) > MAX_TWINS else ""
    told = ", ".join(map(str, lines[:MAX_TWINS]))
    return f"the shown lines fit line{'s' if len(lines) > 1 else ''} {told}{more} as well: show one more line"


def _how_like(ops: Merge) -> float:
    """Return how similar the new lines of a merge are to the lines that they replace (0 to 100), over all changes."""
    old, new = ("\n".join(ops[k].text for k in ops.shown if ops[k].kind == kind) for kind in ("drop", "take"))
    return fuzz.ratio(old, new)
