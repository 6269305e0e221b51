"""Search/replace blocks: old text quoted, new text in its place.

Exact and unique quotes determine the result.  What the blocks are is `search_replace_blocks`; where quotes stand and
how sure that is, `hunk_places`.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.envelope import is_same_file
from apply_service.edits.hunk_merge import merge_hunks, write_file
from apply_service.edits.hunks import Hunk, hunk_of_replacement
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.search_replace_blocks import Block, opens_with_block, read_blocks, splits
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.types import Certainty, Prediction


class SearchReplace:
    """The `EditFormat` of search/replace blocks."""

    name = "search_replace"

    def detect(self, update: str) -> bool:
        """Whether blocks, complete or not, are all there is but blanks, fences, file names and sentences."""
        lines = update.split("\n")
        if not opens_with_block(lines):
            return False
        try:
            return not read_blocks(lines).strays
        except MalformedEdit:
            return True

    def predict(self, original: str, update: str, *, language: str | None, path: str | None) -> Prediction:  # noqa: ARG002
        """The original with the blocks applied.

        Raises:
            MalformedEdit: a block is not complete, blocks contradict each other, or none is for this file.
            NeedsMoreContext: a block's old text has no place in the file.
        """
        lines = update.split("\n")
        trust = Trust()
        text = read_blocks(lines)
        if text.strays:
            trust.lower(Certainty.LIKELY, f"line {text.strays[0] + 1} lies outside any block and was left out")
        file = FileLines(original)
        blocks = _for_file(text.blocks, path, trust)
        hunks = [_hunk(block, lines, file, trust) for block in blocks]
        if not original.strip() and len(hunks) == 1 and not _quotes(hunks[0]):
            if original:
                trust.lower(Certainty.LIKELY, "the file holds nothing but blanks, which are replaced")
            new = [(line.update_line, line.text) for line in hunks[0].lines if line.kind != "remove"]
            return write_file(original, update, new, trust)
        for hunk in hunks:
            if original.strip() and not _quotes(hunk):
                raise _empty_search(hunk)
        return merge_hunks(original, update, hunks, is_ordered=False, trust=trust)


def _for_file(blocks: Sequence[Block], path: str | None, trust: Trust) -> list[Block]:
    """The blocks that are for the file at `path`; those that name no file are for any."""
    named = sorted({block.path for block in blocks if block.path is not None})
    if len(named) == 1 and not is_same_file(named[0], path):
        trust.lower(Certainty.LIKELY, f"the edit names another file: {named[0]}")
    if len(named) <= 1:
        return list(blocks)
    mine = [block for block in blocks if path is not None and (block.path is None or is_same_file(block.path, path))]
    if not any(block.path for block in mine):
        raise MalformedEdit(
            "the edit is for several files, and none of them is known to be this one",
            value=path,
            limit=named,
            remedy="send `path`, and each file by itself",
        )
    others = [name for name in named if not is_same_file(name, path)]
    trust.note("the edit also changes " + ", ".join(others))
    return mine


def _hunk(block: Block, lines: Sequence[str], file: FileLines, trust: Trust) -> Hunk:
    """The block as a hunk; of several possible dividers the one whose old text stands in the file."""
    found = [
        hunk_of_replacement(block.label, old, new, stated_line=block.stated_line) for old, new in splits(block, lines)
    ]
    if len(found) == 1:
        return found[0]
    fitting = [hunk for hunk in found if not _quotes(hunk) or file.stands(hunk.old, Likeness.EDGES)]
    if len(fitting) != 1:
        trust.lower(Certainty.GUESS, f"{block.label}: has several dividers")
    return max(fitting, key=lambda hunk: len(hunk.old)) if fitting else found[0]


def _quotes(hunk: Hunk) -> bool:
    """Whether the old text has anything to find."""
    return any(line.strip() for line in hunk.old)


def _empty_search(hunk: Hunk) -> NeedsMoreContext:
    return NeedsMoreContext(
        f"{hunk.label} has no old text, but the file is not empty",
        value="",
        remedy="quote the lines to replace, or a line next to which the new ones go; no old text means a new file",
    )
