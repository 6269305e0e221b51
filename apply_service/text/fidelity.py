"""Keeps bytes: every line that an edit doesn't touch comes from the original's own bytes.

This is the first and the last step of a request.  `decode` and `normalise` make text with LF line ends, on which all
other modules work.  `restore` gives the merged lines the original's wording, line ends and byte-order mark back.
`refuse_altered` checks the result, and `encode` makes bytes.  Nothing here decides about the edit.

Line ends are `\\n` and `\\r\\n`; a form feed, U+2028 or a lone `\\r` is text inside its line.  In a text without any
`\\n`, however, `\\r` ends lines (old Macintosh files).

A file is UTF-8 unless the caller names its encoding, because a wrong guess corrupts a file silently.  Encodings have
their Python names, with `-sig` if a byte-order mark comes before the text.  So the name alone says how to write the
text back.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Self

from apply_service.errors import REPORT_FAULT, AlteredBytes, BadEncoding, NulByte
from apply_service.text.diff import ChangedLines, diff_lines
from apply_service.types import LineOp

MARK = "\ufeff"
"""The byte-order mark, if a caller left it on a text.  It belongs to the file, not to its first line."""
SIGNATURE = "-sig"
MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
NOT_FOR_FILES = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7", "hz", "iso2022")
"""Codecs that are not file encodings, or that encode a line in a way that depends on earlier lines."""


# -- bytes and text ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text with its own line ends, and the canonical name of its encoding.

    Raises BadEncoding if the text would have two byte-order marks, because it is unclear which of the two an edit
    means.
    """

    text: str
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.has_bom and self.text.startswith(MARK):
            raise BadEncoding(
                "the file begins with two byte-order marks", value=self.encoding, remedy="remove one from the file"
            )

    @property
    def has_bom(self) -> bool:
        return self.encoding.endswith(SIGNATURE)

    @classmethod
    def of(cls, text: str, encoding: str = "utf-8") -> Self:
        """Make a SourceText from a text that the caller sent as text.

        Raises BadEncoding if there is no such encoding, or if it can't hold the text.  Raises NulByte if the text has a
        NUL.
        """
        refuse_nul("the file", text)
        source = cls(text, _canonical_name(encoding))
        encode(text, source)
        return source


def decode(data: bytes, encoding: str = "utf-8") -> SourceText:
    """Return the text of a file's bytes; `encode` gives the same bytes back.

    UTF-16 and UTF-32 are read as little endian if neither a byte-order mark nor the name tells the byte order.

    Raises BadEncoding if there is no such encoding, or if the bytes are not valid in it; the error's `value` is the
    offset of the first invalid byte.  Raises NulByte if the text holds a NUL character; the error's `value` is its
    index.
    """
    if not data:
        return SourceText.of("", encoding)
    codec, mark = _canonical_name(encoding).removesuffix(SIGNATURE), b""
    has_open_order = _python_name(encoding) in ("utf-16", "utf-32")
    for name in (codec, codec.removesuffix("-le") + "-be") if has_open_order else (codec,):
        if name in MARKS and data.startswith(MARKS[name]):
            codec, mark = name, MARKS[name]
            break
    is_utf16 = data[len(mark) :].startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    hint = "the file starts with the byte-order mark of UTF-16: say encoding utf-16" if is_utf16 else ""
    try:
        text = data[len(mark) :].decode(codec)
    except UnicodeDecodeError as error:
        offset = error.start + len(mark)
        raise BadEncoding(
            f"byte {offset} (0x{data[offset]:02x}) is not valid {codec}",
            value=offset,
            limit=codec,
            remedy=hint or "say what the file is encoded in, such as cp1252, latin-1 or utf-16",
        ) from None
    if "\0" in text:
        raise NulByte(
            "the file contains a NUL character", value=text.index("\0"), remedy=hint or "send text, not binary data"
        )
    source = SourceText(text, codec + SIGNATURE if mark else codec)
    if encode(text, source) != data:
        raise BadEncoding(
            f"the file would change when it is read and written as {codec}",
            value=encoding,
            remedy="convert the file to UTF-8",
        )
    return source


def refuse_nul(what: str, text: str) -> None:
    """Raise NulByte if the text holds a NUL character, because nobody could edit such a text again.  The error's
    `value` is the character's index."""
    if (at := text.find("\0")) >= 0:
        raise NulByte(f"{what} contains a NUL character", value=at, remedy="send text, not binary data")


def encode(text: str, source: SourceText) -> bytes:
    """Return the text as bytes in the encoding of `source`.  Raises BadEncoding if the encoding has no bytes for a
    character."""
    codec = source.encoding.removesuffix(SIGNATURE)
    try:
        return (MARKS[codec] if source.has_bom else b"") + text.encode(codec)
    except UnicodeEncodeError as error:
        raise BadEncoding(
            f"{codec} can't hold the character U+{ord(text[error.start]):04X} at index {error.start}",
            value=error.start,
            limit=source.encoding,
            remedy="use characters of the file's encoding, or convert the file to UTF-8 first",
        ) from None


def hash_of(text: str, source: SourceText) -> str:
    """Return the SHA-256 of the text's bytes, in hexadecimal.  Raises BadEncoding if `encode` does."""
    return sha256(encode(text, source)).hexdigest()


def _canonical_name(encoding: str) -> str:
    """Return Python's name of the encoding.  `utf-16` without a byte order means little endian with a mark, as programs
    write it."""
    name = _python_name(encoding)
    return name + "-le" + SIGNATURE if name in ("utf-16", "utf-32") else name


