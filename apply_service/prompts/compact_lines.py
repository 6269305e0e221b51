"""The lines of the compact format: the vocabulary, whose control tokens no file text can spell, and the constraint that
every line of the output is a line of a source.

A line is one tag and then the tokens of newline + line, so it has the same tokens at any place.  A tag has a phase (its
line number mod 64), which makes it nearly unique and so easy to copy from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from apply_service.errors import ModelNotLoadable
from apply_service.prompts.byte_pairs import BYTE_ALPHABET, PIECES, BytePairs
from apply_service.prompts.constraint import Masks
from apply_service.protocols import TokenIds, TokenSet

N_PHASES = 64
TagKind = Literal["keep", "both", "drop", "take"]
TAG_KINDS: tuple[TagKind, ...] = ("keep", "both", "drop", "take")
CONTROLS = ("<|original|>", "<|update|>", "<|merge|>", "<|end|>", "<|pad|>", "<|pass|>")
MAX_CACHED_LINES = 50_000
LOOK_AHEAD = 48
"""Update lines that a single `take` can pass over; below N_PHASES, so that a phase names one line."""


def control_tokens() -> list[str]:
    """All control tokens in the order of their ids."""
    return [*CONTROLS, *(f"<|{kind}:{phase}|>" for kind in TAG_KINDS for phase in range(N_PHASES))]


class LineVocabulary:
    """Lines <-> ids.  It caches the lines that it has seen, so only one thread at a time may use it."""

    def __init__(self, tokenizer_json: str) -> None:
        spec = json.loads(tokenizer_json)
        added = {token["content"]: int(token["id"]) for token in spec["added_tokens"]}
        missing = [name for name in control_tokens() if name not in added]
        if missing:
            raise ModelNotLoadable(
                f"the tokenizer lacks the control token {missing[0]}",
                remedy="use a model trained for the prompt format compact",
            )
        if spec["pre_tokenizer"]["pretokenizers"][0]["pattern"] != {"Regex": PIECES}:
            raise ValueError("it cuts text in another way")
        self._pairs = BytePairs(spec["model"])  # knows no control tokens, so `<|end|>` in a file is plain text
        self.original, self.update, self.merge, self.end, self.pad, self.skip = (added[name] for name in CONTROLS)
        self.first_tag = added[f"<|{TAG_KINDS[0]}:0|>"]
        self.n_text = min(added.values())
        self.n_tokens = max(added.values()) + 1
        self._bytes = [b""] * self.n_tokens
        for text, token in spec["model"]["vocab"].items():
            self._bytes[token] = bytes(BYTE_ALPHABET[char] for char in text)
        self.byte_lengths = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self._cache: dict[str, TokenIds] = {}

    @classmethod
    def from_file(cls, path: Path) -> LineVocabulary:
        """Raises ModelNotLoadable: the file is missing or of another format."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, KeyError, ValueError) as error:
            raise ModelNotLoadable(
                f"this tokenizer does not fit the prompt format `compact`: {error}",
                value=str(path),
                remedy="put the tokenizer that the model was trained with into its folder",
            ) from error

    def tag(self, kind: TagKind, line: int) -> int:
        return self.first_tag + TAG_KINDS.index(kind) * N_PHASES + line % N_PHASES

    def is_tag(self, token: int) -> bool:
        return self.first_tag <= token < self.n_tokens

    def kind_of(self, tag: int) -> TagKind:
        return TAG_KINDS[(tag - self.first_tag) // N_PHASES]

    @cached_property
    def singles(self) -> list[TokenSet]:
        """For each token, the set that holds only it."""
        return list(np.arange(self.n_tokens, dtype=np.int64)[:, None])

    def encode_lines(self, lines: Sequence[str]) -> list[TokenIds]:
        """The tokens of newline + line for each line.  Lines seen before cost nothing."""
        new = [line for line in dict.fromkeys(lines) if line not in self._cache]
        if len(self._cache) + len(new) > MAX_CACHED_LINES:
            self._cache, new = {}, list(dict.fromkeys(lines))
        for line in new:
            self._cache[line] = np.array(self._pairs.encode("\n" + line), dtype=np.int64)
        return [self._cache[line] for line in lines]

    def encode_text(self, text: str) -> list[int]:
        """Tokens of a text that may begin inside a line; from its first newline on, those of `encode_lines`."""
        head, *lines = text.split("\n")
        return [*self._pairs.encode(head), *chain.from_iterable(tokens.tolist() for tokens in self.encode_lines(lines))]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Control tokens give no bytes."""
        return b"".join([self._bytes[token] for token in ids])


# -- the constraint --------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class ListingState:
    """The next line of either source, and what is left of the line being written."""

    original_at: int = 0
    update_at: int = 0
    line: Sequence[int] = ()
    line_at: int = 0
    is_over: bool = False
    is_lost: bool = False


class LineConstraint(Masks[ListingState]):
    """`constrain: sources`: allows the possible operations at the start of a line, and its own tokens inside it.

    It guarantees that no line is invented and that no line of the original is lost without a `drop`.  Each token of the
    output advances a state.  One object a request.  `matches` maps original lines to the update lines that
    a prediction pairs them with.
    """

    def __init__(
        self, vocabulary: LineVocabulary, original: Sequence[str], update: Sequence[str], matches: Mapping[int, int]
    ) -> None:
        super().__init__(ListingState())
        self._vocabulary = vocabulary
        self._original = [ids.tolist() for ids in vocabulary.encode_lines(original)]
        self._update = [ids.tolist() for ids in vocabulary.encode_lines(update)]
        self._original_text = [line.strip() for line in original]
        self._update_text = [line.strip() for line in update]
        self._matches = matches
        self._choices: dict[tuple[int, int], TokenSet] = {}

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        state = self.state_after(output_ids)
        sure: list[int] = []
        while len(sure) < limit and not state.is_over:
            allowed = self.allowed(state)
            if allowed is None or len(allowed) != 1:
                break
            sure.append(int(allowed[0]))
            self.advance(state, sure[-1])
        return draft_ids if list(draft_ids[: len(sure)]) == sure else sure

    def allowed(self, state: ListingState) -> TokenSet | None:
        vocabulary = self._vocabulary
        if state.is_lost:
            return None
        if state.line_at < len(state.line):
            return vocabulary.singles[state.line[state.line_at]]
        if state.is_over:
            return vocabulary.singles[vocabulary.end]
        place = original_at, update_at = state.original_at, state.update_at
        if place not in self._choices:
            tags = [vocabulary.tag("take", line) for line in range(update_at, self._last_reached(update_at))]
            if original_at < len(self._original):
                tags += [vocabulary.tag(kind, original_at) for kind in ("keep", "both", "drop")]
            else:
                tags.append(vocabulary.end)
            self._choices[place] = np.array(sorted(tags), dtype=np.int64)
        return self._choices[place]

    def _last_reached(self, update_at: int) -> int:
        """The end of the update's lines that can be taken from here."""
        return min(update_at + LOOK_AHEAD, len(self._update))

    def advance(self, state: ListingState, token: int) -> None:
        vocabulary, at = self._vocabulary, state.original_at
        if state.is_lost or state.is_over:
            return
        if state.line_at < len(state.line):
            state.is_lost = token != state.line[state.line_at]
            state.line_at += 1
            return
        if not vocabulary.is_tag(token):
            state.is_over = token == vocabulary.end
            state.is_lost = not state.is_over or at < len(self._original)
            return
        kind, phase = vocabulary.kind_of(token), (token - vocabulary.first_tag) % N_PHASES
        reached = self._last_reached(state.update_at)
        state.line_at = 0
        if kind == "take":
            taken = state.update_at + (phase - state.update_at) % N_PHASES
            state.is_lost = taken >= reached
            if not state.is_lost:
                state.line, state.update_at = self._update[taken], taken + 1
            return
        state.is_lost = at >= len(self._original) or phase != at % N_PHASES
        if state.is_lost:
            return
        state.line, state.original_at = self._original[at], at + 1
        if kind == "both":
            # The update's pointer moves past its copy of the line; it stays if there is none.
            rows, text = range(state.update_at, reached), self._original_text[at]
            past_alike = next((row + 1 for row in rows if self._update_text[row] == text), state.update_at)
            match = self._matches.get(at, -1)
            state.update_at = match + 1 if match >= state.update_at else past_alike
