"""A lazy snippet cut into blocks: runs of lines that the file shall contain one after the other.

Blocks are parted by markers (and fences, hints); blank lines next to a parting belong to it, not to the file.  Places
nothing.  Second step of the merge, after `markers`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from apply_service.edits.indentation import indent_of
from apply_service.edits.markers import Hint, Role, parse_hint


@dataclass(frozen=True, slots=True)
class Block:
    """One run.  `lines` are update line numbers, blank ones inside included, first and last not blank."""

    lines: tuple[int, ...]
    marked_before: bool
    """A marker stands before it (the snippet's own start is no marker)."""
    marked_after: bool
    gap_before: tuple[int, ...] = ()
    """Update lines between the block before and this one: markers, notes, blanks."""
    gap_after: tuple[int, ...] = ()
    hint: Hint | None = None
    deletions: tuple[int, ...] = ()
    """Deletion notes inside the block."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """The update as read: `texts` are its lines (remarks and indentation still as written)."""

    texts: tuple[str, ...]
    roles: tuple[Role, ...]
    blocks: tuple[Block, ...]
    stray_deletions: tuple[int, ...] = ()
    """Deletion notes that stand alone between markers."""
    has_markers: bool = False


@dataclass(slots=True)
class _Cutter:
    texts: Sequence[str]
    roles: Sequence[Role]
    blocks: list[Block] = field(default_factory=list)
    strays: list[int] = field(default_factory=list)
    stubs: Collection[int] = ()
    _is_stubbed: bool = False
    """The block before ended with a stub: a marker stands behind it."""

    def cut(self) -> Snippet:
        gap: list[int] = []
        run: list[int] = []
        for i, role in enumerate(self.roles):
            if role is Role.CONTENT or (run and role in (Role.BLANK, Role.DELETION, Role.ASIDE)):
                if i in self.stubs and run and self._stands_alone(i):
                    gap = self._close(run, gap)
                    run, self._is_stubbed = [], True
                run.append(i)
                if i in self.stubs:
                    gap = self._close(run, gap)
                    run, self._is_stubbed = [], True
                continue
            if role is Role.DELETION:
                self.strays.append(i)
            if run:
                gap = self._close(run, gap)
                run = []
            gap.append(i)
        if run:
            gap = self._close(run, gap)
        self._finish(gap)
        has_markers = Role.MARKER in self.roles
        return Snippet(tuple(self.texts), tuple(self.roles), tuple(self.blocks), tuple(self.strays), has_markers)

    def _stands_alone(self, i: int) -> bool:
        """Whether a stub does not belong to the line above it: that is blank, opens a scope or is a stub itself."""
        return self.roles[i - 1] is Role.BLANK or i - 1 in self.stubs or self.texts[i - 1].rstrip().endswith(("{", ":"))

    def _close(self, run: list[int], gap: list[int]) -> list[int]:
        """Ends a block; returns the lines behind its last visible one, which open the next gap."""
        last = max(k for k, i in enumerate(run) if self.roles[i] is Role.CONTENT) + 1
        tail = run[last:]
        self.strays.extend(i for i in tail if self.roles[i] is Role.DELETION)
        deletions = tuple(i for i in run[:last] if self.roles[i] is Role.DELETION)
        lines = tuple(self._without_notes(run[:last]))
        self._finish(gap)
        self.blocks.append(Block(lines, self._is_marked(gap), False, tuple(gap), (), self._hint(gap), deletions))
        self._is_stubbed = False
        return tail

    def _without_notes(self, run: Sequence[int]) -> list[int]:
        """The block's lines; of blank ones right above and right below a deletion note, the note takes one along."""
        kept: list[int] = []
        is_padded = False
        for i in run:
            if self.roles[i] is Role.DELETION:
                is_padded = bool(kept) and self.roles[kept[-1]] is Role.BLANK
            elif self.roles[i] is Role.BLANK and is_padded:
                is_padded = False
            elif self.roles[i] is not Role.ASIDE:
                is_padded = False
                kept.append(i)
        return kept

    def _finish(self, gap: Sequence[int]) -> None:
        if not self.blocks:
            return
        last = self.blocks[-1]
        self.blocks[-1] = Block(
            last.lines, last.marked_before, self._is_marked(gap), last.gap_before, tuple(gap), last.hint, last.deletions
        )

    def _is_marked(self, gap: Sequence[int]) -> bool:
        return self._is_stubbed or any(self.roles[i] in (Role.MARKER, Role.HINT) for i in gap)

    def _hint(self, gap: Sequence[int]) -> Hint | None:
        hints = [parse_hint(self.texts[i]) for i in gap if self.roles[i] is Role.HINT]
        return next((hint for hint in reversed(hints) if hint is not None), None)


def cut_blocks(texts: Sequence[str], roles: Sequence[Role], stubs: Collection[int] = ()) -> Snippet:
    """The snippet's blocks, in order.  `stubs`: lines behind which the file goes on, as behind a marker."""
    return _Cutter(texts, roles, stubs=stubs).cut()


def marker_indent(snippet: Snippet, gap: Sequence[int]) -> int | None:
    """Columns of the first marker in a gap; None where there is none."""
    return next((indent_of(snippet.texts[i]) for i in gap if snippet.roles[i] is Role.MARKER), None)