def _python_name(encoding: str) -> str:
    base = encoding.strip().lower().replace("_", "-")
    unknown = BadEncoding(
        "no such text encoding",
        value=encoding,
        limit=["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "..."],
        remedy="name an encoding that Python knows",
    )
    try:
        name = codecs.lookup(base.removesuffix(SIGNATURE)).name.replace("_", "-")
        "a".encode(name)
    except (LookupError, ValueError, UnicodeError):
        raise unknown from None
    if name.startswith(NOT_FOR_FILES):
        raise unknown
    name = "latin-1" if name == "iso8859-1" else name
    if not base.endswith(SIGNATURE):
        return name
    name += "-le" if name in ("utf-16", "utf-32") else ""
    if name not in MARKS:
        raise unknown
    return name + SIGNATURE


# -- line ends and byte-order marks ------------------------------------------------------------------------------------
def normalise(text: str) -> str:
    """Return the text with LF line ends and without a byte-order mark, as the rest of the service needs it."""
    text = text.removeprefix(MARK)
    return text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")


def split_ends(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of a text, like `normalise(text).split("\\n")`, and the end of each line; the last line has no
    end."""
    parts = re.split(r"(\r?\n)" if "\n" in text else r"(\r)", text)
    return parts[::2], [*parts[1::2], ""]


def with_mark(text: str, encoding: str) -> str:
    """Return the text of a file.  The text has the byte-order mark if the file's bytes have one, because a diff of
    bytes quotes the mark."""
    return MARK + text if encoding.endswith(SIGNATURE) else text


def with_own_ends(text: str, raw: str) -> str:
    """Return `text` with the line ends of `raw`.

    Each line of `text` must be the same line of `raw`, or a blank line.  Otherwise `text` is returned unchanged.
    """
    lines, ends = split_ends(raw.removeprefix(MARK))
    read = text.split("\n")
    if len(read) != len(lines) or any(
        new[:1] in (" ", "+", "-") and not old.endswith(new) for new, old in zip(read, lines, strict=True)
    ):
        return text
    return "".join(line + end for line, end in zip(read, ends, strict=True))


def restore(original_text: str, ops: Sequence[LineOp], ends: Sequence[str] | None = None) -> str:
    """Return the merged text with the original's line ends.

    A kept line keeps its own end.  A new line gets the end of the line that it replaces.  If it replaces none, it gets
    the end of the original line above it in the output, or else of the line below, or else the file's most frequent
    end.

    `original_text` is the original before `normalise`.  `ops` decide whether the last line has an end.  `ends`: the
    ends of all written lines but the last, if the edit specifies these ends (`Prediction.ends`).
    """
    body = original_text.removeprefix(MARK)
    lines, own_ends = split_ends(body)
    written = [op for op in ops if op.kind != "drop"]
    if ends is None:
        ends = _ends_of(ops, own_ends) if "\r" in body else ["\n"] * len(written)
    texts = [op.text if op.original_line is None else lines[op.original_line] for op in written]
    merged = "".join(text + end for text, end in zip(texts[:-1], ends, strict=False)) + "".join(texts[-1:])
    return MARK + merged if written and len(body) < len(original_text) else merged


def _ends_of(ops: Sequence[LineOp], own_ends: Sequence[str]) -> list[str]:
    """Return the end of each written line.

    Within a stretch of changes, a new line takes the end of the removed line with the same text.  The lines between
    such matches are paired in order: the first new line takes the end of the first removed line, and so on.
    """
    known: list[str | None] = []
    for is_change, run in groupby(ops, key=lambda op: op.kind in ("drop", "take")):
        stretch = list(run)
        if not is_change:
            known += (own_ends[op.original_line or 0] or None for op in stretch)
            continue
        dropped = [op for op in stretch if op.original_line is not None]
        taken = [op.text for op in stretch if op.kind == "take"]
        start = len(known)
        known += [None] * len(taken)
        a = b = 0
        old = [op.text for op in dropped]
        changes = diff_lines(old, taken) if dropped and taken else []
        for a0, a1, b0, b1 in [*changes, ChangedLines(len(old), len(old), len(taken), len(taken))]:
            pairs = [*zip(range(a, a0), range(b, b0), strict=False), *zip(range(a0, a1), range(b0, b1), strict=False)]
            for i, j in pairs:
                known[start + j] = own_ends[dropped[i].original_line or 0] or None
            a, b = a1, b1
    counts = Counter(end for end in own_ends if end)
    most_frequent = max(counts, key=counts.__getitem__, default="\n")
    above = next((end for end in known if end is not None), most_frequent)
    filled = []
    for end in known:
        above = end if end is not None else above
        filled.append(above)
    return filled


def refuse_altered(original_text: str, merged_text: str, ops: Sequence[LineOp]) -> None:
    """Make the last check of every answer.

    Each line of the original must be written or dropped, once and in order.  Each line that is written must stand in
    the merged text with its own bytes, including its line end and byte-order mark.  Only the last line may get or lose
    its end.

    Raises AlteredBytes if something outside the edit would change; the error names the line of the original.
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
        f"merging would also change line {row + 1} or later, which the edit does not touch, so nothing was merged",
        value=row + 1,
        remedy=f"{REPORT_FAULT}, and try another edit format",
    )


def ops_from_texts(original_lf: str, merged_lf: str) -> tuple[LineOp, ...]:
    """Return the smallest line operations between the original and any merged text, such as one that a model wrote.

    Both texts have LF line ends.  Added lines have no `update_line`, because their source is not known here.
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
