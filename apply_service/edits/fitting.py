"""Chooses how each block of a snippet is re-indented, by the lines that also stand in the original.

First the kind of indentation, for the whole snippet (tabs for spaces, another width), then for each block how far it
is moved.  A block whose edges stand in the file as they are written is not moved: another indentation inside is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from apply_service.edits.candidates import LineIndex, substance
from apply_service.edits.indentation import TAB_COLUMNS, Shift, find_unit, indent_of, leading

MIN_VOTE = 0.15
"""Less evidence than this moves nothing."""
MAX_VOTERS = 400
"""Lines looked at in each block."""

Lines = Sequence[str]


def fit_blocks(blocks: Sequence[Lines], index: LineIndex) -> list[Shift]:
    """The shift of each block."""
    base = _conversion(blocks, index)
    shifts = [_place(lines, base, index) for lines in blocks]
    known = [any(line.strip() and index.places(line) for line in lines) for lines in blocks]
    moves = {shift.delta for shift, is_known in zip(shifts, known, strict=True) if is_known}
    if len(moves) != 1:
        return shifts
    common = base.moved(moves.pop())
    return [shift if is_known else common for shift, is_known in zip(shifts, known, strict=True)]


def _conversion(blocks: Sequence[Lines], index: LineIndex) -> Shift:
    """The rewriting under which the most lines stand in the file as they are; none where indented lines already do."""
    unit = find_unit(index.lines)
    plain = Shift(unit=unit.text if unit is not None else "")
    indented = [[line for line in lines if line[:1] in (" ", "\t")] for lines in blocks]
    indented = [lines for lines in indented if lines]
    if unit is None or not indented or any(_has_edge(lines, index) for lines in blocks):
        return plain
    uses_tabs = any(line.startswith("\t") for lines in indented for line in lines)
    stands = _fit(indented, plain, index)
    levels = _levels(blocks, plain, index, stands)
    if levels is not None:
        return levels
    if any(substance(line.strip()) >= 0.5 and index.has(line.rstrip()) for lines in indented for line in lines):
        return plain
    best, most = plain, max(2.5 * stands, MIN_VOTE)
    for width in (TAB_COLUMNS,) if uses_tabs else _widths(indented):
        shift = Shift(own_columns=width, unit=unit.text)
        fit = 0.0 if _is_same(width, uses_tabs, unit.text) else _fit(indented, shift, index)
        if fit > most:
            best, most = shift, fit
    if best is plain and _is_foreign(indented, unit.text):
        own = find_unit([line for lines in indented for line in lines])
        return Shift(own_columns=own.columns if own is not None else TAB_COLUMNS, unit=unit.text)
    return best


def _levels(blocks: Sequence[Lines], plain: Shift, index: LineIndex, stands: float) -> Shift | None:
    """The rewriting of the fragment's own levels, where blocks then stand right without being moved, and more of them
    than any move would bring to stand; None where there is none."""
    own = find_unit([line for lines in blocks for line in lines])
    if own is None or own.text == plain.unit:
        return None
    shift = Shift(own_columns=own.columns, unit=plain.unit)
    is_moved = any(_place(lines, plain, index).delta for lines in blocks)
    fit = sum(_exact(lines, shift, index) for lines in blocks)
    stands += sum(_exact([x for x in lines if x[:1] not in (" ", "\t")], plain, index) for lines in blocks)
    return shift if is_moved and fit > stands else None


def _widths(indented: Sequence[Lines]) -> list[int]:
    """Likely widths of a level of spaces, the fragment's own first."""
    own = find_unit([line for lines in indented for line in lines])
    return sorted({2, 4}, key=lambda width: own is None or width != own.columns)


def _has_edge(lines: Lines, index: LineIndex) -> bool:
    """Whether an indented edge of the block stands in the file as it is written."""
    edges = (line.rstrip() for line in (lines[0], lines[-1]))
    return any(edge[:1] in (" ", "\t") and substance(edge.strip()) >= 0.3 and index.has(edge) for edge in edges)


def _is_same(width: int, uses_tabs: bool, unit: str) -> bool:
    return (uses_tabs and unit == "\t") or (not uses_tabs and unit == " " * width)


def _is_foreign(indented: Sequence[Lines], unit: str) -> bool:
    """Whether the snippet has only the one kind of indentation and the file the other."""
    starts = {line[0] for lines in indented for line in lines}
    if starts != ({" "} if unit == "\t" else {"\t"}):
        return False
    own = find_unit([line for lines in indented for line in lines])
    return own is not None and all(indent_of(line) % max(2, own.columns) == 0 for lines in indented for line in lines)


def _fit(blocks: Sequence[Lines], base: Shift, index: LineIndex) -> float:
    return sum(_exact(lines, _place(lines, base, index), index) for lines in blocks)


def _place(lines: Lines, base: Shift, index: LineIndex) -> Shift:
    """How far the block is moved, once rewritten."""
    if _stands_right(lines, base, index):
        return base
    votes: defaultdict[int, float] = defaultdict(float)
    for line in lines[:MAX_VOTERS]:
        places = index.places(line) if line.strip() else ()
        here = indent_of(base.blanks(leading(line)) + "x")
        indents = {indent_of(index.lines[j]) for j in places[:40]}
        for there in indents:
            votes[there - here] += substance(line.strip()) ** 2 / len(indents)
    edge = _edge_move(lines, base, index)
    if edge is not None and edge >= -min(indent_of(base.apply(line)) for line in lines if line.strip()):
        return base.moved(edge)
    least = min((indent_of(base.apply(line)) for line in lines if line.strip()), default=0)
    votes = defaultdict(float, {delta: vote for delta, vote in votes.items() if delta >= -least})
    best = max(votes, key=votes.__getitem__, default=0)
    if not votes or votes[best] < MIN_VOTE or votes[0] >= 0.5 * votes[best]:
        return base
    return base.moved(best)


def _edge_move(lines: Lines, base: Shift, index: LineIndex) -> int | None:
    """The one move that brings both edges of the block to lines of the file; None where there is none, or several."""
    if len(lines) < 3 or substance(lines[0].strip()) < 0.5:
        return None
    moves = []
    for line in (lines[0], lines[-1]):
        here = indent_of(base.apply(line))
        moves.append({indent_of(index.lines[j]) - here for j in index.places(line)[:60]})
    both = moves[0] & moves[1]
    return both.pop() if len(moves[0]) == 1 and len(both) == 1 else None


def _stands_right(lines: Lines, base: Shift, index: LineIndex) -> bool:
    """Whether the block's edges are in the file just as they are written."""
    edges = [base.apply(line).rstrip() for line in (lines[0], lines[-1])]
    exact = [index.has(edge) for edge in edges]
    return all(exact) or any(
        is_exact and substance(edge.strip()) >= 0.5 for is_exact, edge in zip(exact, edges, strict=True)
    )


def _exact(lines: Lines, shift: Shift, index: LineIndex) -> float:
    """How much of the block stands in the file as it is, once shifted."""
    return sum(
        substance(line.strip()) for line in lines[:MAX_VOTERS] if line.strip() and index.has(shift.apply(line).rstrip())
    )
