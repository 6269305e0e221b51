"""Turns the text of prompts into ids, and ids into text.  File text never becomes a control token, and keeps every
byte.

The content tokenizer has no added tokens at all, so that `<|im_end|>` or `<tool_call>` inside a file is plain text.
Switching "special" tokens off is not enough, because many added tokens of published models are not marked special.

`BytePairs` is the embedded model's tokenizer in plain Python, so that it needs no tokenizer library.  A test checks
that it gives the same ids as `tokenizers` for the same file.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from apply_service.errors import ModelNotLoadable
from apply_service.protocols import DraftSource, DraftSources, EditJob

PROBE = "def f(x):\n\treturn {'é': x}  # 日本 🙂 e\u0301\r\n\n   <|im_end|></s>  end\n"
UNICODE_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
"""Unicode normal forms.  Vocabularies that use one of them change characters of the file."""
REPLACEMENT = "\ufffd"
MAX_HELD = 3
"""An incomplete character has at most this many tokens, because a character has at most four bytes."""
Offsets = npt.NDArray[np.int64]


class Encoded(NamedTuple):
    """`ids` [n]; token i covers `text[starts[i]:starts[i + 1]]` (`starts` [n + 1])."""

    ids: list[int]
    starts: Offsets


class TextTokenizer(Protocol):
    """Turns text into ids and back, without control tokens."""

    def encode(self, text: str) -> Encoded: ...
    def decode(self, ids: Sequence[int]) -> str: ...


class ContentTokenizer:
    """A Hugging Face tokenizer without its control tokens.

    Raises ModelNotLoadable if it does not give a text back unchanged and so would damage files.
    """

    def __init__(self, tokenizer_json: str) -> None:
        spec = json.loads(tokenizer_json)
        spec["added_tokens"] = []
        spec["post_processor"] = None  # it would add BOS and trim offsets
        spec["truncation"] = spec["padding"] = None
        if (spec.get("normalizer") or {}).get("type") in UNICODE_FORMS:
            spec["normalizer"] = None
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_str(json.dumps(spec))
        if self.decode(self.encode(PROBE).ids) != PROBE:
            raise ModelNotLoadable(
                "the model's tokenizer changes text that it encodes and decodes",
                remedy="use a model with a byte-level tokenizer",
            )

    def encode(self, text: str) -> Encoded:
        # Encode as a batch, so that other threads run meanwhile: `encode` stops all threads, for a second per megabyte.
        (encoding,) = self.tokenizer.encode_batch([text], add_special_tokens=False)
        starts = np.fromiter((start for start, _ in encoding.offsets), np.int64, len(encoding.ids))
        return Encoded(list(encoding.ids), np.append(starts, len(text)))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; control tokens have no text."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))


PromptMessage = dict[str, str]
"""`role` and `content`."""


class ChatTokenizer:
    """Wraps a `transformers` fast tokenizer.  No message can end its own turn in the chat.

    The template is rendered with placeholders and tokenised with control tokens.  The messages are tokenised without
    control tokens and replace the placeholders, so the template never trims or interprets a message.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.content = ContentTokenizer(tokenizer.backend_tokenizer.to_str())
        if tokenizer.eos_token_id is None:
            raise ModelNotLoadable(
                "the model's tokenizer has no token for the end of an answer", remedy="use an instruct model"
            )
        self.end_id: int = tokenizer.eos_token_id
        self.stop_ids = frozenset({self.end_id})

    def encode_chat(self, messages: Sequence[PromptMessage], *, prefill: str = "") -> list[int]:
        """Return ids of the chat up to the end of `prefill`, the beginning of the assistant's answer.  Raises
        ModelNotLoadable if the chat template is missing, or does not show each message exactly once.
        """
        if not self._tokenizer.chat_template:
            raise ModelNotLoadable("the model has no chat template", remedy="use an instruct model")
        return place_messages(
            messages,
            lambda places: str(
                self._tokenizer.apply_chat_template(list(places), tokenize=False, add_generation_prompt=True)
            ),
            encode_control=lambda text: self._tokenizer.encode(text, add_special_tokens=False),
            encode=lambda text: self.content.encode(text).ids,
            prefill=prefill,
        )


def place_messages(
    messages: Sequence[PromptMessage],
    render: Callable[[Sequence[PromptMessage]], str],
    *,
    encode_control: Callable[[str], list[int]],
    encode: Callable[[str], list[int]],
    prefill: str,
) -> list[int]:
    """Return ids of a chat that `render` writes.

    The template's own text is encoded with control tokens; messages and `prefill` are encoded without them.

    Raises ModelNotLoadable if the template does not show each message exactly once.
    """
    places = [{**message, "content": f"\ue000{i}\ue001"} for i, message in enumerate(messages)]
    rendered = render(places)
    if any(rendered.count(place["content"]) != 1 for place in places):
        raise ModelNotLoadable("the model's chat template leaves out or repeats messages", remedy="use another model")
    ids: list[int] = []
    for piece in re.split(r"(\ue000\d+\ue001)", rendered):
        if piece.startswith("\ue000"):
            ids += encode(messages[int(piece[1:-1])]["content"])
        elif piece:
            ids += encode_control(piece)
    return ids + (encode(prefill) if prefill else [])


