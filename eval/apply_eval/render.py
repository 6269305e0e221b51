"""The same edit in other formats.  The unified diff itself is the service's."""

from __future__ import annotations

from collections.abc import Sequence

from apply_eval.datasets import text_lines
from apply_eval.line_diff import Hunk, diff_lines
from apply_service.edits.diff import unified_diff_text

SEARCH = "<<<<<<< SEARCH"
DIVIDER = "======="
REPLACE = ">>>>>>> REPLACE"


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
    blocks: list[Hunk] = []
    for hunk in diff_lines(old, new):
        block = _widened(hunk, context, len(old))
        while not _occurs_once(old, block.a0, block.a1):
            if block.a0 == 0 and block.a1 == len(old):
                return None
            block = _widened(block, 1, len(old))
        while blocks and block.a0 <= blocks[-1].a1:  # what holds a text that occurs once occurs once
            last = blocks.pop()
            n_more = max(0, last.a1 - block.a1)
            start_a, start_b = min((last.a0, last.b0), (block.a0, block.b0))
            block = Hunk(start_a, block.a1 + n_more, start_b, block.b1 + n_more)
        blocks.append(block)
    texts = [(SEARCH, *old[b.a0 : b.a1], DIVIDER, *new[b.b0 : b.b1], REPLACE) for b in blocks]
    return "\n".join([*([path] if path else []), *(line for text in texts for line in text), ""])


def _widened(hunk: Hunk, width: int, n_old: int) -> Hunk:
    up, down = min(width, hunk.a0), min(width, n_old - hunk.a1)
    return Hunk(hunk.a0 - up, hunk.a1 + down, hunk.b0 - up, hunk.b1 + down)


def _occurs_once(old: Sequence[str], start: int, stop: int) -> bool:
    wanted = list(old[start:stop])
    if not any(line.strip() for line in wanted):
        return False
    n = len(wanted)
    return sum(old[at] == wanted[0] and list(old[at : at + n]) == wanted for at in range(len(old) - n + 1)) == 1


def diff_hunks(wanted: str, answer: str) -> list[str]:
    """The lines of the unified diff from `wanted` to `answer`, without its headers."""
    lines = unified_diff_text(wanted, answer, "file").split("\n")
    return lines[next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines)) :]
