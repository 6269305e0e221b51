"""Blank lines that may or may not be meant for the file: at the file's edges, and beside a marker.

Asked of a finished merge; `role_doubts` asks of those at the snippet's edges.
"""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from apply_service.edits.laid_blocks import Laid, LaidBlock
from apply_service.edits.markers import Role


def touches_blank_edge(laid: Laid) -> bool:
    """Whether a change reaches blank lines at the start or end of the file, where the snippet has no marker: they may
    be part of what it shows."""
    original, blocks = laid.reading.original, laid.reading.snippet.blocks
    solid = [j for j, line in enumerate(original) if line.strip()]
    for block in laid.blocks:
        if not (block.has_new or block.end - block.start > len(laid.reading.block_texts(block.number))):
            continue
        is_first = block.number == 0 and not blocks[0].marked_before
        is_last = block.number == len(blocks) - 1 and not blocks[-1].marked_after
        if is_first and 0 < solid[0] == block.start:
            return True
        if is_last and block.end - 1 == solid[-1] < len(original) - 1:
            return True
    return False


def may_hold_blank(laid: Laid) -> bool:
    """Whether a block may begin or end with new lines, a blank one beside its marker among them."""
    return any(_may_end_blank(laid, block) or _may_begin_blank(laid, block) for block in laid.blocks if block.has_new)


def _may_end_blank(laid: Laid, block: LaidBlock) -> bool:
    cut, original = laid.reading.snippet.blocks[block.number], laid.reading.original
    has_blank = bool(cut.gap_after) and laid.reading.snippet.roles[cut.gap_after[0]] is Role.BLANK
    is_beside_text = block.end < len(original) and original[block.end].strip() != ""
    return cut.marked_after and has_blank and is_beside_text and _is_spare(laid, block, block.texts[:-1])


def _may_begin_blank(laid: Laid, block: LaidBlock) -> bool:
    cut, original = laid.reading.snippet.blocks[block.number], laid.reading.original
    has_blank = bool(cut.gap_before) and laid.reading.snippet.roles[cut.gap_before[-1]] is Role.BLANK
    is_beside_text = block.start > 0 and original[block.start - 1].strip() != ""
    return cut.marked_before and has_blank and is_beside_text and _is_spare(laid, block, block.texts[1:])


def _is_spare(laid: Laid, block: LaidBlock, rest: Sequence[str]) -> bool:
    """Whether the rest of the block alone has as much of the covered lines as the whole: then its edge may be new."""
    covered = [line.rstrip() for line in laid.reading.original[block.start : block.end] if line.strip()]
    return LCSseq.similarity(rest, covered) == LCSseq.similarity(block.texts, covered)
