"""The same edit in other formats.  The unified diff itself is the service's."""

from __future__ import annotations

from collections.abc import Sequence

from apply_eval.datasets import text_lines
from apply_eval.line_diff import Hunk, diff_lines
from apply_service.edits.diff_text import unified_diff_text

SEARCH = "<<<<<<< SEARCH"
DIVIDER = "======="
REPLACE = ">>>>>>> REPLACE"
MAX_CONTEXT = 40


def search_replace(before: str, after: str, *, path: str | None = None, context: int = 1) -> str | None:
    """Search/replace blocks (LF line ends) whose search text occurs once in `before`; context grows until it does.
    A program that reads the format must give the text after, byte for byte.

    None where there are no such blocks: an empty file, a change of the final newline, a line that looks like a fence.
    """
    if (before == "") or before.endswith("\n") != after.endswith("\n") or before == after:
        return None
    old, new = text_lines(before), text_lines(after)
    if any(line.rstrip() in {SEARCH, DIVIDER, REPLACE} for line in (*old, *new)):
        return None
    blocks = _unique_blocks(old, diff_lines(old, new), context)
    if blocks is None:
        return None
    body = "\n".join(_block_text(old, new, block) for block in blocks)
    return f"{path}\n{body}\n" if path else f"{body}\n"


def _unique_blocks(old: Sequence[str], hunks: Sequence[Hunk], context: int) -> list[Hunk] | None:
    widths = [context] * len(hunks)
    for _ in range(MAX_CONTEXT * len(hunks)):
        blocks = [_widen(hunk, width, len(old)) for hunk, width in zip(hunks, widths, strict=True)]
        joined = _join(blocks)
        unclear = next((b for b in joined if not _occurs_once(old, b.a0, b.a1)), None)
        if unclear is None:
            return joined
        if unclear.a0 == 0 and unclear.a1 == len(old):
            return None
        widths = [w + (unclear.a0 <= b.a0 and b.a1 <= unclear.a1) for w, b in zip(widths, blocks, strict=True)]
    return None


def _widen(hunk: Hunk, width: int, n_old: int) -> Hunk:
    up, down = min(width, hunk.a0), min(width, n_old - hunk.a1)
    return Hunk(hunk.a0 - up, hunk.a1 + down, hunk.b0 - up, hunk.b1 + down)


def _join(blocks: Sequence[Hunk]) -> list[Hunk]:
    """Blocks that touch or overlap become one.  The end on the new side follows from the last hunk: an earlier block's
    own end may lie beyond a hunk that it has run into."""
    joined: list[Hunk] = []
    for block in blocks:
        if joined and block.a0 <= joined[-1].a1:
            last = joined[-1]
            stop = max(last.a1, block.a1)
            joined[-1] = Hunk(last.a0, stop, last.b0, block.b1 + stop - block.a1)
        else:
            joined.append(block)
    return joined


def _occurs_once(old: Sequence[str], start: int, stop: int) -> bool:
    wanted = list(old[start:stop])
    if not any(line.strip() for line in wanted):
        return False
    n = len(wanted)
    return sum(old[at] == wanted[0] and list(old[at : at + n]) == wanted for at in range(len(old) - n + 1)) == 1


def _block_text(old: Sequence[str], new: Sequence[str], block: Hunk) -> str:
    found, wanted = old[block.a0 : block.a1], new[block.b0 : block.b1]
    return "\n".join((SEARCH, *found, DIVIDER, *wanted, REPLACE))


def diff_hunks(wanted: str, answer: str) -> list[str]:
    """The lines of the unified diff from `wanted` to `answer`, without its headers."""
    lines = unified_diff_text(wanted, answer, "file").split("\n")
    return lines[next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines)) :]
