"""What is asked of a finished merge before it may call itself certain.

This is the last step of the merger.  Each question names one way in which a careful reader might understand the
snippet differently: in another place (`rivals`), outside the scope shown, with other words (`wording`), or with other
blank lines (`loose_blanks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from apply_service.edits.clarity import is_vague
from apply_service.edits.code_lines import indent_of
from apply_service.edits.laid_blocks import Laid, LaidBlock
from apply_service.edits.lazy.reading import Reading
from apply_service.edits.loose_blanks import may_hold_blank, touches_blank_edge
from apply_service.edits.markers import Role, names_file
from apply_service.edits.repeats import repeats_hidden_run
from apply_service.edits.rivals import Rivals
from apply_service.edits.stretches import Block, Stretch
from apply_service.edits.wording import hides_trailing_space, is_miscopied, is_respaced
from apply_service.types import LineOp

REINDENTED = 2.0
"""Cost of reading a block at another indentation than its own."""
MAX_HEADER = 2
"""The most lines of a block that only shows a scope."""


def doubts_of(reading: Reading, ops: Sequence[LineOp]) -> list[str]:
    """The reasons of ALL_DOUBTS that speak against a merge."""
    laid = Laid(reading, ops)
    found = [reason for reason, is_true in QUESTIONS if is_true(laid)]
    return [*found, ELSEWHERE] if _has_rival(laid) else found


# -- places ------------------------------------------------------------------------------------------------------------
def _has_rival(laid: Laid) -> bool:
    """Whether a changed block fits another place as well, at its own indentation or at another one."""
    rows = [j for j, line in enumerate(laid.reading.original) if line.strip()]
    row_of = {j: row for row, j in enumerate(rows)}
    lines = [laid.reading.original[j].rstrip() for j in rows]
    rivals, bare = Rivals(lines), Rivals([line.strip() for line in lines])
    stretches = [Stretch(row_of[block.start], row_of[block.end - 1] + 1) for block in laid.blocks]
    shown = {row for stretch in stretches for row in range(*stretch)}
    for block, stretch, floor in _changed(laid.blocks, stretches):
        shown.difference_update(range(*stretch))
        whole = _as_block(laid, block.number, block.texts)
        if rivals.has_rival(whole, stretch, floor=floor, shown=shown):
            return True
        whole = _as_block(laid, block.number, [text.strip() for text in block.texts])
        if bare.has_rival(whole, stretch, floor=floor, shown=shown, handicap=REINDENTED):
            return True
        shown.update(range(*stretch))
    return False


def _changed(blocks: Sequence[LaidBlock], stretches: Sequence[Stretch]) -> Iterator[tuple[LaidBlock, Stretch, int]]:
    """The blocks that change something, each with its stretch and the end of the previous changed stretch."""
    floor = 0
    for block, stretch in zip(blocks, stretches, strict=True):
        if block.has_new or stretch.stop - stretch.start != len(block.texts):
            yield block, stretch, floor
            floor = stretch.stop


def _as_block(laid: Laid, number: int, texts: Sequence[str]) -> Block:
    blocks = laid.reading.snippet.blocks
    opens = number == 0 and not blocks[0].marked_before
    return Block(tuple(texts), opens, number == len(blocks) - 1 and not blocks[-1].marked_after)


# -- scopes ------------------------------------------------------------------------------------------------------------
def _leaves_scope(laid: Laid) -> bool:
    """Whether a block lies outside the scope of the header shown above it, or drops the bounds of its own scope."""
    header: int | None = None
    for block in laid.blocks:
        if header is not None and _is_outside(laid.reading, header, block):
            return True
        if _drops_bounds(laid, block):
            return True
        is_header = len(block.texts) <= MAX_HEADER and not block.has_new
        header = block.end - 1 if is_header and _opens_scope(laid.reading, block.end - 1) else None
    return False


def _is_outside(reading: Reading, header: int, block: LaidBlock) -> bool:
    is_inner = block.columns[0] is not None and indent_of(block.texts[0]) > indent_of(reading.original[header])
    return is_inner and block.start >= reading.close_of(header)


def _opens_scope(reading: Reading, j: int) -> bool:
    below = next((line for line in reading.original[j + 1 :] if line.strip()), "")
    return indent_of(below) > indent_of(reading.original[j])


def _drops_bounds(laid: Laid, block: LaidBlock) -> bool:
    """Whether a dropped line is indented less than all lines in its place, the next kept line included."""
    above: int | None = None
    lows: list[int] = []
    for text, j in zip(block.texts, block.columns, strict=True):
        lows.append(indent_of(text))
        if j is None:
            continue
        gone = [k for k in range(above + 1, j) if k in laid.dropped] if above is not None else []
        if any(laid.reading.index.scope_indents[k] < min(lows) for k in gone):
            return True
        above, lows = j, []
    return False


# -- notes -------------------------------------------------------------------------------------------------------------
def _begins_with_file_name(laid: Laid) -> bool:
    """Whether the first line names the file and was merged as content: it may have been meant only for the reader."""
    roles = laid.reading.snippet.roles
    first = next((i for i, role in enumerate(roles) if role is Role.CONTENT), None)
    if first is None or Role.FILE_NAME in roles:
        return False
    return names_file(laid.reading.texts[first], laid.reading.path)


QUESTIONS: tuple[tuple[str, Callable[[Laid], bool]], ...] = (
    ("trailing white space differs", hides_trailing_space),
    ("file name or comment", _begins_with_file_name),
    ("blank lines at the file's start or end", touches_blank_edge),
    ("a line is changed in nothing but its white space", is_respaced),
    ("context misquoted", is_miscopied),
    ("a block leaves its scope", _leaves_scope),
    ("new lines repeat hidden ones", repeats_hidden_run),
    ("blank line beside a marker", may_hold_blank),
    ("anchor not unique", is_vague),
)
"""Pairs of reason and question."""

ELSEWHERE = "another place is as likely"
ALL_DOUBTS = (*(reason for reason, _ in QUESTIONS), ELSEWHERE)
