"""Which lines a sketch shows, grown until a reader of the original and the snippet alone can tell every place.

`Outline` finds scopes by indentation, `align` joins both texts into one list of items, `Clarity` judges whether a
block's place can be told, `Layout` chooses.  No text is written here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel

from apply_eval.line_diff import Hunk
from apply_eval.sketch_styles import SketchStyle

_DEFINITION = re.compile(
    r"^\s*(?:@\w+\s+)?(?:(?:export|default|pub(?:\([^)]*\))?|public|private|protected|internal|static|final|abstract|"
    r"async|override|virtual|inline|const|unsafe|extern|open|suspend|data|sealed|readonly|declare|local)\s+)*"
    r"(?:def|class|func|fn|fun|function\*?|interface|struct|enum|impl|trait|module|mod|namespace|object|record|type|"
    r"describe|it|test|context|resource|union|template)\b"
)
_METHOD = re.compile(r"^\s*[\w<>\[\],.&*?:~\s]*\w\s*\([^;]*\)?\s*(?:const|noexcept|throws [\w., ]+|->.*|:.*)?\s*\{\s*$")
_CONTROL = re.compile(
    r"^\s*(?:\}?\s*(?:else|elif|catch|except|finally|rescue|ensure)\b|if\b|for\b|while\b|switch\b|match\b|try\b|with\b|do\b|return\b|case\b)"
)
_CLOSER = re.compile(r"^\s*(?:[})\]]|end\b|</|fi\b|done\b|esac\b)")
_DECORATOR = re.compile(r"^\s*(?:@\w|#\[|\[\w)")
_FLAT_HEADER = {"markdown": "#", "toml": "["}
_NESTED_DATA = frozenset({"yaml", "json", "html", "css", "vue", "svelte", "markdown", "toml"})


def indent_of(line: str) -> int:
    """Leading white-space characters, -1 for a blank line."""
    stripped = line.lstrip()
    return len(line) - len(stripped) if stripped else -1


def is_definition(line: str) -> bool:
    """Whether the line looks like the head of a function, class or the like."""
    if _CONTROL.match(line):
        return False
    return _DEFINITION.match(line) is not None or (line.rstrip().endswith("{") and _METHOD.match(line) is not None)


class Outline:
    """Scopes of one text, asked by line number (0-based)."""

    def __init__(self, lines: Sequence[str], language: str | None) -> None:
        self.lines = lines
        self.indents = [indent_of(line) for line in lines]
        self.language = language or ""

    def headers(self, line: int, indent: int) -> list[int]:
        """The lines that head what stands at `line` with `indent`, outermost first.  For code only definitions."""
        flat = _FLAT_HEADER.get(self.language)
        if flat is not None:
            return [at for at in range(line - 1, -1, -1) if self.lines[at].startswith(flat)][:1]
        found: list[int] = []
        for at in range(min(line, len(self.lines)) - 1, -1, -1):
            if indent <= 0:
                break
            if 0 <= self.indents[at] < indent:
                indent = self.indents[at]
                found.append(self._opening_of(at))
        wanted = found if self.language in _NESTED_DATA else [at for at in found if is_definition(self.lines[at])]
        return wanted[::-1]

    def _opening_of(self, line: int) -> int:
        """Where a head over several lines begins: `def f(` for `) -> int:`."""
        if not _CLOSER.match(self.lines[line]):
            return line
        for at in range(line - 1, max(line - 13, -1), -1):
            if self.indents[at] == self.indents[line]:
                return at if not _CLOSER.match(self.lines[at]) else self._opening_of(at)
        return line

    def head_end(self, header: int) -> int:
        """The last line of a head over several lines."""
        if self.lines[header].rstrip()[-1:] not in {"(", "["}:
            return header
        for at in range(header + 1, min(header + 13, len(self.lines))):
            if self.indents[at] == self.indents[header]:
                return at if _CLOSER.match(self.lines[at]) else header
        return header

    def scope_end(self, header: int) -> int:
        """The last line of the scope that `header` opens, its closing line included."""
        if self.language in _FLAT_HEADER:
            sign = _FLAT_HEADER[self.language]
            below = (at - 1 for at in range(header + 1, len(self.lines)) if self.lines[at].startswith(sign))
            return next(below, len(self.lines) - 1)
        level = self.indents[header]
        last = header
        for at in range(header + 1, len(self.lines)):
            if self.indents[at] > level:
                last = at
            elif self.indents[at] >= 0:
                if self.indents[at] != level or not _CLOSER.match(self.lines[at]):
                    break
                last = at
                if self.lines[at].rstrip()[-1:] not in {"{", ":", "(", "["}:
                    break
        return last

    def decorated_start(self, header: int) -> int:
        """Where the decorators or attributes right above a head begin."""
        at = header
        while at > 0 and self.indents[at - 1] == self.indents[header] and _DECORATOR.match(self.lines[at - 1]):
            at -= 1
        return at


ItemKind = Literal["keep", "drop", "take"]


class Item(NamedTuple):
    """One line of the alignment of before and after."""

    kind: ItemKind
    original: int
    """Line of before; for `take` the line it stands in front of."""
    after: int
    """Line of after; for `drop` the line it would stand in front of."""


class Block(NamedTuple):
    """A half-open range of items that are shown without a gap."""

    start: int
    stop: int


def align(n_before: int, n_after: int, hunks: Sequence[Hunk]) -> list[Item]:
    """Every line of both texts in output order; drops before takes."""
    items: list[Item] = []
    a = b = 0
    for hunk in [*hunks, Hunk(n_before, n_before, n_after, n_after)]:
        items += [Item("keep", a + i, b + i) for i in range(hunk.a0 - a)]
        items += [Item("drop", i, hunk.b0) for i in range(hunk.a0, hunk.a1)]
        items += [Item("take", hunk.a1, j) for j in range(hunk.b0, hunk.b1)]
        a, b = hunk.a1, hunk.b1
    return items


MIN_LIKENESS = 70.0
"""How alike (0-100) a changed line at the edge of a block must be to the line it replaces."""
MARGIN = 5.0
"""By how much it must be the most alike of all lines that could be meant."""
MIN_TELLING = 8
"""A shorter line tells nothing by likeness."""
MAX_READINGS = 200
"""More ways to read a block are not weighed: it must show more."""

_NAME = re.compile(
    r"\b(?:def|class|func|fn|fun|function|struct|interface|enum|type|module|trait)\s+(?:\([^)]*\)\s*)?(\w+)"
)


class Growth(NamedTuple):
    """Where a block must show more to be clear."""

    up: bool
    down: bool


CLEAR = Growth(False, False)
BOTH_WAYS = Growth(True, True)


class Clarity:
    """Judges the blocks of one alignment, in order: each may only lie after the one before."""

    def __init__(
        self,
        before: Sequence[str],
        after: Sequence[str],
        items: Sequence[Item],
        outline: Outline,
        style: SketchStyle,
        headers: Mapping[int, int],
    ) -> None:
        self.before, self.after, self.items = before, after, items
        self.outline, self.style = outline, style
        self.headers = headers
        """Shown header lines of before and the end of their scopes; the layout adds to it."""
        self.needs_leading_marker = False
        """Set where only a marker above tells that new lines go to the end of the file."""
        self.hints: dict[int, str] = {}
        """Items at which new lines begin that only a hint places: the name of what they go after."""
        self._keys = [self._key(line) for line in before]
        self._places: dict[str, list[int]] = defaultdict(list)
        for at, key in enumerate(self._keys):
            self._places[key].append(at)

    def first_unclear(self, blocks: Sequence[Block]) -> tuple[Block, Growth] | None:
        """The first block whose place is unclear, and where it should grow."""
        self.needs_leading_marker = False
        self.hints.clear()
        floor = 0
        for block in blocks:
            kinds = [item.kind for item in self.items[block.start : block.stop]]
            if kinds.count("keep") == len(kinds):
                continue
            growth = self._judge(block, kinds, floor)
            if growth != CLEAR:
                return block, growth
            lines = [item.original for item in self.items[block.start : block.stop] if item.kind != "take"]
            floor = lines[-1] + 1 if lines else floor
        return None

    def _judge(self, block: Block, kinds: list[ItemKind], floor: int) -> Growth:
        if "keep" not in kinds:
            return self._judge_bare(block, floor)
        first = block.start + kinds.index("keep")
        last = block.stop - 1 - kinds[::-1].index("keep")
        up = first > block.start and not self._is_clear_edge(block, block.start, first, floor)
        down = last + 1 < block.stop and not self._is_clear_edge(block, last + 1, block.stop, floor)
        if up or down:
            return Growth(up, down)
        growth = self._judge_anchors(first, last, block, floor)
        return growth if growth != CLEAR else self._judge_readings(first, last, block, floor)

    # -- blocks without context ---------------------------------------------------------------------------------------
    def _judge_bare(self, block: Block, floor: int) -> Growth:
        if (block.start, block.stop) == (0, len(self.items)):
            return CLEAR
        if self.style.is_clean:
            return BOTH_WAYS
        items = self.items[block.start : block.stop]
        if all(item.kind == "take" for item in items):
            return self._judge_bare_insertion(block, items)
        is_clear = block.start > 0 and all(self._is_alike(items, outer, floor) for outer in (0, -1))
        return CLEAR if is_clear else BOTH_WAYS

    def _judge_bare_insertion(self, block: Block, items: Sequence[Item]) -> Growth:
        is_new = all(self._is_unseen(items, outer) for outer in (0, -1))
        if is_new and block.start == 0:
            return CLEAR
        if is_new and block.stop == len(self.items):
            self.needs_leading_marker = True
            return CLEAR
        name = self._name_above(items) if self.style.hint and is_new else None
        if name is not None:
            self.hints[block.start] = name
            return CLEAR
        if block.start == 0 or block.stop == len(self.items):
            return Growth(block.start > 0, block.start == 0)
        below = next((at for at in range(items[-1].original, len(self.before)) if self.before[at].strip()), -1)
        return Growth(False, True) if below in self.headers.values() else Growth(True, False)

    def _name_above(self, items: Sequence[Item]) -> str | None:
        """The name of the definition that ends right above an insertion at its depth, where no other has it."""
        new = next((line for line in (self.after[item.after] for item in items) if line.strip()), "")
        level = indent_of(new)
        place = items[0].original
        for at in range(place - 1, -1, -1):
            if self.outline.indents[at] >= 0 and self.outline.indents[at] <= level:
                found = _NAME.search(self.before[at]) if self.outline.indents[at] == level else None
                if found is None and self.before[at].strip()[:1] in {"}", ")"}:
                    continue
                below = range(self.outline.scope_end(at) + 1, place)
                if found is None or any(self.before[line].strip() for line in below):
                    return None
                named = [line for line in self.before if (other := _NAME.search(line)) and other[1] == found[1]]
                return found[1] if len(named) == 1 and len(found[1]) > 2 else None
        return None

    # -- edges --------------------------------------------------------------------------------------------------------
    def _is_clear_edge(self, block: Block, start: int, stop: int, floor: int) -> bool:
        """Whether changed items `start:stop` at an edge of a block may stand there without context outside."""
        outer: Literal[0, -1] = 0 if start == block.start else -1
        items = self.items[start:stop]
        is_file_edge = start == 0 if outer == 0 else stop == len(self.items)
        if all(item.kind == "take" for item in items):
            # New lines must not be taken for lines of the file, nor for padding of a marker.
            if is_file_edge:
                return self.after[items[outer].after].strip() != ""
            return not self.style.is_clean and self._is_unseen(items, outer)
        if self.style.is_clean and not is_file_edge:
            return False
        if outer == -1 and not self.style.is_clean and self._ends_scope(block, items):
            return True
        return self._is_alike(items, outer, floor, margin=0.0 if is_file_edge else MARGIN)

    def _is_unseen(self, items: Sequence[Item], outer: Literal[0, -1]) -> bool:
        """Whether the outermost new line is nowhere in the hidden text on its side.  A blank one must be what parts the
        new lines from that text."""
        place = items[0].original if outer == 0 else items[-1].original
        line = self.after[items[outer].after]
        if not line.strip():
            beside = place - 1 if outer == 0 else place
            is_parted = 0 <= beside < len(self.before) and self.before[beside].strip() != ""
            inward = (self.after[item.after] for item in (items if outer == 0 else items[::-1]))
            line = next((x for x in inward if x.strip()), "")
            if not is_parted or len(items) <= 2 or not line:
                return False
        seen = self._places.get(self._key(line), ())
        return not any(at < place if outer == 0 else at >= place for at in seen)

    def _ends_scope(self, block: Block, items: Sequence[Item]) -> bool:
        """Whether the block is one whole scope whose last lines changed.  Where its new last line stands in the scope,
        too, the block may as well end there."""
        head = self.items[block.start]
        dropped = [item.original for item in items if item.kind == "drop"]
        if head.kind != "keep" or not dropped or not is_definition(self.before[head.original]):
            return False
        if self.outline.scope_end(head.original) != dropped[-1] or items[-1].kind != "take":
            return False
        last = self._key(self.after[items[-1].after])
        return last.strip() != "" and last not in self._keys[head.original : dropped[-1] + 1]

    def _is_alike(self, items: Sequence[Item], outer: Literal[0, -1], floor: int, margin: float = MARGIN) -> bool:
        """Whether the outermost new line is plainly the outermost replaced one, changed."""
        drops = [item.original for item in items if item.kind == "drop"]
        takes = [item.after for item in items if item.kind == "take"]
        if not drops or not takes or len(drops) > len(takes) + 1:
            return False
        wanted = self.after[takes[outer]].strip()
        if len(wanted) < MIN_TELLING:
            return False
        best = process.extract(wanted, [line.strip() for line in self.before[floor:]], scorer=fuzz.ratio, limit=2)
        is_ahead = len(best) < 2 or best[0][1] - best[1][1] >= margin
        return best[0][2] + floor == drops[outer] and best[0][1] >= MIN_LIKENESS and is_ahead

    # -- anchors ------------------------------------------------------------------------------------------------------
    def _judge_anchors(self, first: int, last: int, block: Block, floor: int) -> Growth:
        """Whether the first and the last run of context are found where they are, and nowhere else."""
        head, tail = self._run(first, block, 1), self._run(last, block, -1)
        low, high = self._range(self.items[first].original, floor, block)
        head_places = self._find(head, low, high)
        if head[0] == tail[0]:
            return CLEAR if len(head_places) == 1 else BOTH_WAYS
        if len(head_places) == 1:
            is_next = self._find(tail, head[-1] + 1, high)[:1] == [tail[0]]
            return CLEAR if is_next else Growth(False, True)
        tail_places = self._find(tail, low, high)
        before_tail = [place for place in head_places if place + len(head) <= tail[0]]
        return CLEAR if len(tail_places) == 1 and before_tail[-1:] == [head[0]] else BOTH_WAYS

    def _judge_readings(self, first: int, last: int, block: Block, floor: int) -> Growth:
        """Whether no other stretch that begins and ends with the block's outer lines is as like the block: a reader
        takes the smallest change."""
        low, high = self._range(self.items[first].original, floor, block)
        start, stop = self.items[first].original, self.items[last].original + 1
        starts = self._find([start], low, high)
        stops = [place + 1 for place in self._find([stop - 1], low, high)]
        if len(starts) == 1 == len(stops):
            return CLEAR
        others = [(a, b) for a in starts for b in stops if a < b and (a, b) != (start, stop)]
        if len(others) > MAX_READINGS:
            return Growth(len(starts) > 1, len(stops) > 1)
        items = [item for item in self.items[first : last + 1] if item.kind != "drop"]
        shown = [self._key(self.after[x.after] if x.kind == "take" else self.before[x.original]) for x in items]
        limit = Indel.distance(shown, self._keys[start:stop])
        rivals = [(a, b) for a, b in others if Indel.distance(shown, self._keys[a:b], score_cutoff=limit) <= limit]
        return Growth(any(a != start for a, _ in rivals), any(b != stop for _, b in rivals))

    def _run(self, at: int, block: Block, step: Literal[1, -1]) -> list[int]:
        """The lines of before in the unbroken run of context that begins (or ends) at item `at`."""
        lines: list[int] = []
        while block.start <= at < block.stop and self.items[at].kind == "keep":
            lines.append(self.items[at].original)
            at += step
        return lines[::step]

    def _range(self, line: int, floor: int, block: Block) -> tuple[int, int]:
        """Where the block may lie: after the blocks before it, and inside the shown scopes that can be told apart."""
        low, high = floor, len(self.before)
        start = self.items[block.start].original
        for header in sorted(self.headers):
            end = self.headers[header]
            if floor <= header < start and line <= end and self._find([header], low, high) == [header]:
                low, high = header + 1, end + 1
        return low, high

    def _find(self, run: list[int], low: int, high: int) -> list[int]:
        """Where in `low:high` of before the lines of `run` (line numbers) occur in a row."""
        wanted = [self._keys[line] for line in run]
        if not any(key.strip() for key in wanted):
            return []
        n = len(wanted)
        places = self._places[wanted[0]]
        return [at for at in places if low <= at and at + n <= high and self._keys[at : at + n] == wanted]

    def _key(self, line: str) -> str:
        """A line as the snippet still tells it apart: without what its style loses."""
        if self.style.is_clean:
            return line
        return line.rstrip() if self.style.indentation == "same" else line.strip()


MAX_GROWN = 60
"""Lines of context that may be added to make the places clear."""
MAX_FILE, MAX_FUNCTION_CLEAN, MAX_FUNCTION = 300, 30, 60
"""Larger files and functions are not given whole."""


class Layout:
    """The choice of shown lines for one edit in one style."""

    def __init__(
        self, before: list[str], after: list[str], hunks: list[Hunk], style: SketchStyle, language: str | None
    ) -> None:
        self.before, self.after, self.style, self.hunks = before, after, style, hunks
        self.items = align(len(before), len(after), hunks)
        self.shown = bytearray(item.kind != "keep" for item in self.items)
        self.outline = Outline(before, language)
        self.headers: dict[int, int] = {}
        """Shown header lines of before, and the end of their scope."""
        self.clarity = Clarity(before, after, self.items, self.outline, style, self.headers)
        self._item_of = {item.original: at for at, item in enumerate(self.items) if item.kind != "take"}

    def plan(self) -> bool:
        """Choose; False where the places can't be made clear."""
        if self.style.whole_file and len(self.after) <= MAX_FILE:
            self.shown = bytearray(b"\x01") * len(self.items)
            ends = (at for at in (0, len(self.items) - 1) if self.items[at].kind != "keep")
            return not any(self.items[at].kind == "drop" or self._is_blank(at) for at in ends)
        for at in [at for at, item in enumerate(self.items) if item.kind != "keep"]:
            self._show(at, self.style.context_before, -1)
            self._show(at, self.style.context_after, 1)
        if self.style.whole_function or self.style.no_markers:
            self._show_functions()
        if self.style.header != "none":
            self._show_headers()
        return self._settle()

    @property
    def blocks(self) -> list[Block]:
        """The maximal runs of shown items, in order."""
        found: list[Block] = []
        start = self.shown.find(1)
        while start >= 0:
            stop = self.shown.find(0, start)
            stop = len(self.shown) if stop < 0 else stop
            found.append(Block(start, stop))
            start = self.shown.find(1, stop)
        return found

    # -- what the style asks for --------------------------------------------------------------------------------------
    def _show(self, at: int, n_lines: int, step: Literal[1, -1]) -> int:
        """Show `n_lines` lines that are not blank next to item `at`, up to the next change; how many there were."""
        n_shown = 0
        while n_shown < n_lines and 0 <= at + step < len(self.items):
            at += step
            if self.items[at].kind != "keep":
                break
            self.shown[at] = 1
            n_shown += not self._is_blank(at)
        return n_shown

    def _hunk_headers(self, hunk: Hunk) -> list[int]:
        changed = [*self.before[hunk.a0 : hunk.a1], *self.after[hunk.b0 : hunk.b1]]
        indents = [n for n in map(indent_of, changed) if n >= 0]
        return self.outline.headers(hunk.a0, min(indents)) if indents else []

    def _show_functions(self) -> None:
        limit = MAX_FUNCTION_CLEAN if self.style.is_clean else MAX_FUNCTION
        for hunk in self.hunks:
            for header in reversed(self._hunk_headers(hunk)):
                last = self.outline.scope_end(header)
                if last - header < limit and is_definition(self.before[header]):
                    self._show_lines(self.outline.decorated_start(header), last + 1)
                    break

    def _show_headers(self) -> None:
        for hunk in self.hunks:
            headers = self._hunk_headers(hunk)
            for header in headers if self.style.header == "all" else headers[-1:]:
                if header not in self.headers:
                    self.headers[header] = self.outline.scope_end(header)
                    self._show_lines(header, self.outline.head_end(header) + 1)
                    if self.style.closers:
                        self._show_lines(self.headers[header], self.headers[header] + 1)

    def _show_lines(self, start: int, stop: int) -> None:
        for line in range(start, stop):
            self.shown[self._item_of[line]] = 1

    # -- until it is clear --------------------------------------------------------------------------------------------
    def _settle(self) -> bool:
        n_grown = 0
        while n_grown < MAX_GROWN:
            self._fill_small_gaps()
            self._trim_blank_edges()
            found = self.clarity.first_unclear(self.blocks)
            if found is None:
                return True
            block, growth = found
            n_added = self._show(block.start, 1, -1) if growth.up else 0
            n_added += self._show(block.stop - 1, 1, 1) if growth.down else 0
            if not n_added:
                return False
            n_grown += n_added
        return False

    def _fill_small_gaps(self) -> None:
        for left, right in pairwise(self.blocks):
            n_text = sum(not self._is_blank(at) for at in range(left.stop, right.start))
            if n_text < self.style.min_gap or n_text == 0:
                self.shown[left.stop : right.start] = b"\x01" * (right.start - left.stop)

    def _trim_blank_edges(self) -> None:
        """No block begins or ends with a blank line of the file: blanks next to a marker belong to the marker."""
        for block in self.blocks:
            if block.start > 0:
                self._trim(block.start, block.stop, 1)
            if block.stop < len(self.items):
                self._trim(block.stop - 1, block.start - 1, -1)

    def _trim(self, at: int, stop: int, step: Literal[1, -1]) -> None:
        while at != stop and self.items[at].kind == "keep" and self._is_blank(at):
            inner = at + step
            if inner != stop and self.items[inner].kind != "keep":
                self._show(at, 1, -1 if step > 0 else 1)
                return
            self.shown[at] = 0
            at = inner

    def _is_blank(self, at: int) -> bool:
        item = self.items[at]
        return not (self.after[item.after] if item.kind == "take" else self.before[item.original]).strip()
