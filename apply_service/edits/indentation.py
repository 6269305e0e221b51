"""Indentation as the merge sees it: columns, the unit of a text, and moving a fragment to the file's indentation.

Knows no syntax.  A fragment that a model dedented, or wrote with spaces for a file of tabs, is moved line by line by a
`Shift`; `fitting` chooses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

TAB_COLUMNS = 4


def leading(line: str) -> str:
    """The line's leading blanks."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def columns(blanks: str) -> int:
    """Width of leading blanks, a tab counting as four columns."""
    return len(blanks) + blanks.count("\t") * (TAB_COLUMNS - 1)


@lru_cache(maxsize=65536)
def indent_of(line: str) -> int:
    """Columns before the line's first visible character."""
    return columns(leading(line))


@dataclass(frozen=True, slots=True)
class Unit:
    """One level of a text's indentation: a tab, or so many spaces."""

    text: str

    @property
    def columns(self) -> int:
        return columns(self.text)


def find_unit(lines: Sequence[str]) -> Unit | None:
    """The indentation unit of a text; None where nothing is indented."""
    blanks = [leading(line) for line in lines if line.strip()]
    tabs = sum(1 for blank in blanks if blank.startswith("\t"))
    spaces = [len(blank) for blank in blanks if blank.startswith(" ")]
    if tabs > len(spaces):
        return Unit("\t")
    steps: Counter[int] = Counter()
    for above, below in pairwise(blanks):
        step = len(below) - len(above)
        if step in (2, 3, 4, 8) and "\t" not in below:
            steps[step] += 1
    if steps:
        return Unit(" " * steps.most_common(1)[0][0])
    return Unit(" " * min(spaces)) if spaces else None


@dataclass(frozen=True, slots=True)
class Shift:
    """How a fragment's indentation becomes the file's: its levels rewritten in the file's unit, then moved."""

    delta: int = 0
    own_columns: int = 0
    """Columns of one level in the fragment; 0: levels are not rewritten."""
    unit: str = ""
    """One level in the file; "" where the file has none."""

    @property
    def is_identity(self) -> bool:
        return not (self.delta or self.own_columns)

    def blanks(self, blanks: str) -> str:
        """Leading blanks as the file would write them."""
        if self.own_columns:
            levels, rest = divmod(columns(blanks), self.own_columns)
            blanks = self.unit * levels + " " * rest
        if self.delta <= 0:
            return _cut(blanks, -self.delta)
        if "\t" in self.unit:
            tabs, rest = divmod(self.delta, TAB_COLUMNS)
            return "\t" * tabs + " " * rest + blanks
        return " " * self.delta + blanks

    def apply(self, line: str) -> str:
        """The line at the file's indentation; blank lines stay as they are."""
        if self.is_identity or not line.strip():
            return line
        blanks = leading(line)
        return self.blanks(blanks) + line[len(blanks) :]

    def moved(self, delta: int) -> Shift:
        return replace(self, delta=delta)


def _cut(blanks: str, width: int) -> str:
    """`blanks` less `width` columns from the left."""
    while width > 0 and blanks:
        width -= columns(blanks[0])
        blanks = blanks[1:]
    return blanks + " " * (-width if width < 0 else 0)
