"""Byte fidelity: every line that an edit doesn't touch comes from the original's own bytes.

First and last station of a request: bytes become text (`decode`), text gets LF line ends for everybody in between
(`normalise`), and at the end the merged lines get back the endings, the byte-order mark and the wording that the
original gave them (`restore`), then bytes (`encode`).  Decides nothing about the edit itself.

Line ends are `\\n` and `\\r\\n`, nothing else: form feeds, vertical tabs, NEL, U+2028 and a lone `\\r` are text inside
their line.  The exception is a text without any `\\n`, where `\\r` ends lines (old Macintosh files).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from apply_service.edits.line_diff import diff_lines
from apply_service.edits.text_encoding import SourceText, decode, encode
from apply_service.types import LineOp

__all__ = ["SourceText", "decode", "encode", "normalise", "ops_from_texts", "restore"]

MARK = "\ufeff"
"""A byte-order mark that a caller left on a text; it belongs to the file, not to its first line."""


def normalise(text: str) -> str:
    """The text with LF line ends and without a byte-order mark: what the rest of the service works on."""
    text = text.removeprefix(MARK)
    return text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")


def restore(original_text: str, ops: Sequence[LineOp]) -> str:
    """The merged text as the original would have it: kept lines with their own endings, new lines with those of the
    lines they replace, else of the original line above them in the output, else below, else the file's most frequent.

    `original_text` is the original before `normalise`; whether the last line has an end is what `ops` say.
    """
    body = original_text.removeprefix(MARK)
    lines, ends = split_ends(body)
    written = [op for op in ops if op.kind != "drop"]
    own = [None if op.original_line is None else ends[op.original_line] or None for op in written]
    for i, end in _ends_of_replaced(ops, ends):
        own[i] = end
    filled = _filled(own, most_frequent_end(ends))
    texts = [op.text if op.original_line is None else lines[op.original_line] for op in written]
    merged = "".join(text + end for text, end in zip(texts[:-1], filled, strict=False)) + "".join(texts[-1:])
    return MARK + merged if len(body) < len(original_text) else merged


def split_ends(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text, as `normalise(text).split("\\n")` has them, and the end of each; the last has none."""
    if "\n" not in text:
        lines = text.split("\r")
        return lines, ["\r"] * (len(lines) - 1) + [""]
    raw = text.split("\n")
    has_return = [line.endswith("\r") for line in raw[:-1]]
    lines = [line[:-1] if cut else line for line, cut in zip(raw[:-1], has_return, strict=True)]
    return [*lines, raw[-1]], [*("\r\n" if cut else "\n" for cut in has_return), ""]


def most_frequent_end(ends: Sequence[str]) -> str:
    """The ending that most lines have; LF where none has any."""
    counts = Counter(end for end in ends if end)
    return max(counts, key=counts.__getitem__, default="\n")


def _ends_of_replaced(ops: Sequence[LineOp], ends: Sequence[str]) -> list[tuple[int, str]]:
    """Output lines that replace an original line one for one, with its ending."""
    found: list[tuple[int, str]] = []
    dropped: list[str] = []
    at = 0
    for op in ops:
        if op.kind == "drop" and op.original_line is not None:
            dropped.append(ends[op.original_line])
            continue
        if op.kind == "take" and dropped:
            if end := dropped.pop(0):
                found.append((at, end))
        else:
            dropped = []
        at += 1
    return found


def _filled(own: Sequence[str | None], otherwise: str) -> list[str]:
    """Each line's end, missing ones from the nearest line above that has one, else from the first below."""
    above = next((end for end in own if end is not None), otherwise)
    filled = []
    for end in own:
        above = end if end is not None else above
        filled.append(above)
    return filled


def ops_from_texts(original_lf: str, merged_lf: str) -> tuple[LineOp, ...]:
    """The smallest line operations between the original and any merged text, such as one that a model wrote.

    Both texts have LF line ends.  Added lines have no `update_line`: nothing says here where they come from.
    """
    old, new = original_lf.split("\n"), merged_lf.split("\n")
    ops: list[LineOp] = []
    at = 0
    for a0, a1, b0, b1 in diff_lines(old, new):
        ops += (LineOp("keep", i, None, old[i]) for i in range(at, a0))
        ops += (LineOp("drop", i, None, old[i]) for i in range(a0, a1))
        ops += (LineOp("take", None, None, line) for line in new[b0:b1])
        at = a1
    ops += (LineOp("keep", i, None, old[i]) for i in range(at, len(old)))
    return tuple(ops)
