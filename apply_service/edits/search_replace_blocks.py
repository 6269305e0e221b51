"""Search/replace blocks read from an update: Aider's, Cline's, Roo's and Void's fences.

    <<<<<<< SEARCH      ------- SEARCH      <<<<<<< ORIGINAL
    old lines           old lines           old lines
    =======             =======             =======
    new lines           new lines           new lines
    >>>>>>> REPLACE     +++++++ REPLACE     >>>>>>> UPDATED

Fences stand at the start of their line.  A block inside a block is content (files about this format hold such text),
and so is a divider that does not fit; which divider fits is for `search_replace` to say, which knows the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apply_service.edits.envelope import is_around, is_fence, named_path
from apply_service.errors import MalformedEdit

OPENING = re.compile(r"^(?P<run><{5,9}|-{5,9}) (?:SEARCH|ORIGINAL)>?\s*$")
DIVIDER = re.compile(r"^(?P<run>={5,9})\s*$")
CLOSING = re.compile(r"^(?:>{5,9}|\+{5,9}) (?:REPLACE|UPDATED)>?\s*$")
LINE_NOTE = re.compile(r"^:(?P<which>start|end)_line:\s*(?P<line>\d+)\s*$")
NOTE_DIVIDER = re.compile(r"^-{5,9}\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """One block, as line numbers of the update."""

    label: str
    start: int
    """First line of the old text."""
    dividers: tuple[int, ...]
    closing: int
    path: str | None = None
    stated_line: int | None = None


@dataclass(frozen=True, slots=True)
class BlockText:
    """The blocks of an update, and the lines around them that are no blocks, blanks, fences, names or sentences."""

    blocks: tuple[Block, ...]
    strays: tuple[int, ...]


def opens_with_block(lines: Sequence[str]) -> bool:
    """Whether the first line that is part of an edit opens a block."""
    first = next((line for line in lines if OPENING.match(line) or not is_around(line)), "")
    return OPENING.match(first) is not None


def read_blocks(lines: Sequence[str]) -> BlockText:
    """The blocks of an update.

    Raises:
        MalformedEdit: none, or one that is not complete; names the line.
    """
    blocks: list[Block] = []
    strays: list[int] = []
    path: str | None = None
    at = 0
    while at < len(lines):
        if OPENING.match(lines[at]):
            blocks.append(_read_block(lines, at, f"block {len(blocks) + 1}", path))
            at = blocks[-1].closing + 1
            continue
        if CLOSING.match(lines[at]):
            raise _malformed(f"line {at + 1} ends a block that has not begun", lines[at])
        path = _path_before(lines, at) or path
        if not is_around(lines[at]):
            strays.append(at)
        at += 1
    if not blocks:
        raise _malformed("there is no search/replace block", lines[0] if lines else "")
    return BlockText(tuple(blocks), tuple(strays))


def _path_before(lines: Sequence[str], at: int) -> str | None:
    """The path that a line between blocks names, on its own or as a fence's title."""
    if is_fence(lines[at]):
        titles = (named_path(word) for word in lines[at].strip("`~ \t").split())
        return next((title for title in titles if title), None)
    return named_path(lines[at])


def _read_block(lines: Sequence[str], opening: int, label: str, path: str | None) -> Block:
    start, stated_line = _skip_notes(lines, opening + 1)
    dividers: list[int] = []
    depth = 1
    for at in range(start, len(lines)):
        if OPENING.match(lines[at]):
            depth += 1
        elif CLOSING.match(lines[at]):
            depth -= 1
        elif depth == 1 and DIVIDER.match(lines[at]):
            dividers.append(at)
        if depth == 0:
            if not dividers:
                raise _malformed(f"{label} (line {opening + 1}) has no divider =======", lines[opening])
            return Block(label, start, _fitting(lines, opening, dividers), at, path, stated_line)
    raise _malformed(f"{label} (line {opening + 1}) has no end: the edit may be cut short", lines[opening])


def _skip_notes(lines: Sequence[str], at: int) -> tuple[int, int | None]:
    """Past the line numbers that some models put above the old text."""
    stated: int | None = None
    end = at
    while end < len(lines) and (note := LINE_NOTE.match(lines[end])):
        if note["which"] == "start":
            stated = int(note["line"]) - 1
        end += 1
    if end > at and end < len(lines) and NOTE_DIVIDER.match(lines[end]):
        end += 1
    return end, stated


def _fitting(lines: Sequence[str], opening: int, dividers: Sequence[int]) -> tuple[int, ...]:
    """Dividers as long as the opening fence, if there are such."""
    fence = OPENING.match(lines[opening])
    length = len(fence["run"]) if fence else 0
    alike = tuple(at for at in dividers if len(lines[at].rstrip()) == length)
    return alike or tuple(dividers)


def _malformed(message: str, line: str) -> MalformedEdit:
    return MalformedEdit(
        message,
        value=line[:200],
        remedy="write each block as <<<<<<< SEARCH, old lines, =======, new lines, >>>>>>> REPLACE",
    )


def splits(block: Block, lines: Sequence[str]) -> Iterator[tuple[list[tuple[int, str]], list[tuple[int, str]]]]:
    """Old and new text, as (line of the update, text), for each divider that may be the one."""
    for divider in block.dividers:
        old = [(at, lines[at]) for at in range(block.start, divider)]
        yield old, [(at, lines[at]) for at in range(divider + 1, block.closing)]
