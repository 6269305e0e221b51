"""Indentation as the merge sees it: columns, the unit of a text, and moving a fragment to the file's indentation.

Knows no syntax.  A fragment that a model dedented, or wrote with spaces for a file of tabs, is moved line by line by a
`Shift`; the shift of each block is voted for by the lines that also stand in the file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TAB_COLUMNS = 4
MIN_VOTE = 0.15
"""Less evidence than this moves nothing."""


def leading(line: str) -> str:
    """The line's leading blanks."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def columns(blanks: str) -> int:
    """Width of leading blanks, a tab counting as four columns."""
    return len(blanks) + blanks.count("\t") * (TAB_COLUMNS - 1)


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
    for above, below in zip(blanks, blanks[1:], strict=False):
        step = len(below) - len(above)
        if step in (2, 3, 4, 8) and "\t" not in below:
            steps[step] += 1
    if steps:
        return Unit(" " * steps.most_common(1)[0][0])
    return Unit(" " * min(spaces)) if spaces else None


@dataclass(frozen=True, slots=True)
class Shift:
    """How a fragment's indentation becomes the file's: tabs and spaces exchanged, then `delta` columns added."""

    delta: int = 0
    tabs_from: int = 0
    """Spaces that stand for one tab of the file; 0 leaves spaces alone."""
    spaces_for: int = 0
    """Spaces of the file for one tab of the fragment; 0 leaves tabs alone."""
    uses_tabs: bool = False

    @property
    def is_identity(self) -> bool:
        return not (self.delta or self.tabs_from or self.spaces_for)

    def blanks(self, blanks: str) -> str:
        """Leading blanks as the file would write them."""
        blanks = self._converted(blanks)
        if self.delta > 0:
            return self._make(self.delta) + blanks
        return _cut(blanks, -self.delta)

    def apply(self, line: str) -> str:
        """The line at the file's indentation; blank lines stay as they are."""
        if self.is_identity or not line.strip():
            return line
        blanks = leading(line)
        return self.blanks(blanks) + line[len(blanks) :]

    def _converted(self, blanks: str) -> str:
        if self.tabs_from and "\t" not in blanks:
            tabs, rest = divmod(len(blanks), self.tabs_from)
            return "\t" * tabs + " " * rest
        if self.spaces_for and "\t" in blanks:
            return blanks.replace("\t", " " * self.spaces_for)
        return blanks

    def _make(self, width: int) -> str:
        if not self.uses_tabs:
            return " " * width
        tabs, rest = divmod(width, TAB_COLUMNS)
        return "\t" * tabs + " " * rest


def _cut(blanks: str, width: int) -> str:
    """`blanks` less `width` columns from the left."""
    while width > 0 and blanks:
        width -= columns(blanks[0])
        blanks = blanks[1:]
    return blanks + " " * (-width if width < 0 else 0)


def conversion(fragment: Sequence[str], unit: Unit | None) -> Shift:
    """Tabs against spaces only: what turns the fragment's kind of indentation into the file's."""
    own = find_unit(fragment)
    uses_tabs = unit is not None and unit.text == "\t"
    if own is None or unit is None or own.text == unit.text:
        return Shift(uses_tabs=uses_tabs)
    if uses_tabs and own.text != "\t":
        return Shift(tabs_from=own.columns, uses_tabs=True)
    if not uses_tabs and own.text == "\t":
        return Shift(spaces_for=unit.columns)
    return Shift(uses_tabs=uses_tabs)


def vote(pairs: Iterable[tuple[int, int, float]], base: Shift) -> Shift:
    """The shift that most lines ask for.  `pairs`: column in the converted fragment, column in the file, weight."""
    votes: defaultdict[int, float] = defaultdict(float)
    for here, there, weight in pairs:
        votes[there - here] += weight
    best = max(votes, key=votes.__getitem__, default=0)
    if not votes or votes[best] < MIN_VOTE:
        return base
    delta = 0 if votes[0] >= 0.5 * votes[best] else best
    return Shift(delta, base.tabs_from, base.spaces_for, base.uses_tabs)
