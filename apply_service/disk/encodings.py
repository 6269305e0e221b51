"""Finds the encoding of a file for which nobody has named one.

A file is UTF-8, or has the byte-order mark of UTF-16 or UTF-32.  Any other file's encoding is guessed.  A wrong guess
does no harm to the bytes that an edit leaves alone: decoding and encoding the whole file gives the same bytes.  Only a
character that the edit brings into the file could be written wrongly.  Such an edit is refused.
"""

from __future__ import annotations

import codecs
import contextlib
from typing import NamedTuple

from apply_service.errors import BadEncoding
from apply_service.types import Verdict

UTF8 = "utf-8"
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # comes first, because it begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MOST_FREQUENT = "cp1252"
"""This encoding is guessed wherever it is possible: short texts in western languages look the same in similar
encodings."""
ASCII_COMPATIBLE = (
    *(MOST_FREQUENT, "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp866", "cp874"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "iso8859_15", "koi8_r", "koi8_u", "mac_roman", "mac_cyrillic"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""The encodings that browsers know (WHATWG, Encoding), without rare encodings.  All of them contain ASCII unchanged,
and decode each line independently of the lines before it."""
MAX_SAMPLE_LINES = 2000
CHECK = "encoding"
"""The name of the check in the verdict about a guess."""


class FileEncoding(NamedTuple):
    """An encoding, and whether it is a guess."""

    name: str
    is_guess: bool = False

    @property
    def verdict(self) -> Verdict:
        """Return the warning that the encoding is a guess."""
        told = f"the file is not UTF-8; it was read and is written as {self.name}, which is a guess"
        return Verdict(CHECK, "warning", told)

    @property
    def hint(self) -> str:
        """Return the words to add to an error's remedy; empty if the encoding is not a guess."""
        told = f"; the file was read as {self.name}, which is a guess: if it is wrong, name the encoding"
        return told if self.is_guess else ""


def encoding_of(data: bytes) -> FileEncoding:
    """Return the encoding of a file's bytes.  If no encoding fits, return UTF-8; decoding the bytes will then raise."""
    try:
        data.decode(UTF8)
    except UnicodeDecodeError:
        pass
    else:
        return FileEncoding(UTF8)
    marked = next((name for mark, name in MARKS if data.startswith(mark)), None)
    if marked is not None:
        return FileEncoding(marked)
    if b"\0" in data:
        return FileEncoding(UTF8)
    from charset_normalizer import from_bytes  # imported late, because most runs do without it

    lines = [line for line in data.splitlines() if not line.isascii()]
    matches = list(from_bytes(b"\n".join(lines[:MAX_SAMPLE_LINES]), cp_isolation=[*ASCII_COMPATIBLE]))
    names = [match.encoding for match in matches]
    if any(MOST_FREQUENT in match.could_be_from_charset for match in matches):
        names.insert(0, MOST_FREQUENT)
    for name in names:
        with contextlib.suppress(UnicodeError):
            if data.decode(name).encode(name) == data:
                return FileEncoding(name.replace("_", "-"), is_guess=True)
    return FileEncoding(UTF8)


def refuse_new_characters(encoding: FileEncoding, original: str, merged: str) -> None:
    """Raise BadEncoding if the encoding is a guess and the merged text has a non-ASCII character that the file did not
    have.  The file's true encoding may write this character as other bytes."""
    new = sorted(one for one in set(merged) - set(original) if not one.isascii())
    if encoding.is_guess and new:
        message = f"the file's encoding is a guess ({encoding.name}), and the edit brings {new[0]!r} into the file"
        remedy = "name the encoding, such as cp1252 or shift_jis, or convert the file to UTF-8"
        raise BadEncoding(message, value="".join(new[:20]), limit=encoding.name, remedy=remedy)
