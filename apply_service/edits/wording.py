"""Whether a new line may be a line of the file after all, written carelessly: re-indented, re-spaced, misquoted.

Asked of a finished merge.  The merger knows most careless copies while it writes; these are the ones that the alignment
took for edits.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.candidates import squeeze, substance
from apply_service.edits.code_lines import find_unit
from apply_service.edits.laid_blocks import Laid, LaidBlock
from apply_service.edits.lazy.misquotes import Quoted
from apply_service.types import LineOp

MIN_KNOWN = 0.3
"""What a line must say to be known again at another indentation."""
MIN_SURE = 0.5
"""What a shown line must say to prove that the block is indented as the file is."""


def is_respaced(laid: Laid) -> bool:
    """Whether a new line is a line of the file but for white space: meant, or a slip of the pen.

    Another indentation is taken at its word where the block shows an indented line as the file has it, and its levels
    are as wide as the file's.
    """
    for dropped, taken in laid.changes:
        gone = {op.text.strip() for op in dropped}
        if taken and gone.issuperset(op.text.strip() for op in taken):
            return True
        raw = {op.text for op in dropped}
        trimmed = {text.rstrip() for text in raw}
        if any(op.text not in raw and op.text.rstrip() in trimmed for op in taken):
            return True
        if _is_reindented(laid, raw, taken):
            return True
    return False


def _is_reindented(laid: Laid, raw: set[str], taken: Sequence[LineOp]) -> bool:
    """Whether a line that is taken stands otherwise than it does in the file, where nothing proves the margin."""
    known = {squeeze(text) for text in raw if substance(text.strip()) >= MIN_KNOWN}
    others = (op for op in taken if op.text not in raw and _stands_otherwise(laid, op.text, known))
    return any(not _shows_margin(laid, op.update_line) for op in others)


def _has_other_unit(laid: Laid, block: LaidBlock) -> bool:
    """Whether the block's levels are not as wide as the file's: then a line stands as in the file by chance."""
    own, file = find_unit(block.texts), find_unit(laid.reading.original)
    return own is not None and file is not None and own != file


def _stands_otherwise(laid: Laid, text: str, known: set[str]) -> bool:
    """Whether the text is among the known lines, or indented otherwise than wherever the file has it."""
    if squeeze(text) in known:
        return True
    places = laid.reading.index.places(text)
    is_known = text[:1] in (" ", "\t") and substance(text.strip()) >= MIN_KNOWN and bool(places)
    return is_known and all(laid.reading.original[j].rstrip() != text.rstrip() for j in places)


def _shows_margin(laid: Laid, i: int | None) -> bool:
    """Whether the block of update line i shows an indented line just as the file has it."""
    block = next((block for block in laid.blocks if i in block.lines), None)
    if block is None or _has_other_unit(laid, block):
        return False
    pairs = zip(block.texts, block.columns, strict=True)
    return any(
        j is not None
        and text[:1] in (" ", "\t")
        and substance(text.strip()) >= MIN_SURE
        and text == laid.reading.original[j].rstrip()
        for text, j in pairs
    )


def is_miscopied(laid: Laid) -> bool:
    """Whether a new line may be a misquotation of a line that its block covers."""
    return any(_has_miscopy(laid, block) for block in laid.blocks if block.has_new)


def _has_miscopy(laid: Laid, block: LaidBlock) -> bool:
    covered = {line.strip() for line in laid.reading.original[block.start : block.end] if line.strip()}
    new = {laid.taken[i].strip() for i in block.lines if i in laid.taken} - covered
    quoted = Quoted(covered) if new else None
    return quoted is not None and any(map(quoted.has_copy, new))


def hides_trailing_space(laid: Laid) -> bool:
    """Whether a new line stood so far from its remark that white space between them may be its own."""
    return any(laid.reading.is_wide(i) for i in laid.taken)
