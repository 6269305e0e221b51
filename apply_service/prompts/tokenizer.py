"""Text <-> ids for prompts: file text never becomes a control token, and no byte of it is altered.

The content tokenizer has no added tokens at all, so that `<|im_end|>` or `<tool_call>` inside a file is plain text
(switching "special" tokens off is not enough: many added tokens of published models are not marked special).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from apply_service.errors import ModelNotLoadable

PROBE = "def f(x):\n\treturn {'é': x}  # 日本 🙂\r\n\n   <|im_end|></s>  end\n"
REPLACEMENT = "\ufffd"
MAX_HELD = 3
"""A character has at most four bytes, so at most three tokens of it can be waiting for the last."""


Offsets = npt.NDArray[np.int64]


class Encoded(NamedTuple):
    """`ids` [n]; token i covers `text[starts[i]:starts[i + 1]]` (`starts` [n + 1])."""

    ids: list[int]
    starts: Offsets


class ContentTokenizer:
    """A Hugging Face tokenizer without its control tokens.

    Raises ModelNotLoadable where it doesn't give a text back unchanged: a file would be damaged.
    """

    def __init__(self, tokenizer_json: str) -> None:
        spec = json.loads(tokenizer_json)
        spec["added_tokens"] = []
        spec["post_processor"] = None  # would add BOS, and trims offsets
        spec["truncation"] = spec["padding"] = None
        self._tokenizer = Tokenizer.from_str(json.dumps(spec))
        if self.decode(self.encode(PROBE).ids) != PROBE:
            raise ModelNotLoadable(
                "the tokenizer does not give text back unchanged", remedy="use a model with a byte-level tokenizer"
            )

    def encode(self, text: str) -> Encoded:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        starts = np.fromiter((start for start, _ in encoding.offsets), np.int64, len(encoding.ids))
        return Encoded(list(encoding.ids), np.append(starts, len(text)))

    def decode(self, ids: Sequence[int]) -> str:
        """Control tokens stand for nothing."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    @cached_property
    def vocabulary(self) -> VocabularyBytes | None:
        """What each id writes; None where that can't be told."""
        return VocabularyBytes.of(self._tokenizer)


ChatMessage = dict[str, str]
"""`role` and `content`."""


class ChatTokenizer:
    """Wraps a `transformers` fast tokenizer: chats whose messages can't escape their place.

    The template is rendered around placeholders and tokenised with control tokens on; the messages are tokenised with
    none and put in their places, so a template never sees (trims, interprets) them.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.content = ContentTokenizer(tokenizer.backend_tokenizer.to_str())
        if tokenizer.eos_token_id is None:
            raise ModelNotLoadable("the tokenizer has no end token", remedy="use an instruct model")
        self.end_id: int = tokenizer.eos_token_id

    def encode_chat(self, messages: Sequence[ChatMessage], *, prefill: str = "") -> list[int]:
        """Ids up to the place where the assistant's answer goes on after `prefill`.

        Raises:
            ModelNotLoadable: no chat template, or one that doesn't show every message exactly once.
        """
        if not self._tokenizer.chat_template:
            raise ModelNotLoadable("the model has no chat template", remedy="use an instruct model")
        places = [{**message, "content": f"\ue000{i}\ue001"} for i, message in enumerate(messages)]
        rendered = str(self._tokenizer.apply_chat_template(places, tokenize=False, add_generation_prompt=True))
        if any(rendered.count(place["content"]) != 1 for place in places):
            raise ModelNotLoadable(
                "the model's chat template does not show every message once", remedy="use another model"
            )
        ids: list[int] = []
        for piece in re.split(r"(\ue000\d+\ue001)", rendered):
            if piece.startswith("\ue000"):
                ids += self.content.encode(messages[int(piece[1:-1])]["content"]).ids
            elif piece:
                ids += self._tokenizer.encode(piece, add_special_tokens=False)
        return ids + (self.content.encode(prefill).ids if prefill else [])


class IncrementalDecoder:
    """Decodes a growing sequence piece by piece; holds back a character whose bytes are not all there."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._pending: list[int] = []

    def push(self, ids: Sequence[int]) -> str:
        self._pending.extend(ids)
        for n_held in range(min(MAX_HELD, len(self._pending)) + 1):
            cut = len(self._pending) - n_held
            text = self._decode(self._pending[:cut])
            if not text.endswith(REPLACEMENT):
                del self._pending[:cut]
                return text
        return ""

    def finish(self) -> str:
        text, self._pending = self._decode(self._pending), []
        return text


def lines_of_tokens(
    ids: Sequence[int], decode: Callable[[Sequence[int]], str], *, head: str = ""
) -> list[tuple[int, int]]:
    """First and last line of the merged text (0-based) that each token of a plainly written output decides: the line
    it ends and those it begins.

    `head` is what the output has before the merged text.  Counts line breaks token by token, which is exact where no
    token holds a part of one: byte-level vocabularies, and those that fall back to bytes.
    """
    n_breaks: dict[int, int] = {}
    lines: list[tuple[int, int]] = []
    first = -head.count("\n")
    for token in ids:
        if token not in n_breaks:
            n_breaks[token] = decode([token]).count("\n")
        last = first + n_breaks[token]
        lines.append((max(0, first), max(0, last)))
        first = last
    return lines


# -- a vocabulary as bytes ---------------------------------------------------------------------------------------------
VISIBLE = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]
BYTE_ALPHABET = {chr(byte): byte for byte in VISIBLE} | {chr(256 + i): byte for i, byte in enumerate(HIDDEN)}
"""The character that byte-level vocabularies write for each byte: its own where it is visible, else the next one from
256 on."""


class VocabularyBytes:
    """What every id of a vocabulary writes, as bytes: for constraints on text, as tokens straddle lines and characters.

    `pieces` maps ids to bytes; an id that writes nothing (a control token) has no place in it.  Raises ValueError where
    a byte has no id of its own: then some text could not be written from every place.
    """

    def __init__(self, pieces: Mapping[int, bytes]) -> None:
        self._pieces = {token: piece for token, piece in pieces.items() if piece}
        self._ids: dict[bytes, list[int]] = defaultdict(list)
        for token, piece in self._pieces.items():
            self._ids[piece].append(token)
        if any(bytes([byte]) not in self._ids for byte in range(256)):
            raise ValueError("the vocabulary lacks single bytes")
        self.longest = max(map(len, self._ids))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> VocabularyBytes | None:
        """The vocabulary of a byte-level tokenizer, or of one that marks spaces and falls back to bytes; None for any
        other, found by writing a probe."""
        is_byte_level = "ByteLevel" in json.dumps(json.loads(tokenizer.to_str()).get("decoder"))
        pieces: dict[int, bytes] = {}
        for text, token in tokenizer.get_vocab(with_added_tokens=False).items():
            if is_byte_level:
                if BYTE_ALPHABET.keys() >= set(text):
                    pieces[token] = bytes(BYTE_ALPHABET[char] for char in text)
            elif (byte := re.fullmatch("<0x([0-9A-Fa-f]{2})>", text)) is not None:
                pieces[token] = bytes.fromhex(byte[1])
            else:
                pieces[token] = text.replace("\u2581", " ").encode()
        written = b"".join(pieces.get(token, b"") for token in tokenizer.encode(PROBE, add_special_tokens=False).ids)
        try:
            return cls(pieces) if written == PROBE.encode() else None
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
