"""New lines brought to the indentation of the place they go to.

A hunk whose quoted lines stand in the file at another indentation tells, line by line, how its own leading blanks are
written there; its added lines follow suit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apply_service.edits.indentation import leading


@dataclass(frozen=True, slots=True)
class Reindent:
    """Leading blanks of the hunk -> leading blanks of the file."""

    table: dict[str, str]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Reindent:
        """From (quoted line, file's line) pairs; where they disagree, the first wins."""
        table: dict[str, str] = {}
        for quoted, line in pairs:
            if quoted.strip() and line.strip():
                table.setdefault(leading(quoted), leading(line))
        return cls({} if all(a == b for a, b in table.items()) else table)

    def apply(self, line: str) -> str:
        """The line as the place has it; blank lines stay as they are."""
        if not self.table or not line.strip():
            return line
        blanks = leading(line)
        return self._blanks(blanks) + line[len(blanks) :]

    def _blanks(self, blanks: str) -> str:
        if blanks in self.table:
            return self.table[blanks]
        known = max((key for key in self.table if blanks.startswith(key)), key=len, default=None)
        if known is not None:
            return self.table[known] + self._converted(blanks[len(known) :])
        deeper = min((key for key in self.table if key.startswith(blanks)), key=len, default=None)
        if deeper is None:
            return self._converted(blanks)
        lost = self._converted(deeper[len(blanks) :])
        return self.table[deeper].removesuffix(lost)

    def _converted(self, step: str) -> str:
        """Deeper indentation in the file's own kind of blanks."""
        width = self._tab_width()
        if width > 0 and set(step) == {" "}:
            return "\t" * (len(step) // width) + " " * (len(step) % width)
        return step.replace("\t", " " * -width) if width < 0 else step

    def _tab_width(self) -> int:
        """Spaces of the hunk for a tab of the file; negative: spaces of the file for a tab of the hunk; 0: as is."""
        for theirs, ours in self.table.items():
            if theirs and set(theirs) == {" "} and ours and set(ours) == {"\t"}:
                return max(1, len(theirs) // len(ours))
            if theirs and set(theirs) == {"\t"} and ours and set(ours) == {" "}:
                return -max(1, len(ours) // len(theirs))
        return 0
