"""A snippet read against its original: blocks cut, remarks off, every line at the file's indentation.

What the steps after it share: `rows` looks for the lines' places, `writing` writes the operations.  Places nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from apply_service.edits.candidates import LineIndex
from apply_service.edits.doubts import Doubts
from apply_service.edits.fitting import fit_blocks
from apply_service.edits.headers import is_branch, is_closer
from apply_service.edits.indentation import Unit, find_unit, indent_of, leading
from apply_service.edits.lazy.inline import read_inline_markers
from apply_service.edits.lazy.notes import find_notes
from apply_service.edits.markers import Role, classify, is_marker
from apply_service.edits.remarks import split_remark
from apply_service.edits.role_doubts import doubt_roles
from apply_service.edits.snippet import Snippet, cut_blocks
from apply_service.syntax.scopes import Scope, find_scopes, is_fallback

WIDE_GAP = "   "
"""Before a remark: part of it may be the line's own trailing white space."""
_ARROW = re.compile(r"\W*(?:<[-=]|←|⬅|⟵|\^\^)")


class Reading:
    """The original's lines (without the empty one behind its final newline) and the snippet's, ready to be compared."""

    def __init__(
        self,
        original: Sequence[str],
        update: Sequence[str],
        language: str | None,
        path: str | None,
        passed_over: Collection[int] = (),
        notes: Collection[int] = (),
        shifts: bool = True,
    ) -> None:
        """`passed_over`: update lines that somebody else reads; they part the blocks beside them.  `notes`: those that
        are taken for markers.  `shifts`: whether blocks are re-indented as the file is."""
        self.original = original
        self.language = language
        self.path = path
        self.doubts = Doubts()
        self.index = LineIndex(original)
        roles = classify(update, original, language=language, path=path)
        for i in passed_over:
            roles[i] = Role.CHAT
        self.found_notes = find_notes(update, roles, set(self.index.stripped))
        """The kind of each line that may be a marker in other words."""
        self.notes = notes
        for i in notes:
            roles[i] = Role.MARKER
        inline = read_inline_markers(update, roles, set(self.index.stripped))
        for i, text in inline.items():
            if is_marker(text):
                roles[i] = Role.MARKER
        self.elided = {i for i, text in inline.items() if not is_marker(text)}
        """Lines with a marker inside: they stand for lines of the file and are never written as they are."""
        self.snippet: Snippet = cut_blocks(update, roles, self.elided)
        self.texts = [inline[i] if i in self.elided else line for i, line in enumerate(update)]
        for reason in doubt_roles(roles, update, self.index):
            self.doubts.likely(reason)
        self._strip_remarks()
        self.is_shifted = False
        if shifts:
            self._shift_blocks()
        self.visible = [
            (b, i) for b, block in enumerate(self.snippet.blocks) for i in block.lines if self.texts[i].strip()
        ]
        """(block, update line) of every line that can be aligned, in order."""

    def _strip_remarks(self) -> None:
        self._wide: set[int] = set()
        known = set(self.index.stripped)
        found = {
            i: remark
            for block in self.snippet.blocks
            for i in block.lines
            if (remark := split_remark(self.texts[i], self.language, known)) is not None
        }
        points = any(_ARROW.match(self.texts[i][len(remark.code) :]) for i, remark in found.items())
        has_arrows = any("<-" in line or "←" in line for line in self.original)
        for i, remark in found.items():
            is_new = remark.code.strip() not in known
            if self.texts[i][len(remark.code) :].startswith(WIDE_GAP):
                self._wide.add(i)
            self.texts[i] = remark.code
            if (has_arrows and is_new) or remark.is_told or (not remark.is_sure and not points):
                self.doubts.likely("remark or comment")

    def _shift_blocks(self) -> None:
        blocks = [[self.texts[i] for i in block.lines] for block in self.snippet.blocks]
        for block, shift in zip(self.snippet.blocks, fit_blocks(blocks, self.index), strict=True):
            if not shift.is_identity:
                self.doubts.likely("fragment re-indented")
                self.is_shifted = True
            for i in block.lines:
                self.texts[i] = shift.apply(self.texts[i])

    def is_wide(self, i: int) -> bool:
        """Whether the remark stood so far behind the line that white space between them may be the line's own."""
        return i in self._wide

    def block_texts(self, b: int) -> list[str]:
        return [self.texts[i] for i in self.snippet.blocks[b].lines]

    def close_of(self, j: int) -> int:
        """The first original line below j that is not indented deeper: what closes the scope that j opens.  One past
        the end where there is none."""
        return int(self.closers[j])

    @cached_property
    def closers(self) -> npt.NDArray[np.int64]:
        """`close_of` every line."""
        found = np.full(len(self.original), len(self.original), np.int64)
        levels: list[int] = []
        places: list[int] = []
        """The lines below that are indented less than all between them and here, the nearest last."""
        for j in range(len(self.original) - 1, -1, -1):
            n = bisect_right(levels, indent_of(self.original[j]))
            if n:
                found[j] = places[n - 1]
            level = int(self.index.scope_indents[j])
            kept = bisect_left(levels, level)
            levels[kept:], places[kept:] = [level], [j]
        return found

    @cached_property
    def scope_ends(self) -> npt.NDArray[np.int64]:
        """Where the scope that each line opens ends, past the closing brackets of its header and its further
        branches."""
        found = self.closers.copy()
        for j in range(len(self.original) - 1, -1, -1):
            end = int(found[j])
            line = self.original[end] if end < len(self.original) else ""
            goes_on = bool(line) and (is_closer(line) or is_branch(line)) and line.rstrip()[-1:] in "{([:>"
            if goes_on and indent_of(line) == indent_of(self.original[j]):
                found[j] = found[end]
        return found

    def knows_margin(self, text: str) -> bool:
        """Whether a line of the original is indented like this one, or by whole levels of the file."""
        margin = leading(text)
        return margin in self._margins or (self._unit is not None and not margin.replace(self._unit.text, ""))

    @cached_property
    def _unit(self) -> Unit | None:
        return find_unit(self.original)

    @cached_property
    def _margins(self) -> set[str]:
        return {leading(line) for line in self.original if line.strip()}

    @cached_property
    def keeps_trailing_blanks(self) -> bool:
        """Whether the snippet shows trailing white space as the file has it: then a lack of it is meant."""
        trailing = {line for line in self.original if line != line.rstrip()}
        shown = (self.texts[i] for block in self.snippet.blocks for i in block.lines)
        return any(line in trailing for line in shown)

    @cached_property
    def gaps_above(self) -> dict[int, int]:
        """Blank lines above definitions, by their indentation: the commonest number; without those that have none."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for scope in self.scopes:
            if scope.lead_line and scope.kind in ("function", "method", "class", "section", "module"):
                gap = self.blanks_before(scope.lead_line)
                if gap:
                    found[indent_of(self.original[scope.header_line])].append(gap)
        return {indent: max(set(gaps), key=Counter(gaps).__getitem__) for indent, gaps in found.items()}

    def blanks_before(self, at: int) -> int:
        """Blank lines right above a line; 0 where nothing but blank lines stands above."""
        start = at
        while start > 0 and not self.original[start - 1].strip():
            start -= 1
        return at - start if start else 0

    @cached_property
    def scopes_named(self) -> dict[str, list[Scope]]:
        """The original's scopes by name."""
        found: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in self.scopes:
            found[scope.name.strip("'\"`")].append(scope)
        return found

    @cached_property
    def scope_headers(self) -> tuple[str, list[int]]:
        """The headers of the scopes in small letters, a line each, and where each begins in that text."""
        headers = [self.original[scope.header_line].lower() for scope in self.scopes]
        return "\n".join(headers), list(accumulate((len(text) + 1 for text in headers), initial=0))

    @cached_property
    def scopes(self) -> list[Scope]:
        """The original's scopes; parsed only where a block has to be placed by them."""
        text = "\n".join(self.original)
        if is_fallback(text, self.language):
            self.doubts.likely("scope unknown: no grammar for the language")
        return find_scopes(text, self.language)
