"""Search/replace blocks: old text quoted, new text in its place.

Exact and unique quotes determine the result.  What the blocks are is `search_replace_blocks`; where quotes stand and
how sure that is, `hunk_places`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from apply_service.edits.envelope import PROSE_SUFFIXES, is_same_file
from apply_service.edits.hunk_merge import merge_hunks, write_file
from apply_service.edits.hunks import Hunk, hunk_of_replacement
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.search_replace_blocks import (
    Block,
    BlockText,
    Numbered,
    is_line_note,
    read_blocks,
    read_mark,
    splits,
    unescaped,
    without_numbers,
)
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.types import Certainty, Prediction


class SearchReplace:
    """The `EditFormat` of search/replace blocks."""

    name = "search_replace"

    def predict(
        self,
        original: str,
        update: str,
        *,
        language: str | None,  # noqa: ARG002
        path: str | None,
        instruction: str = "",  # noqa: ARG002
    ) -> Prediction:
        """The original with the blocks applied; what stands around them is left out.

        Raises:
            MalformedEdit: a block is not complete, blocks contradict each other, or none is for this file.
            NeedsMoreContext: a block's old text has no place in the file; names the nearest lines.
        """
        lines = update.split("\n")
        trust = Trust()
        file = FileLines(original)
        text = read_file_blocks(lines, file)
        blocks = _for_file(text.blocks, path, trust)
        hunks = [_hunk(block, lines, file, path, trust) for block in blocks]
        if not original.strip() and len(hunks) == 1 and not _quotes(hunks[0]):
            if original:
                trust.lower(Certainty.LIKELY, "the file holds nothing but blanks, which are replaced")
            new = [(line.update_line, line.text) for line in hunks[0].lines if line.kind != "remove"]
            return write_file(original, update, new, trust)
        for hunk in hunks:
            if original.strip() and not _quotes(hunk):
                raise _empty_search(hunk)
        return merge_hunks(original, update, hunks, is_ordered=False, trust=trust)


def read_file_blocks(lines: Sequence[str], file: FileLines) -> BlockText:
    """The blocks of an update to this file: a line that looks like a fence is text where it stands in the file between
    the same lines.

    Raises:
        MalformedEdit: see `read_blocks`.
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, line in enumerate(file.lines):
        if read_mark(line) is not None:
            rows[line.rstrip()].append(row)

    def is_content(at: int) -> bool:
        for row in rows.get(lines[at].rstrip(), ())[:50]:
            above = row > 0 and at > 0 and lines[at - 1].strip() and lines[at - 1] == file.lines[row - 1]
            below = row + 1 < len(file) and at + 1 < len(lines) and lines[at + 1] == file.lines[row + 1]
            if above and (below or (at + 1 < len(lines) and read_mark(lines[at + 1]) is not None)):
                return True
        return False

    if not rows:
        return read_blocks(lines)
    try:
        return read_blocks(lines)
    except MalformedEdit:
        return read_blocks(lines, is_content)


def _for_file(blocks: Sequence[Block], path: str | None, trust: Trust) -> list[Block]:
    """The blocks that are for the file at `path`; those that name no file are for any."""
    named = sorted({block.path for block in blocks if block.path is not None})
    if not named:
        spoken = {block.mention for block in blocks if block.mention is not None}
        mine = [block for block in blocks if block.mention is None or is_same_file(block.mention, path)]
        is_routed = path is not None and len(spoken) > 1 and any(is_same_file(name, path) for name in spoken)
        return mine if is_routed else list(blocks)
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


def _hunk(block: Block, lines: Sequence[str], file: FileLines, path: str | None, trust: Trust) -> Hunk:
    """The block as a hunk; of several possible dividers the one whose old text stands in the file."""
    found = [_read_sides(block, old, new, file) for old, new in splits(block, lines)]
    fitting = [hunk for hunk in found if not _quotes(hunk) or file.stands(hunk.old, Likeness.EDGES)]
    hunk = max(fitting, key=lambda hunk: len(hunk.old)) if fitting else found[0]
    if len(found) == 1:
        return hunk
    if len(fitting) > 1:
        whole = [h for h in fitting if not any(is_divider(line.text) for line in h.lines if line.kind == "add")]
        hunk = whole[0] if len(whole) == 1 else hunk
        certainty = Certainty.LIKELY if len(whole) == 1 else Certainty.GUESS
        trust.lower(certainty, f"{block.label}: has several dividers")
    return _without_spare_divider(block, hunk, path, trust)


def _read_sides(block: Block, old: Numbered, new: Numbered, file: FileLines) -> Hunk:
    """The two sides without escapes and line numbers, unless the file holds them so.

    Raises:
        MalformedEdit: a note of line numbers stands in the new text.
    """
    stated = block.stated_line
    texts = [text for _, text in old]
    if not file.stands(texts, Likeness.TRAILING):
        if (numbered := without_numbers(old)) is not None:
            old, stated = numbered[0], numbered[1] - 1
            new = (without_numbers(new) or (new, 0))[0]
        old = [(at, unescaped(text)) for at, text in old]
    for _, text in new:
        if is_line_note(text) and text not in texts:
            raise MalformedEdit(
                f"{block.label}: its new text holds a note of line numbers",
                value=text[:200],
                remedy="put :start_line: above the old text, or write \\:start_line: where the file shall hold it",
            )
    escaped = {text for _, text in old if text.startswith("\\")}
    new = [(at, text if text in escaped else unescaped(text)) for at, text in new]
    return hunk_of_replacement(block.label, old, new, stated_line=stated)


def _without_spare_divider(block: Block, hunk: Hunk, path: str | None, trust: Trust) -> Hunk:
    """The hunk without a second divider at either end of its new text.

    Raises:
        MalformedEdit: another divider stands in the new text, and it may be meant as one.
    """
    old = {line for line in hunk.old if is_divider(line)}
    spare = [k for k, line in enumerate(hunk.lines) if line.kind == "add" and is_divider(line.text)]
    spare = [k for k in spare if hunk.lines[k].text not in old]
    if not spare:
        return hunk
    written = [k for k, line in enumerate(hunk.lines) if line.kind != "remove" and line.text.strip()]
    if len(spare) == 1 and spare[0] in (written[0], written[-1]):
        trust.lower(Certainty.LIKELY, f"{block.label}: its divider is doubled")
        return replace(hunk, lines=hunk.lines[: spare[0]] + hunk.lines[spare[0] + 1 :])
    if (path or "").lower().endswith(PROSE_SUFFIXES):
        trust.lower(Certainty.LIKELY, f"{block.label}: a line of its new text looks like a divider")
        return hunk
    raise MalformedEdit(
        f"{block.label}: its new text holds a divider",
        value=hunk.lines[spare[0]].text,
        remedy="end each block with >>>>>>> REPLACE; write \\======= where the file shall hold such a line",
    )


def is_divider(line: str) -> bool:
    mark = read_mark(line)
    return mark is not None and mark.kind == "divide"


def _quotes(hunk: Hunk) -> bool:
    """Whether the old text has anything to find."""
    return any(line.strip() for line in hunk.old)


def _empty_search(hunk: Hunk) -> NeedsMoreContext:
    return NeedsMoreContext(
        f"{hunk.label} has no old text, but the file is not empty",
        value="",
        remedy="quote the lines to replace, or a line next to which the new ones go; no old text means a new file",
    )
