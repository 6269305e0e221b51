"""The embedded model's tokenizer in plain Python: a byte-level BPE, so that its install needs no tokenizer library.

It gives the ids that `tokenizers` gives for the same file; a test compares them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

PIECES = r"\n[ \t]*| ?[\p{L}_]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}_]+|[ \t]+(?=\S)|\s+"
"""What a text is cut into before bytes are joined: newline with indentation, words, digits, signs, blanks."""
ASCII_PIECES = re.compile(r"\n[ \t]*| ?[A-Za-z_]+|[0-9]{1,3}| ?[^\sA-Za-z0-9_]+|[ \t]+(?=\S)|\s+", re.ASCII)
VISIBLE = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]
BYTE_ALPHABET = {chr(byte): byte for byte in VISIBLE} | {chr(256 + i): byte for i, byte in enumerate(HIDDEN)}
"""The character that byte-level vocabularies use for each byte: its own if it is visible, else the next one from 256
on."""
MAX_CACHED_PIECES = 100_000


class BytePairs:
    """Encodes text with the `model` of a `tokenizer.json`.  It caches pieces, so only one thread at a time may use it.
    Raises KeyError or ValueError: the model is no byte-level BPE."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        vocabulary = model["vocab"]
        self._bytes = [0] * 256
        for char, byte in BYTE_ALPHABET.items():
            self._bytes[byte] = vocabulary[char]
        self._merges: dict[tuple[int, int], tuple[int, int]] = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(model["merges"])
        }
        self._shapes = Shapes()
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        shape = text if text.isascii() else text.translate(self._shapes)
        if len(self._cache) > MAX_CACHED_PIECES:
            self._cache.clear()
        ids: list[int] = []
        for found in ASCII_PIECES.finditer(shape):
            piece = text[found.start() : found.end()]
            if (known := self._cache.get(piece)) is None:
                known = self._cache[piece] = self._merged([self._bytes[byte] for byte in piece.encode()])
            ids += known
        return ids

    def _merged(self, ids: list[int]) -> list[int]:
        """Join the pair that was learnt first, the leftmost of equals, until no pair is known; changes `ids`."""
        before, after = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
        queue = [(*merge, i) for i, pair in enumerate(pairwise(ids)) if (merge := self._merges.get(pair)) is not None]
        heapify(queue)
        while queue:
            rank, joined, at = heappop(queue)
            other = after[at]
            if other == len(ids) or self._merges.get((ids[at], ids[other])) != (rank, joined):
                continue  # one of them has been joined to another one since
            ids[at], ids[other], after[at] = joined, -1, after[other]
            if after[at] < len(ids):
                before[after[at]] = at
            for left in (before[at], at):
                if left >= 0 and after[left] < len(ids) and (made := self._merges.get((ids[left], ids[after[left]]))):
                    heappush(queue, (*made, left))
        return [token for token in ids if token >= 0]


class Shapes(dict[int, int]):
    """For each code point, an ASCII character that `PIECES` treats alike."""

    def __missing__(self, code: int) -> int:
        kind = unicodedata.category(chr(code))
        if code < 128:
            shape = code
        elif kind[0] in "LN":
            shape = ord("a" if kind[0] == "L" else "1")
        else:
            shape = ord("\f" if kind[0] == "Z" or code == 0x85 else "!")
        self[code] = shape
        return shape
