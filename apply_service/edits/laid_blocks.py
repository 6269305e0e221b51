"""The blocks of a snippet as a finished merge has laid them on the original.

Questions about a merge are answered from these.  This module knows lines and places; it judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from apply_service.edits.lazy.reading import Reading
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

    @property
    def has_new(self) -> bool:
        return None in self.columns


@dataclass(frozen=True)
class Laid:
    """A finished merge: its reading, its operations and its blocks."""

    reading: Reading
    ops: Sequence[LineOp]

    @cached_property
    def columns(self) -> dict[int, int]:
        """The original line of each update line that shows one."""
        pairs = ((op.update_line, op.original_line) for op in self.ops if op.kind == "both")
        return {i: j for i, j in pairs if i is not None and j is not None}

    @cached_property
    def blocks(self) -> list[LaidBlock]:
        """The blocks that show a line of the original."""
        blocks = (self._lay(b) for b in range(len(self.reading.snippet.blocks)))
        return [block for block in blocks if block is not None]

    def _lay(self, b: int) -> LaidBlock | None:
        texts = self.reading.texts
        lines = tuple(i for i in self.reading.snippet.blocks[b].lines if texts[i].strip())
        columns = tuple(self.columns.get(i) for i in lines)
        known = [j for j in columns if j is not None]
        if not known:
            return None
        return LaidBlock(b, lines, tuple(texts[i].rstrip() for i in lines), columns, known[0], known[-1] + 1)

    @cached_property
    def dropped(self) -> set[int]:
        """Original lines that the merge removes, except blank ones."""
        gone = (op.original_line for op in self.ops if op.kind == "drop" and op.text.strip())
        return {j for j in gone if j is not None}

    @cached_property
    def taken(self) -> dict[int, str]:
        """Update lines that are new, except blank ones."""
        new = ((op.update_line, op.text) for op in self.ops if op.kind == "take" and op.text.strip())
        return {i: text for i, text in new if i is not None}

    @cached_property
    def changes(self) -> list[tuple[list[LineOp], list[LineOp]]]:
        """The removed and the added lines of each run of changes, without blank lines."""
        runs = groupby(self.ops, key=lambda op: op.kind in ("drop", "take"))
        changed = [[op for op in run if op.text.strip()] for is_change, run in runs if is_change]
        return [([op for op in run if op.kind == "drop"], [op for op in run if op.kind == "take"]) for run in changed]
