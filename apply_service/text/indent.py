"""Indents new lines of a hunk, if the hunk's quoted lines have a different indentation in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apply_service.text.lines import leading


@dataclass(frozen=True, slots=True)
class Reindent:
    """Changes the indentation of new lines, if the file indents their hunk's quoted lines differently.

    The table maps leading blanks in the hunk to leading blanks in the file.
    """

    table: dict[str, str]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], new: Sequence[str] = ()) -> Reindent:
        """Make a Reindent from (quoted line, file's line) pairs and the lines of the new side."""
        shown = [(leading(quoted), leading(line)) for quoted, line in pairs if quoted.strip() and line.strip()]
        if not shown or all(a == b for a, b in shown):
            return cls({})
        if blanks := [leading(line) for line in new if line.strip()]:
            theirs, ours = min((a for a, _ in shown), key=len), min((b for _, b in shown), key=len)
            least = min(blanks, key=len)
            if len(theirs) < len(ours) == len(least):
                return cls({})  # the new side already has the file's indentation
            is_even = least == blanks[0] == blanks[-1] == shown[0][0]
            if is_even and len({len(b) - len(a) for a, b in shown}) > 1 and blanks.count(least) > 1:
                return cls({shown[0][0]: shown[0][1]})  # only the first quoted line was moved, but the whole new side
        return cls(dict(reversed(shown)))  # if lines disagree, the first counts until `pass_line`

    def pass_line(self, quoted: str, line: str) -> None:
        """Let a quoted line's own indentation apply to the new lines below it."""
        if self.table.get(leading(quoted)) is not None and quoted.strip() and line.strip() and len(self.table) > 1:
            self.table[leading(quoted)] = leading(line)

    def apply(self, line: str) -> str:
        """Return the line with the file's indentation; blank lines stay as they are."""
        blanks = leading(line)
        if not self.table or not line.strip():
            return line
        known = max((key for key in self.table if blanks.startswith(key)), key=len, default=None)
        if known is not None:
            return self.table[known] + self._converted(blanks[len(known) :]) + line[len(blanks) :]
        deeper = min((key for key in self.table if key.startswith(blanks)), key=len, default=None)
        if deeper is None:
            return self._converted(blanks) + line[len(blanks) :]
        return self.table[deeper].removesuffix(self._converted(deeper[len(blanks) :])) + line[len(blanks) :]

    def _converted(self, step: str) -> str:
        """Return indentation that goes deeper than the table's, in the file's kind of blanks.  The depths of the quoted
        lines tell how many spaces equal a tab."""
        is_tabs = "\t" in step
        pairs = ((ours, theirs) if is_tabs else (theirs, ours) for theirs, ours in self.table.items())
        depths = sorted((len(b), len(a)) for a, b in pairs if not (a.strip(" ") or b.strip("\t")))
        low, high = depths[0] if len(depths) > 1 else (0, 0), depths[-1] if depths else (0, 0)
        width = (high[1] - low[1]) // (high[0] - low[0]) if high[0] > low[0] else 0
        if width <= 0:
            return step
        return step.replace("\t", " " * width) if is_tabs else "\t" * (len(step) // width) + " " * (len(step) % width)
