"""Whether the quoted lines of a merge fit another place of the file as well.

Judges a finished merge; changes none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apply_service.edits.code_lines import (
    definition_end,
    indent_of,
    is_attached,
    is_closer,
    is_definition,
    name_at,
)
from apply_service.edits.lazy.candidates import LineIndex
from apply_service.edits.lazy.reading import Block, ReadSnippet
from apply_service.types import LineOp

REASON = "the lines that the snippet quotes fit another place of the file too"
MIN_LETTERS = 6
MAX_TWIN = 3
"""Equal ends elsewhere count as a twin if they are less than this many block lengths apart."""


def is_vague(reading: ReadSnippet, ops: Sequence[LineOp]) -> bool:
    """Whether the ends of a changed block fit another place as well.

    A block shows every line between its first and its last, so only its two ends must be clear.  They are clear under
    three conditions.  The unbroken run of context at one end occurs once where the block may stand.  The run at the
    other end is the nearest such run.  The two ends do not stand together elsewhere.
    """
    columns = {op.update_line: op.original_line for op in ops if op.kind == "both"}
    shown = {i: j for i, j in columns.items() if i is not None and j is not None}
    floor, above = 0, 0
    headers: list[int] = []
    """The lines shown above a block that are indented less than all shown lines after them; the nearest is last."""
    for b, block in enumerate(reading.snippet.blocks):
        solid = [i for i in block.lines if reading.texts[i].strip()]
        known = [shown[i] for i in solid if i in shown]
        if not known or holds_definitions(reading, block):
            continue
        start, end = known[0], known[-1] + 1
        while above < len(reading.visible) and reading.visible[above][0] < b:
            i = reading.visible[above][1]
            while headers and indent_of(reading.texts[headers[-1]]) >= indent_of(reading.texts[i]):
                headers.pop()
            headers.append(i)
            above += 1
        if len(known) < len(solid) or end - start > len(block.lines):
            # The block must end before the innermost scope above it with a unique header ends.
            ceiling, indent = len(reading.original), min(indent_of(reading.texts[i]) for i in solid)
            for i in reversed(headers):
                text = reading.texts[i]
                if indent_of(text) < indent:
                    indent = indent_of(text)
                    j = shown.get(i)
                    if j is not None and reading.index.count(text) == 1 and reading.close_of(j) >= end - 1:
                        ceiling = min(ceiling, reading.close_of(j) + 1)
            head, tail = (_context(reading, shown, block, step) for step in (1, -1))
            if not _are_clear(reading, head, tail, floor, ceiling) or _have_twin(reading, block, (start, end), floor):
                return True
        floor = end
    return False


def holds_definitions(reading: ReadSnippet, block: Block) -> bool:
    """Whether a block has nothing but whole definitions that the file has once or not at all, and closing lines."""
    texts = [reading.texts[i] for i in block.lines]
    margin = reading.marker_indent(block.gap_after)
    at, found = 0, False
    while at < len(texts):
        if not texts[at].strip() or is_closer(texts[at]) or (is_attached(texts[at]) and at + 1 < len(texts)):
            at += 1
            continue
        name, end = name_at(texts, at), definition_end(texts, at, len(texts))
        if name is None or not is_definition(texts[at]) or reading.names[name] > 1 or end == at + 1:
            return False
        is_closed = is_closer(texts[end - 1]) and indent_of(texts[end - 1]) == indent_of(texts[at])
        if end == len(texts) and not is_closed and margin is not None and margin > indent_of(texts[at]):
            return False
        at, found = end, True
    return found


def _are_clear(reading: ReadSnippet, head: range, tail: range, low: int, high: int) -> bool:
    """Whether a block's ends fit only the place where they were put, if the block lies in `low:high`."""
    index, original = reading.index, reading.original
    ends = [original[run.start : run.stop] for run in (head, tail)]
    if not all(any(map(marks_place, lines)) for lines in ends if lines):
        return False
    # Readers look only for a run that has a line with more than brackets and short words.
    head_says, tail_says = (any(sum(map(str.isalnum, line[:200])) >= MIN_LETTERS for line in lines) for lines in ends)
    if not head or not tail:
        run = head or tail
        return bool(run) and len(_occurrences(index, run, low, high)) == 1
    heads = _occurrences(index, head, low, high)
    if len(heads) == 1:
        after = _occurrences(index, tail, head.stop, high)
        return after[:1] == [tail.start] and (len(after) == 1 or tail_says)
    before = [place for place in heads if place + len(head) <= tail.stop - 1]
    return len(_occurrences(index, tail, low, high)) == 1 and before[-1:] == [head.start] and head_says


def _context(reading: ReadSnippet, shown: Mapping[int, int], block: Block, step: int) -> range:
    """The original lines of the unbroken context at the start (step 1) or the end (-1) of a block.

    Blank lines on its inner side are left out.  The range is empty if the block begins (ends) with new lines.
    """
    original, texts = reading.original, reading.texts
    lines = block.lines[::step]
    first, n = shown.get(lines[0]), 0
    if first is None:
        return range(0)
    for i in lines:
        at, column = first + step * n, shown.get(i)
        is_blank = not texts[i].strip() and 0 <= at < len(original) and not original[at].strip()
        if not (is_blank if column is None else column == at):
            break
        n += 1
    while n > 1 and not original[first + step * (n - 1)].strip():
        n -= 1
    return range(first, first + n) if step > 0 else range(first - n + 1, first + 1)


def _occurrences(index: LineIndex, run: range, low: int, high: int) -> list[int]:
    """The first lines of all runs in `low:high` that equal these lines, ignoring white space at both ends of lines."""
    wanted = index.stripped[run.start : run.stop]
    said = next((k for k, text in enumerate(wanted) if text), None)
    starts = (j - said for j in index.places(wanted[said])) if said is not None else ()
    n = len(wanted)
    return [start for start in starts if low <= start <= high - n and index.stripped[start : start + n] == wanted]


def _have_twin(reading: ReadSnippet, block: Block, ends: tuple[int, int], low: int) -> bool:
    """Whether the first and the last line of a block stand together elsewhere, from line `low` on."""
    index, most = reading.index, MAX_TWIN * len(block.lines)
    firsts, lasts = (
        [j for j in index.places(text) if j >= low and j != at and index.lines[j].rstrip() == text.rstrip()]
        for at in (ends[0], ends[1] - 1)
        for text in [index.lines[at]]
    )
    return any(0 < b - a < most for a in firsts for b in lasts)


def marks_place(line: str) -> bool:
    """Whether a line has a letter or digit, or closes something.  A lone sign ("*", "---") may well be new."""
    return any(map(str.isalnum, line[:200])) or is_closer(line)
