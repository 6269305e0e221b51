"""The same edit in the other formats: search/replace blocks and a git-style unified diff.

Both are rendered from the true hunks, so a program that reads the format must give the text after, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apply_eval.line_diff import Hunk, diff_lines
from apply_eval.measures import text_lines

SEARCH = "<<<<<<< SEARCH"
DIVIDER = "======="
REPLACE = ">>>>>>> REPLACE"
NO_NEWLINE = "\\ No newline at end of file"
MAX_CONTEXT = 40


def search_replace(before: str, after: str, *, path: str | None = None, context: int = 1) -> str | None:
    """Search/replace blocks (LF line ends) whose search text occurs once in `before`; context grows until it does.

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


def unified_diff(before: str, after: str, *, path: str = "file", context: int = 3) -> str:
    """A diff as git writes it; empty where nothing changed."""
    if before == after:
        return ""
    old, new = before.split("\n"), after.split("\n")
    hunks = diff_lines(*(_diffable(lines) for lines in (old, new)))
    blocks = _join([_widen(hunk, context, len(_diffable(old))) for hunk in hunks])
    lines = [f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}"]
    for block in blocks:
        lines += _diff_block(_diffable(old), _diffable(new), block, hunks)
    return "\n".join(lines) + "\n"


def _diffable(lines: list[str]) -> list[str]:
    """Lines as diff compares them: the last one counts as different where its newline is missing."""
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n{NO_NEWLINE}"]


def _diff_block(old: Sequence[str], new: Sequence[str], block: Hunk, hunks: Sequence[Hunk]) -> Iterator[str]:
    yield f"@@ -{_span(block.a0, block.a1)} +{_span(block.b0, block.b1)} @@"
    at = block.a0
    for hunk in hunks:
        if block.a0 <= hunk.a0 and hunk.a1 <= block.a1:
            yield from (f" {line}" for line in old[at : hunk.a0])
            yield from (f"-{line}" for line in old[hunk.a0 : hunk.a1])
            yield from (f"+{line}" for line in new[hunk.b0 : hunk.b1])
            at = hunk.a1
    yield from (f" {line}" for line in old[at : block.a1])


def _span(start: int, stop: int) -> str:
    n_lines = stop - start
    first = start + 1 if n_lines else start
    return str(first) if n_lines == 1 else f"{first},{n_lines}"
