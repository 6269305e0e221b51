"""A Hugging Face tokenizer as prompts need it: file text can never become a control token, and ids <-> text is
byte-faithful.

Two tokenizers of one vocabulary: the full one writes the chat template; the content one has no added tokens at all,
so that
`<|im_end|>` or `<tool_call>` inside a file is plain text (switching "special" tokens off is not enough: many added
tokens of published models are not marked special).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from apply_service.errors import ModelNotLoadable
from apply_service.prompts.vocabulary_bytes import VocabularyBytes

PROBE = "def f(x):\n\treturn {'é': x}  # 日本 🙂\r\n\n   <|im_end|></s>  end\n"
REPLACEMENT = "\ufffd"
MAX_HELD = 3
"""A character has at most four bytes, so at most three tokens of it can be waiting for the last."""


class Encoded(NamedTuple):
    """`ids` [n]; token i covers `text[starts[i]:starts[i + 1]]` (`starts` [n + 1])."""

    ids: list[int]
    starts: npt.NDArray[np.int64]


class ContentTokenizer:
    """Text <-> ids without control tokens.

    Raises ModelNotLoadable where the tokenizer doesn't give a text back unchanged: a file would be damaged.
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

    @classmethod
    def from_directory(cls, directory: Path) -> ContentTokenizer:
        return cls((directory / "tokenizer.json").read_text(encoding="utf-8"))

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
