"""Byte fidelity: every line that an edit doesn't touch comes from the original's own bytes.

First and last station of a request: bytes become text (`decode`), text gets LF line ends for everybody in between
(`normalise`), and at the end the merged lines get back the endings, the byte-order mark and the wording that the
original gave them (`restore`), looked at once more (`refuse_altered`), then bytes (`encode`).  Decides nothing about
the edit itself.

Line ends are `\\n` and `\\r\\n`, nothing else: form feeds, vertical tabs, NEL, U+2028 and a lone `\\r` are text inside
their line.  The exception is a text without any `\\n`, where `\\r` ends lines (old Macintosh files).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from apply_service.edits.line_diff import Hunk, diff_lines
from apply_service.edits.text_encoding import SIGNATURE, SourceText, decode, encode
from apply_service.errors import AlteredBytes, MalformedEdit
from apply_service.types import LineOp

__all__ = [
    "SourceText",
    "decode",
    "encode",
    "normalise",
    "ops_from_texts",
    "refuse_altered",
    "restore",
    "with_mark",
    "with_own_ends",
]

MARK = "\ufeff"
"""A byte-order mark that a caller left on a text; it belongs to the file, not to its first line."""


def normalise(text: str) -> str:
    """The text with LF line ends and without a byte-order mark: what the rest of the service works on."""
    text = text.removeprefix(MARK)
    return text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")


def with_mark(text: str, encoding: str) -> str:
    """The text of a file with the byte-order mark that stands in its bytes, as a diff of them quotes it.

    Raises:
        MalformedEdit: there would be two, and nobody could say which of them is meant.
    """
    if not encoding.endswith(SIGNATURE):
        return text
    if text.startswith(MARK):
        raise MalformedEdit(
            "the file begins with two byte-order marks", value=encoding, remedy="send the edit in another format"
        )
    return MARK + text


def with_own_ends(text: str, raw: str) -> str:
    """The text, whose lines are those of `raw` or blanked, with the line ends that they have there; as it is where its
    lines are others."""
    lines, ends = split_ends(raw.removeprefix(MARK))
    read = text.split("\n")
    if len(read) != len(lines) or any(
        new[:1] in (" ", "+", "-") and not old.endswith(new) for new, old in zip(read, lines, strict=True)
    ):
        return text
    return "".join(line + end for line, end in zip(read, ends, strict=True))


def restore(original_text: str, ops: Sequence[LineOp], ends: Sequence[str] | None = None) -> str:
    """The merged text as the original would have it: kept lines with their own endings, new lines with those of the
    lines they replace, else of the original line above them in the output, else below, else the file's most frequent.

    `original_text` is the original before `normalise`; whether the last line has an end is what `ops` say.  `ends`:
    those of all written lines but the last, where the edit tells them (`Prediction.ends`).
    """
    body = original_text.removeprefix(MARK)
    lines, own_ends = split_ends(body)
    written = [op for op in ops if op.kind != "drop"]
    if ends is None:
        own = [None if op.original_line is None else own_ends[op.original_line] or None for op in written]
        for i, end in _ends_of_replaced(ops, own_ends):
            own[i] = end
        ends = _filled(own, most_frequent_end(own_ends))
    texts = [op.text if op.original_line is None else lines[op.original_line] for op in written]
    merged = "".join(text + end for text, end in zip(texts[:-1], ends, strict=False)) + "".join(texts[-1:])
    return MARK + merged if written and len(body) < len(original_text) else merged


def refuse_altered(original_text: str, merged_text: str, ops: Sequence[LineOp]) -> None:
    """The last look at every answer: each line of the original is written or dropped, once and in order, and what is
    written stands in the merged text with its own bytes, line end and byte-order mark included.  Only a last line may
    get or lose its end.

    Raises:
        AlteredBytes: something outside the edit would change; names the line of the original.
    """
    lines, ends = split_ends(original_text.removeprefix(MARK))
    rows = [op.original_line for op in ops if op.original_line is not None]
    if rows != list(range(len(lines))):
        raise _altered(next((i for i, row in enumerate(rows) if i != row), len(rows)))
    written = [op for op in ops if op.kind != "drop"]
    at, row = len(MARK) if written and original_text.startswith(MARK) else 0, 0
    if merged_text[:at] != MARK[:at]:
        raise _altered(0)
    for number, op in enumerate(written, 1):
        row = row if op.original_line is None else op.original_line
        text = op.text if op.original_line is None else lines[row]
        end = "" if op.original_line is None else ends[row]
        if number == len(written):
            end = ""
        elif not end:
            end = next((one for one in ("\r\n", "\n", "\r") if merged_text.startswith(one, at + len(text))), "\n")
        if not merged_text.startswith(text + end, at):
            raise _altered(row)
        at += len(text) + len(end)
    if at != len(merged_text):
        raise _altered(row)


def _altered(row: int) -> AlteredBytes:
    return AlteredBytes(
        f"line {row + 1} of the file, or what follows it, would change outside the edit",
        value=row + 1,
        remedy="send the edit in another format, and report it: this is a fault of the service",
    )


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
    """The lines of the output that stand for an original one, with its ending: in each stretch of changes those that
    say the same, and of those between, the first for the first and so on."""
    found: list[tuple[int, str]] = []
    at = 0
    for is_change, run in groupby(ops, key=lambda op: op.kind in ("drop", "take")):
        stretch = list(run)
        dropped = [(op.text, ends[op.original_line]) for op in stretch if op.original_line is not None]
        taken = [op.text for op in stretch if op.kind != "drop"]
        if is_change and dropped and taken:
            pairs = _paired([text for text, _ in dropped], taken)
            found += ((at + j, dropped[i][1]) for i, j in pairs if dropped[i][1])
        at += len(taken)
    return found


def _paired(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Old and new lines that stand for each other."""
    a = b = 0
    for hunk in [*diff_lines(old, new), Hunk(len(old), len(old), len(new), len(new))]:
        yield from zip(range(a, hunk.a0), range(b, hunk.b0), strict=True)
        yield from zip(range(hunk.a0, hunk.a1), range(hunk.b0, hunk.b1), strict=False)
        a, b = hunk.a1, hunk.b1


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
