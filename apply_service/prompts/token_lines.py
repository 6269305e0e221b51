"""Which line of the merged text each output token decides: how a token's probability becomes a line's.

Tokens that hold line breaks decide more than one line: the one they end and those they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def lines_of_tokens(
    ids: Sequence[int], decode: Callable[[Sequence[int]], str], *, head: str = ""
) -> list[tuple[int, int]]:
    """First and last line of the merged text (0-based) that each token of a plainly written output decides.

    `head` is what the output has before the merged text.  Counts line breaks token by token, which is exact where no
    token holds a part of one: byte-level vocabularies, and those that fall back to bytes.
    """
    n_breaks: dict[int, int] = {}
    n_head = head.count("\n")
    lines: list[tuple[int, int]] = []
    before = 0
    for token in ids:
        if token not in n_breaks:
            n_breaks[token] = decode([token]).count("\n")
        after = before + n_breaks[token]
        lines.append((max(0, before - n_head), max(0, after - n_head)))
        before = after
    return lines
