"""The vocabulary of the compact format: text tokens of a line, and control tokens that no file text can spell.

A line is written as one tag and then the tokens of newline + line, so it tokenises the same wherever it stands.  Tags
carry a phase (a line number mod 64): with it a line's tag is nearly unique, and copying from it sharp.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from apply_service.errors import ModelNotLoadable
from apply_service.prompts.tokenizer import BYTE_ALPHABET
from apply_service.protocols import TokenIds, TokenSet

N_PHASES = 64
TagKind = Literal["keep", "both", "drop", "take"]
TAG_KINDS: tuple[TagKind, ...] = ("keep", "both", "drop", "take")
CONTROLS = ("<|original|>", "<|update|>", "<|merge|>", "<|end|>", "<|pad|>", "<|pass|>")
MAX_CACHED_LINES = 50_000


def control_tokens() -> list[str]:
    """All control tokens in the order of their ids."""
    return [*CONTROLS, *(f"<|{kind}:{phase}|>" for kind in TAG_KINDS for phase in range(N_PHASES))]


class LineVocabulary:
    """Lines <-> ids.  Not for several threads at once: it caches the lines that it has seen."""

    def __init__(self, tokenizer_json: str) -> None:
        spec = json.loads(tokenizer_json)
        added = {token["content"]: int(token["id"]) for token in spec["added_tokens"]}
        missing = [name for name in control_tokens() if name not in added]
        if missing:
            raise ModelNotLoadable(
                f"the tokenizer lacks the control token {missing[0]}", remedy="use a model of the compact format"
            )
        spec["added_tokens"] = []  # so that `<|end|>` in a file is plain text
        self._tokenizer = Tokenizer.from_str(json.dumps(spec))
        self.original, self.update, self.merge, self.end, self.pad, self.skip = (added[name] for name in CONTROLS)
        self.first_tag = added[f"<|{TAG_KINDS[0]}:0|>"]
        self.n_text = min(added.values())
        self.n_tokens = max(added.values()) + 1
        self._bytes = [b""] * self.n_tokens
        for text, token in spec["model"]["vocab"].items():
            self._bytes[token] = bytes(BYTE_ALPHABET[char] for char in text)
        self._lengths = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self._cache: dict[str, TokenIds] = {}

    @classmethod
    def from_file(cls, path: Path) -> LineVocabulary:
        """Raises ModelNotLoadable where the file is missing or of another format."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, KeyError, ValueError) as error:
            raise ModelNotLoadable(
                f"this is not a tokenizer of the compact format: {error}",
                value=str(path),
                remedy="put the one that the model was trained with there",
            ) from error

    def tag(self, kind: TagKind, line: int) -> int:
        return self.first_tag + TAG_KINDS.index(kind) * N_PHASES + line % N_PHASES

    def is_tag(self, token: int) -> bool:
        return self.first_tag <= token < self.n_tokens

    def kind_of(self, tag: int) -> TagKind:
        return TAG_KINDS[(tag - self.first_tag) // N_PHASES]

    def phase_of(self, tag: int) -> int:
        return (tag - self.first_tag) % N_PHASES

    @cached_property
    def singles(self) -> list[TokenSet]:
        """For every token the set that holds it alone."""
        return list(np.arange(self.n_tokens, dtype=np.int64)[:, None])

    def encode_lines(self, lines: Sequence[str]) -> list[TokenIds]:
        """The tokens of newline + line for each; linear, and free for lines seen before."""
        new = [line for line in dict.fromkeys(lines) if line not in self._cache]
        if len(self._cache) + len(new) > MAX_CACHED_LINES:
            self._cache, new = {}, list(dict.fromkeys(lines))
        encodings = self._tokenizer.encode_batch_fast(["\n" + line for line in new], add_special_tokens=False)
        for line, encoding in zip(new, encodings, strict=True):
            self._cache[line] = np.array(encoding.ids, dtype=np.int64)
        return [self._cache[line] for line in lines]

    def encode_text(self, text: str) -> list[int]:
        """Tokens of a piece of text from anywhere in a line on, as they are in encoded lines from its first newline
        on."""
        head, *lines = text.split("\n")
        ids = self._tokenizer.encode(head, add_special_tokens=False).ids if head else []
        return [*ids, *chain.from_iterable(tokens.tolist() for tokens in self.encode_lines(lines))]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Control tokens stand for nothing."""
        table = self._bytes
        return b"".join([table[token] for token in ids])

    def byte_lengths(self, ids: TokenIds) -> npt.NDArray[np.int64]:
        """How many bytes each token covers."""
        return self._lengths[ids]
