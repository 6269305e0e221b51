"""New lines indented by what opens and closes above them, for snippets that lost their indentation.

Takes a finished merge.  Knows brackets and colons at the ends of lines, no grammar.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.headers import is_closer
from apply_service.edits.indentation import find_unit, indent_of, leading
from apply_service.edits.reading import Reading
from apply_service.types import LineOp

OPENERS = ("{", "(", "[", ":", "=>", "then", "do")


def lost_indentation(reading: Reading, ops: Sequence[LineOp]) -> bool:
    """Whether the snippet shows a line of the file at another indentation than the file has."""
    raw = reading.snippet.texts
    return any(
        op.kind == "both" and op.update_line is not None and indent_of(raw[op.update_line]) != indent_of(op.text)
        for op in ops
    )


def reflow(reading: Reading, ops: Sequence[LineOp]) -> list[LineOp]:
    """The same merge, each new line indented as the line above it asks for."""
    unit = find_unit(reading.original)
    if unit is None:
        return list(ops)
    found: list[LineOp] = []
    above = ""
    for op in ops:
        if op.kind == "take" and op.text.strip():
            op = op._replace(text=_indented(op.text.strip(), above, unit.text))
        if op.kind != "drop" and op.text.strip():
            above = op.text
        found.append(op)
    return found


def _indented(text: str, above: str, unit: str) -> str:
    """The text, without indentation, at the level that fits below the line above."""
    blanks, last = leading(above), above.rstrip()
    opens = last.endswith(OPENERS)
    chains = text.startswith(".") and not above.lstrip().startswith(".")
    unchains = above.lstrip().startswith(".") and not text.startswith(".") and not opens
    if is_closer(text):
        if not opens and len(unit) <= len(blanks):
            blanks = blanks[: len(blanks) - len(unit)]
    elif opens or chains:
        blanks += unit
    elif unchains and len(unit) <= len(blanks):
        blanks = blanks[: len(blanks) - len(unit)]
    return blanks + text
