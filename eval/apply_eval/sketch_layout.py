"""Which lines a sketch shows, grown until a reader of the original and the snippet alone can tell every place.

The rule that makes it checkable: between the first and the last line of a block the block says all, so only the place
of its two ends must be clear.  An end is clear where a run of shown lines is found once (or, with a header, once in
that header's scope) after the blocks before it.  Texts are not rendered here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from rapidfuzz import fuzz, process

from apply_eval.line_diff import Hunk
from apply_eval.outline import Outline, indent_of, is_definition
from apply_eval.sketch_styles import SketchStyle

MAX_GROWN = 60
"""Lines of context that may be added to make the places clear."""
MIN_LIKENESS = 70.0
"""How alike (0-100) a changed line at the edge of a block must be to the line it replaces."""


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


class Layout:
    """The choice of shown lines for one edit in one style."""

    def __init__(
        self, before: list[str], after: list[str], hunks: list[Hunk], style: SketchStyle, language: str | None
    ) -> None:
        self.before, self.after, self.style = before, after, style
        self.items = align(len(before), len(after), hunks)
        self.hunks = hunks
        self.outline = Outline(before, language)
        self.shown = bytearray(item.kind != "keep" for item in self.items)
        self.headers: dict[int, int] = {}
        """Shown header lines of before, and the end of their scope."""
        self.needs_leading_marker = False
        self._item_of = {item.original: at for at, item in enumerate(self.items) if item.kind != "take"}
        self._places: dict[str, list[int]] | None = None
        self._keys: list[str] = []

    def plan(self) -> bool:
        """Choose; False where the places can't be made clear."""
        if self.style.whole_file and len(self.after) <= 300:
            self.shown = bytearray(b"\x01") * len(self.items)
            return True
        self._show_context()
        if self.style.whole_function or self.style.no_markers:
            self._show_functions()
        if self.style.header != "none":
            self._show_headers()
        return self._settle()

    @property
    def blocks(self) -> list[Block]:
        """The maximal stretches of shown items."""
        found: list[Block] = []
        start = self.shown.find(1)
        while start >= 0:
            stop = self.shown.find(0, start)
            stop = len(self.shown) if stop < 0 else stop
            found.append(Block(start, stop))
            start = self.shown.find(1, stop)
        return found

    # -- what the style asks for --------------------------------------------------------------------------------------
    def _show_context(self) -> None:
        for at in [at for at, item in enumerate(self.items) if item.kind != "keep"]:
            self._show_up(at, self.style.context_before)
            self._show_down(at, self.style.context_after)

    def _show_up(self, at: int, n_lines: int) -> int:
        """Show `n_lines` lines that are not blank above item `at`; how many there were."""
        shown = 0
        while shown < n_lines and at > 0:
            at -= 1
            if self.items[at].kind != "keep":
                break
            self.shown[at] = 1
            shown += not self._is_blank(at)
        return shown

    def _show_down(self, at: int, n_lines: int) -> int:
        shown = 0
        while shown < n_lines and at + 1 < len(self.items):
            at += 1
            if self.items[at].kind != "keep":
                break
            self.shown[at] = 1
            shown += not self._is_blank(at)
        return shown

    def _hunk_headers(self, hunk: Hunk) -> list[int]:
        changed = [*self.before[hunk.a0 : hunk.a1], *self.after[hunk.b0 : hunk.b1]]
        indents = [n for n in map(indent_of, changed) if n >= 0]
        return self.outline.headers(hunk.a0, min(indents)) if indents else []

    def _show_functions(self) -> None:
        limit = 30 if self.style.is_clean else 60
        for hunk in self.hunks:
            for header in reversed(self._hunk_headers(hunk)):
                last = self.outline.scope_end(header)
                if last - header < limit and is_definition(self.before[header]):
                    self._show_lines(header, last + 1)
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
        grown = 0
        while grown < MAX_GROWN:
            self._fill_small_gaps()
            self._trim_blank_edges()
            wish = self._first_unclear()
            if wish is None:
                return True
            block, up, down = wish
            added = self._show_up(block.start, 1) if up else 0
            added += self._show_down(block.stop - 1, 1) if down else 0
            if not added:
                return False
            grown += added
        return False

    def _fill_small_gaps(self) -> None:
        blocks = self.blocks
        for left, right in pairwise(blocks):
            n_text = sum(not self._is_blank(at) for at in range(left.stop, right.start))
            if n_text < self.style.min_gap or n_text == 0:
                self.shown[left.stop : right.start] = b"\x01" * (right.start - left.stop)

    def _trim_blank_edges(self) -> None:
        """No block begins or ends with a blank line of the file: blanks next to a marker belong to the marker."""
        for block in self.blocks:
            self._trim(block.start, block.stop, 1)
            self._trim(block.stop - 1, block.start - 1, -1)

    def _trim(self, at: int, stop: int, step: int) -> None:
        if at - step < 0 or at - step >= len(self.items):
            return
        while at != stop and self.items[at].kind == "keep" and self._is_blank(at):
            inner = at + step
            if inner != stop and self.items[inner].kind != "keep":
                if step > 0:
                    self._show_up(at, 1)
                else:
                    self._show_down(at, 1)
                return
            self.shown[at] = 0
            at = inner

    def _is_blank(self, at: int) -> bool:
        item = self.items[at]
        return not (self.after[item.after] if item.kind == "take" else self.before[item.original]).strip()

    def _first_unclear(self) -> tuple[Block, bool, bool] | None:
        """The first block whose place is unclear, and where it should grow (up, down)."""
        floor = 0
        for block in self.blocks:
            kinds = [item.kind for item in self.items[block.start : block.stop]]
            if kinds.count("keep") == len(kinds):
                continue
            up, down = self._judge(block, kinds, floor)
            if up or down:
                return block, up, down
            lines = [item.original for item in self.items[block.start : block.stop] if item.kind != "take"]
            floor = lines[-1] + 1 if lines else floor
        return None

    def _judge(self, block: Block, kinds: list[ItemKind], floor: int) -> tuple[bool, bool]:
        if "keep" not in kinds:
            return self._judge_bare(block, floor)
        first = block.start + kinds.index("keep")
        last = block.stop - 1 - kinds[::-1].index("keep")
        up = first > block.start and not self._is_clear_edge(block.start, first, outer=0, floor=floor, block=block)
        down = last + 1 < block.stop and not self._is_clear_edge(
            last + 1, block.stop, outer=-1, floor=floor, block=block
        )
        if up or down:
            return up, down
        return self._judge_anchors(first, last, block, floor)

    # -- edges --------------------------------------------------------------------------------------------------------
    def _judge_bare(self, block: Block, floor: int) -> tuple[bool, bool]:
        """A block without any context."""
        whole = (block.start, block.stop) == (0, len(self.items))
        if self.style.is_clean and not whole:
            return True, True
        items = self.items[block.start : block.stop]
        if whole:
            return False, False
        if all(item.kind == "take" for item in items):
            if block.start == 0:
                return False, False
            if block.stop == len(self.items):
                self.needs_leading_marker = True
                return False, False
            return True, True
        clear = all(self._is_alike(items, outer, floor) for outer in (0, -1)) and block.start > 0
        return (False, False) if clear else (True, True)

    def _is_clear_edge(self, start: int, stop: int, *, outer: Literal[0, -1], floor: int, block: Block) -> bool:
        """Whether changed lines `start:stop` at an edge of a block may stand there without context outside."""
        items = self.items[start:stop]
        at_file_edge = start == 0 if outer == 0 else stop == len(self.items)
        if all(item.kind == "take" for item in items):
            return at_file_edge or (not self.style.is_clean and self._is_free_insertion(items, outer))
        if self.style.is_clean and not at_file_edge:
            return False
        if outer == -1 and not self.style.is_clean and self._ends_scope(block, items):
            return True
        return self._is_alike(items, outer, floor)

    def _is_free_insertion(self, items: list[Item], outer: Literal[0, -1]) -> bool:
        """New lines next to a marker: a blank one among them must be what parts them from the hidden text."""
        if self.after[items[outer].after].strip():
            return True
        line = items[0].original - 1 if outer == 0 else items[-1].original
        return len(items) > 2 and 0 <= line < len(self.before) and self.before[line].strip() != ""

    def _ends_scope(self, block: Block, items: list[Item]) -> bool:
        """Whether the block is one whole scope whose last lines changed."""
        head = self.items[block.start]
        dropped = [item.original for item in items if item.kind == "drop"]
        if head.kind != "keep" or not dropped or not is_definition(self.before[head.original]):
            return False
        return self.outline.scope_end(head.original) == dropped[-1] and items[-1].kind == "take"

    def _is_alike(self, items: list[Item], outer: Literal[0, -1], floor: int) -> bool:
        """Whether the outermost new line is plainly the outermost replaced one, changed."""
        drops = [item.original for item in items if item.kind == "drop"]
        takes = [item.after for item in items if item.kind == "take"]
        if not drops or not takes or len(drops) > len(takes) + 1:
            return False
        wanted = self.after[takes[outer]].strip()
        if len(wanted) < 8:
            return False
        best = process.extract(wanted, [x.strip() for x in self.before[floor:]], scorer=fuzz.ratio, limit=2)
        is_ahead = len(best) < 2 or best[0][1] - best[1][1] >= 5.0
        return best[0][2] + floor == drops[outer] and best[0][1] >= MIN_LIKENESS and is_ahead

    # -- anchors ------------------------------------------------------------------------------------------------------
    def _judge_anchors(self, first: int, last: int, block: Block, floor: int) -> tuple[bool, bool]:
        head, tail = self._run(first, 1), self._run(last, -1)
        low, high = self._range(self.items[first].original, floor, block)
        head_places = self._find(head, low, high)
        if head[0] == tail[0]:
            return (False, False) if len(head_places) == 1 else (True, True)
        if len(head_places) == 1:
            after_head = self._find(tail, head[-1] + 1, high)
            if after_head[:1] == [tail[0]]:
                return False, False
            return False, True
        tail_places = self._find(tail, low, high)
        if len(tail_places) == 1 and [p for p in head_places if p + len(head) <= tail[0]][-1:] == [head[0]]:
            return False, False
        return True, True

    def _run(self, at: int, step: int) -> list[int]:
        """The lines of before in the unbroken run of context that begins (or ends) at item `at`."""
        lines: list[int] = []
        while 0 <= at < len(self.items) and self.shown[at] and self.items[at].kind == "keep":
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
        places = self._index()
        wanted = [self._keys[line] for line in run]
        if not any(key.strip() for key in wanted):
            return []
        n = len(wanted)
        return [p for p in places[wanted[0]] if low <= p and p + n <= high and self._keys[p : p + n] == wanted]

    def _index(self) -> dict[str, list[int]]:
        if self._places is None:
            loose = not self.style.is_clean
            self._keys = [line.strip() for line in self.before] if loose else self.before
            self._places = defaultdict(list)
            for at, key in enumerate(self._keys):
                self._places[key].append(at)
        return self._places