class IncrementalDecoder:
    """Decodes a growing sequence piece by piece.  Characters are held back until they are complete."""

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
    """Return the first and last line (0-based) of the merged text that each token of a plain-text output decides.

    A token decides the line that it is in, and the lines that it begins.  `head`: the output before the merged text.
    Line breaks are counted token by token.  This is exact for vocabularies that are byte-level or fall back to bytes.
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


def text_sources(job: EditJob, tokenizer: TextTokenizer, *, before: str, after: str, end_id: int) -> DraftSources:
    """Return each source as `before + text + after + end token`."""

    def source(name: Literal["predicted", "original", "update"], text: str) -> DraftSource:
        wrapped = before + text + after
        ids, starts = tokenizer.encode(wrapped)
        return DraftSource(name, wrapped, np.array([*ids, end_id], np.int64), np.append(starts, len(wrapped)))

    ops, update_lines = job.prediction.ops, job.prediction.update_lines
    predicted = source("predicted", job.prediction.text)
    original, update = source("original", job.original), source("update", "\n".join(update_lines))
    # For each character of the predicted merge [n_chars + 1], these are the aligned characters of original and update.
    original_starts = list(accumulate((len(op.text) + 1 for op in ops if op.original_line is not None), initial=0))
    update_starts = list(accumulate((len(line) + 1 for line in update_lines), initial=0))
    to_original: list[Offsets] = []
    to_update: list[Offsets] = []
    original_at = update_at = 0
    for op in ops:
        span = np.arange(len(op.text) + 1, dtype=np.int64)
        here = original_at if op.original_line is None else original_starts[op.original_line]
        there = update_at if op.update_line is None else update_starts[op.update_line]
        if op.kind != "drop":
            to_original.append(here + (0 * span if op.original_line is None else span))
            to_update.append(there + (0 * span if op.update_line is None else span))
        original_at = here if op.original_line is None else here + len(op.text) + 1
        update_at = there if op.update_line is None else update_starts[op.update_line + 1]

    def token_places(chars: list[Offsets], other: DraftSource) -> Offsets:
        """Return the aligned token of `other` for each token of the predicted merge.  The first token belongs to the
        tag, and maps to the first token of `other`."""
        all_chars = np.concatenate(chars)
        at = all_chars[np.clip(predicted.starts - len(before), 0, len(all_chars) - 1)] + len(before)
        places = np.searchsorted(other.starts[:-1], at)
        places[predicted.starts == 0] = 0
        return np.minimum(places, len(other.ids))

    return DraftSources(
        predicted=predicted,
        original=original,
        update=update,
        predicted_to_original=token_places(to_original, original),
        predicted_to_update=token_places(to_update, update),
        encode=lambda text: tokenizer.encode(text).ids,
        decode=tokenizer.decode,
    )


# -- byte pairs --------------------------------------------------------------------------------------------------------
PIECES = r"\n[ \t]*| ?[\p{L}_]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}_]+|[ \t]+(?=\S)|\s+"
"""Matches the pieces of a text.  Bytes are joined only inside a piece: newline with indentation, words, digits, signs,
blanks."""
ASCII_PIECES = re.compile(r"\n[ \t]*| ?[A-Za-z_]+|[0-9]{1,3}| ?[^\sA-Za-z0-9_]+|[ \t]+(?=\S)|\s+", re.ASCII)
VISIBLE = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]
BYTE_ALPHABET = {chr(byte): byte for byte in VISIBLE} | {chr(256 + i): byte for i, byte in enumerate(HIDDEN)}
"""The byte of each character in byte-level vocabularies.  A visible byte is its own character; the others take the
characters from 256 on."""
MAX_CACHED_PIECES = 100_000


class BytePairs:
    """Encodes text with the `model` of a `tokenizer.json`.  It caches pieces, so only one thread at a time may use it.

    Raises KeyError or ValueError if the model is not a byte-level BPE.
    """

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
        """Join pairs until no pair is known.  Each step joins the pair that was learnt first (the leftmost of equal
        pairs).  This changes `ids`."""
        before, after = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
        queue = [(*merge, i) for i, pair in enumerate(pairwise(ids)) if (merge := self._merges.get(pair)) is not None]
        heapify(queue)
        while queue:
            rank, joined, at = heappop(queue)
            other = after[at]
            if other == len(ids) or self._merges.get((ids[at], ids[other])) != (rank, joined):
                continue  # one of the two has been joined to another since
            ids[at], ids[other], after[at] = joined, -1, after[other]
            if after[at] < len(ids):
                before[after[at]] = at
            for left in (before[at], at):
                if left >= 0 and after[left] < len(ids) and (made := self._merges.get((ids[left], ids[after[left]]))):
                    heappush(queue, (*made, left))
        return [token for token in ids if token >= 0]


class Shapes(dict[int, int]):
    """Maps each code point to an ASCII character that `PIECES` treats in the same way."""

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
