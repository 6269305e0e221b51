"""How the indentation of a snippet becomes the file's.

Each block is re-indented by the lines that also stand in the original: first the kind of indentation, for the whole
snippet (tabs for spaces, another width), then for each block how far it is moved.  A block whose edges stand in the
file as they are written is not moved: another indentation inside is meant.  Where a snippet lost its indentation,
`reflow` gives the new lines of a finished merge one, by what opens and closes above them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from apply_service.edits.code_lines import TAB_COLUMNS, columns, find_unit, indent_of, is_closer, leading
from apply_service.edits.lazy.candidates import LineIndex, substance
from apply_service.types import LineOp

MIN_VOTE = 0.15
"""Less evidence than this moves nothing."""
MAX_VOTERS = 400
"""Lines looked at in each block."""
OPENERS = ("{", "(", "[", ":", "=>", "then", "do")
_BLANKS = (" ", "\t")

Lines = Sequence[str]


class Shift(NamedTuple):
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
        if self.delta > 0:
            tabs, rest = divmod(self.delta, TAB_COLUMNS) if "\t" in self.unit else (0, self.delta)
            return "\t" * tabs + " " * rest + blanks
        surplus = -self.delta
        while surplus > 0 and blanks:
            surplus -= columns(blanks[0])
            blanks = blanks[1:]
        return blanks + " " * max(0, -surplus)

    def apply(self, line: str) -> str:
        """The line at the file's indentation; blank lines stay as they are."""
        if self.is_identity or not line.strip():
            return line
        blanks = leading(line)
        return self.blanks(blanks) + line[len(blanks) :]

    def moved(self, delta: int) -> Shift:
        return self._replace(delta=delta)


def fit_blocks(blocks: Sequence[Lines], index: LineIndex) -> list[Shift]:
    """The shift of each block."""
    base = _rewriting(blocks, index)
    shifts = [_move(lines, base, index) for lines in blocks]
    known = [any(line.strip() and index.places(line) for line in lines) for lines in blocks]
    moves = {shift.delta for shift, is_known in zip(shifts, known, strict=True) if is_known}
    if len(moves) != 1:
        return shifts
    common = base.moved(moves.pop())
    return [shift if is_known else common for shift, is_known in zip(shifts, known, strict=True)]


def _rewriting(blocks: Sequence[Lines], index: LineIndex) -> Shift:
    """The rewriting under which the most lines stand in the file as they are; none where indented lines already do."""
    indented = [kept for lines in blocks if (kept := [line for line in lines if line.startswith(_BLANKS)])]
    unit = find_unit(index.lines)
    plain = Shift(unit=unit.text if unit is not None else "")
    edges = [line.rstrip() for lines in blocks for line in (lines[0], lines[-1]) if line.startswith(_BLANKS)]
    if unit is None or not indented or any(substance(edge.strip()) >= 0.3 and index.has(edge) for edge in edges):
        return plain
    own = find_unit([line for lines in blocks for line in lines])
    stands = sum(_known_worth(lines, _move(lines, plain, index), index) for lines in indented)
    if own is not None and own != unit:
        # The fragment's own levels rewritten, where blocks then stand right without being moved, and no move would
        # bring more of them to stand.
        shift = Shift(own_columns=own.columns, unit=unit.text)
        fit = sum(_known_worth(lines, shift, index) for lines in blocks)
        moves = [_move(lines, plain, index) for lines in blocks]
        most = sum(_known_worth(lines, move, index) for lines, move in zip(blocks, moves, strict=True))
        says = sum(substance(line.strip()) for lines in indented for line in lines)
        if fit >= most if any(move.delta for move in moves) else fit - most > says / 2:
            return shift
    shown = [line for lines in indented for line in lines]
    if any(substance(line.strip()) >= 0.5 and index.has(line.rstrip()) for line in shown):
        return plain
    own = find_unit(shown)
    uses_tabs = any(line.startswith("\t") for line in shown)
    widths = (TAB_COLUMNS,) if uses_tabs else (2, 4) if own is None or own.columns != 4 else (4, 2)
    best, most = plain, max(2.5 * stands, MIN_VOTE)
    for width in widths:
        shift = Shift(own_columns=width, unit=unit.text)
        if unit.text == ("\t" if uses_tabs else " " * width):
            continue
        fit = sum(_known_worth(lines, _move(lines, shift, index), index) for lines in indented)
        if fit > most:
            best, most = shift, fit
    is_other_kind = {line[0] for line in shown} == ({" "} if unit.text == "\t" else {"\t"})
    if best is plain and own is not None and is_other_kind:
        in_levels = all(indent_of(line) % max(2, own.columns) == 0 for line in shown)
        return Shift(own_columns=own.columns, unit=unit.text) if in_levels else plain
    return best


