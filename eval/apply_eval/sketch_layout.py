"""Which lines a sketch shows, grown until a reader of the original and the snippet alone can tell every place.

`sketch_clarity` judges whether they can; texts are not written here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from apply_eval.alignment import Block, Item, align, stretches
from apply_eval.line_diff import Hunk
from apply_eval.outline import Outline, indent_of, is_definition
from apply_eval.sketch_clarity import Clarity
from apply_eval.sketch_styles import SketchStyle

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
            return not any(item.kind == "drop" or self._is_new_blank(item) for item in (self.items[0], self.items[-1]))
        self._show_context()
        if self.style.whole_function or self.style.no_markers:
            self._show_functions()
        if self.style.header != "none":
            self._show_headers()
        return self._settle()

    @property
    def blocks(self) -> list[Block]:
        """The stretches of shown items, in order."""
        return stretches(self.shown)

    # -- what the style asks for --------------------------------------------------------------------------------------
    def _show_context(self) -> None:
        for at in [at for at, item in enumerate(self.items) if item.kind != "keep"]:
            self._show(at, self.style.context_before, -1)
            self._show(at, self.style.context_after, 1)

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

    def _is_new_blank(self, item: Item) -> bool:
        return item.kind == "take" and not self.after[item.after].strip()

    def _is_blank(self, at: int) -> bool:
        item = self.items[at]
        return not (self.after[item.after] if item.kind == "take" else self.before[item.original]).strip()
