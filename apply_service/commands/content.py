"""Bytes of files and fields of requests and answers, each from the other."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apply_service.errors import BadEncoding, FileNotReadable

STANDARD_INPUT = "-"
UTF8 = "utf-8"


def original_fields(data: bytes, encoding: str) -> Iterator[tuple[str, object]]:
    """A file as a request has it: as text where the bytes are plain UTF-8, which reads better and needs no decoding;
    else as bytes."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8") and not data.startswith(b"\xef\xbb\xbf"):
        try:
            yield "original", data.decode("utf-8")
            return
        except UnicodeDecodeError:
            pass
    yield "original_b64", base64.b64encode(data).decode()
    yield "encoding", encoding


def merged_bytes(answer: Mapping[str, Any]) -> bytes:
    """The merged file as bytes, in the original's encoding."""
    if answer["merged_b64"] is not None:
        return base64.b64decode(answer["merged_b64"])
    return str(answer["merged_code"]).encode("utf-8")


def printable(path: Path) -> str:
    """The name as Unicode text: bytes of it that are not UTF-8 could not travel."""
    return os.fsencode(path).decode("utf-8", "replace")


def read_text(name: str) -> str:
    """An update or a patch, from a file or standard input.  Raises FileNotReadable or BadEncoding."""
    data = read_bytes(name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadEncoding(
            f"The update ({name}) is not UTF-8 (byte {error.start}).",
            value=name,
            limit="utf-8",
            remedy="Convert it to UTF-8.",
        ) from error


def read_bytes(name: str) -> bytes:
    """A file, or standard input where the name is `-`.  Raises FileNotReadable."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise FileNotReadable(
            f"Cannot read {name}: {error.strerror or error}.", value=name, remedy="Name a file you may read, or -."
        ) from error