def _known_worth(lines: Lines, shift: Shift, index: LineIndex) -> float:
    """How much of the block stands in the file as it is, once shifted."""
    return sum(
        substance(line.strip()) for line in lines[:MAX_VOTERS] if line.strip() and index.has(shift.apply(line).rstrip())
    )


def _move(lines: Lines, base: Shift, index: LineIndex) -> Shift:
    """How far the block is moved, once rewritten; not at all where its edges are in the file just as written."""
    edges = [base.apply(line).rstrip() for line in (lines[0], lines[-1])]
    exact = [edge for edge in edges if index.has(edge)]
    if len(exact) == 2 or any(substance(edge.strip()) >= 0.5 for edge in exact):
        return base
    least = min((indent_of(base.apply(line)) for line in lines if line.strip()), default=0)
    if len(lines) >= 3 and substance(lines[0].strip()) >= 0.5:
        # The one move that brings both edges to lines of the file.
        first, last = (
            {indent_of(index.lines[j]) - here for j in index.places(line)[:60]}
            for line in (lines[0], lines[-1])
            for here in [indent_of(base.apply(line))]
        )
        if len(first) == 1 and first <= last and min(first) >= -least:
            return base.moved(min(first))
    votes: defaultdict[int, float] = defaultdict(float)
    for line in lines[:MAX_VOTERS]:
        places = index.places(line) if line.strip() else ()
        if not places:
            continue
        here = indent_of(base.blanks(leading(line)) + "x")
        indents = {indent_of(index.lines[j]) for j in places[:40]}
        for there in indents:
            if there - here >= -least:
                votes[there - here] += substance(line.strip()) ** 2 / len(indents)
    best = max(votes, key=votes.__getitem__, default=0)
    return base.moved(best) if votes[best] >= MIN_VOTE and votes[0] < 0.5 * votes[best] else base


# -- snippets that lost their indentation --------------------------------------------------------------------------


def lost_indentation(shown: Lines, ops: Sequence[LineOp]) -> bool:
    """Whether the snippet shows a line of the file at another indentation than the file has."""
    return any(
        op.kind == "both" and op.update_line is not None and indent_of(shown[op.update_line]) != indent_of(op.text)
        for op in ops
    )


def reflow(original: Lines, ops: Sequence[LineOp]) -> list[LineOp]:
    """The same merge, each new line indented as the brackets and colons at the end of the line above ask for."""
    unit = find_unit(original)
    if unit is None:
        return list(ops)
    found: list[LineOp] = []
    above = ""
    for op in ops:
        text = op.text.strip()
        if op.kind == "take" and text:
            blanks, opens, closes = leading(above), above.rstrip().endswith(OPENERS), is_closer(text)
            chains, above_chains = text.startswith("."), above.lstrip().startswith(".")
            if not closes and (opens or (chains and not above_chains)):
                blanks += unit.text
            elif not opens and (closes or (above_chains and not chains)) and len(unit.text) <= len(blanks):
                blanks = blanks[: len(blanks) - len(unit.text)]
            op = op._replace(text=blanks + text)
        if op.kind != "drop" and text:
            above = op.text
        found.append(op)
    return found
