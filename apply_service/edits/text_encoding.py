"""Bytes <-> text: encodings, byte-order marks, and what no file of text holds.

A file is UTF-8 unless its encoding is told; it is never guessed, because a wrong guess corrupts silently.  Names are
Python's, and `-sig` after a Unicode encoding says that a byte-order mark stands before the text (`utf-8-sig`,
`utf-16-le-sig`, `utf-16-be-sig`...).  So a name alone says how to write a text back, and a text that came from bytes is
free of the mark.  Line ends are `fidelity`'s concern.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Self

from apply_service.errors import BadEncoding, NulByte

SIGNATURE = "-sig"
MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
NOT_FOR_FILES = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7", "hz", "iso2022")
"""Codecs that are no file encodings, or whose bytes for a line depend on the lines before it."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text with its own line ends, and what it is encoded in (canonical name)."""

    text: str
    encoding: str = "utf-8"

    @property
    def has_bom(self) -> bool:
        return self.encoding.endswith(SIGNATURE)

    @classmethod
    def of(cls, text: str, encoding: str = "utf-8") -> Self:
        """A text that came as text.

        Raises:
            BadEncoding: no such encoding, or it can't hold the text.
        """
        source = cls(text, _canonical_for_text(encoding))
        encode(text, source)
        return source


def decode(data: bytes, encoding: str = "utf-8") -> SourceText:
    """The text of a file's bytes; `encode` gives the same bytes back.

    Raises:
        BadEncoding: no such encoding, or the bytes are not in it; `value` is the offset of the first that isn't.
        NulByte: a NUL character; `value` is its index.
    """
    if not data:
        return SourceText.of("", encoding)
    codec, mark = _codec_of(data, encoding)
    text = _decoded(data[len(mark) :], codec, len(mark))
    if "\0" in text:
        raise NulByte(
            "the file holds a NUL character", value=text.index("\0"), remedy=_remedy(data, "send text, not binary data")
        )
    source = SourceText(text, codec + SIGNATURE if mark else codec)
    if encode(text, source) != data:
        raise BadEncoding(
            f"the file's bytes would change on their way through {codec}", value=encoding, remedy="convert it to UTF-8"
        )
    return source


def encode(text: str, source: SourceText) -> bytes:
    """`text` as bytes, encoded as `source` is.

    Raises:
        BadEncoding: a character that the encoding has no bytes for.
    """
    codec = source.encoding.removesuffix(SIGNATURE)
    mark = MARKS[codec] if source.has_bom else b""
    try:
        return mark + text.encode(codec)
    except UnicodeEncodeError as error:
        raise BadEncoding(
            f"{codec} can't hold the character U+{ord(text[error.start]):04X} at index {error.start}",
            value=error.start,
            limit=source.encoding,
            remedy="use characters of the file's encoding, or convert the file to UTF-8 first",
        ) from None


def _decoded(data: bytes, codec: str, skipped: int) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        offset = error.start + skipped
        raise BadEncoding(
            f"byte {offset} (0x{data[error.start]:02x}) is not {codec}",
            value=offset,
            limit=codec,
            remedy=_remedy(data, "say what the file is encoded in, such as cp1252, latin-1 or utf-16"),
        ) from None


def _remedy(data: bytes, otherwise: str) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "the file starts with the byte-order mark of UTF-16: say encoding utf-16"
    return otherwise


def _codec_of(data: bytes, encoding: str) -> tuple[str, bytes]:
    """The codec for these bytes without mark, and the mark they start with.

    UTF-16 and UTF-32 without a mark and without a byte order told are little endian, as nearly all such files are."""
    codec = _canonical_for_text(encoding).removesuffix(SIGNATURE)
    is_open = _python_name(encoding) in ("utf-16", "utf-32")
    for name in (codec, codec.removesuffix("-le") + "-be") if is_open else (codec,):
        if name in MARKS and data.startswith(MARKS[name]):
            return name, MARKS[name]
    return codec, b""


def _canonical_for_text(encoding: str) -> str:
    """Where neither byte order nor mark is told (`utf-16`): little endian with a mark, as programs write it."""
    name = _python_name(encoding)
    return name + "-le" + SIGNATURE if name in ("utf-16", "utf-32") else name


def _python_name(encoding: str) -> str:
    base = encoding.strip().lower().replace("_", "-")
    wants_mark = base.endswith(SIGNATURE)
    try:
        name = codecs.lookup(base.removesuffix(SIGNATURE)).name.replace("_", "-")
        "a".encode(name)
    except (LookupError, ValueError, UnicodeError):
        raise _unknown(encoding) from None
    if name.startswith(NOT_FOR_FILES):
        raise _unknown(encoding)
    name = {"iso8859-1": "latin-1"}.get(name, name)
    if not wants_mark:
        return name
    name += "-le" if name in ("utf-16", "utf-32") else ""
    if name not in MARKS:
        raise _unknown(encoding)
    return name + SIGNATURE


def _unknown(encoding: str) -> BadEncoding:
    return BadEncoding(
        "no such text encoding",
        value=encoding,
        limit=["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "..."],
        remedy="name one that Python knows",
    )
