"""What every id of a vocabulary writes, as bytes: for constraints on text, as tokens straddle lines and characters."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

N_BYTES = 256
PROBE = "x = {'é': 1}\n\n\n    # 日本 🙂\ty\r\n</z>"


class VocabularyBytes:
    """`pieces` maps ids to bytes; an id that writes nothing (a control token) has no place in it.

    Raises ValueError where a byte has no id of its own: then some text could not be written from every place.
    """

    def __init__(self, pieces: Mapping[int, bytes]) -> None:
        self._pieces = {token: piece for token, piece in pieces.items() if piece}
        self._ids: dict[bytes, list[int]] = defaultdict(list)
        for token, piece in self._pieces.items():
            self._ids[piece].append(token)
        if any(bytes([byte]) not in self._ids for byte in range(N_BYTES)):
            raise ValueError("the vocabulary lacks single bytes")
        self.longest = max(map(len, self._ids))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> VocabularyBytes | None:
        """The vocabulary of a byte-level tokenizer, or of one that marks spaces and falls back to bytes; None for any
        other, found by writing a probe."""
        spec = json.loads(tokenizer.to_str())
        read = _of_alphabet if "ByteLevel" in _kinds(spec.get("decoder")) else _of_marked_spaces
        vocabulary = tokenizer.get_vocab(with_added_tokens=False)
        pieces = {token: piece for text, token in vocabulary.items() if (piece := read(text)) is not None}
        written = b"".join(pieces.get(token, b"") for token in tokenizer.encode(PROBE, add_special_tokens=False).ids)
        if written != PROBE.encode():
            return None
        try:
            return cls(pieces)
        except ValueError:
            return None

    def piece(self, token: int) -> bytes:
        """What the id writes; b"" for one that writes nothing."""
        return self._pieces.get(token, b"")

    def ids(self, piece: bytes) -> list[int]:
        """The ids that write just this."""
        return self._ids.get(piece, [])

    def longer(self, start: bytes) -> Iterator[tuple[bytes, list[int]]]:
        """The pieces that begin with `start` and go on, with their ids."""
        for at in range(bisect_left(self._sorted, start), len(self._sorted)):
            piece = self._sorted[at]
            if not piece.startswith(start):
                return
            if len(piece) > len(start):
                yield piece, self._ids[piece]

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self._ids)

    @cached_property
    def straddling(self) -> Mapping[bytes, list[tuple[bytes, int]]]:
        """Of the pieces that go on after a line end: up to that line end -> (the rest, id)."""
        found: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
        for token, piece in self._pieces.items():
            head, end, tail = piece.partition(b"\n")
            if tail:
                found[head + end].append((tail, token))
        return found


def _kinds(decoder: Any) -> set[str]:
    if not decoder:
        return set()
    return {decoder["type"]}.union(*(_kinds(part) for part in decoder.get("decoders", ())))


def _byte_alphabet() -> dict[str, int]:
    """The visible character that byte-level vocabularies write for each byte: its own where it has one, else the next
    free one from 256 on."""
    visible = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(N_BYTES) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(N_BYTES + i): byte for i, byte in enumerate(hidden)}


BYTE_ALPHABET = _byte_alphabet()


def _of_alphabet(text: str) -> bytes | None:
    try:
        return bytes(BYTE_ALPHABET[char] for char in text)
    except KeyError:
        return None


def _of_marked_spaces(text: str) -> bytes | None:
    """`<0x0A>` is a byte, and U+2581 a space."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace("\u2581", " ").encode()
