"""`constrain: sources` for models that write plain text: every line of the output is a line of a source.

The state is the line being written.  From it follows which tokens may come next, without a loop over the whole
vocabulary.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from apply_service.prompts.tokenizer import BYTE_ALPHABET, PROBE
from apply_service.protocols import EditJob, TokenSet

if TYPE_CHECKING:
    from tokenizers import Tokenizer

State = TypeVar("State")
NO_TEXT = b"\xff"
"""A byte that no text has: every text that begins with `x` sorts before `x + NO_TEXT`."""


class Masks(ABC, Generic[State]):
    """A `Constraint` that goes through the output token by token.  Subclasses define which tokens a state allows, and
    how a token changes a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._n_seen = 0

    @abstractmethod
    def allowed(self, state: State) -> TokenSet | None:
        """Return the tokens that may come next; None if all tokens may."""

    @abstractmethod
    def advance(self, state: State, token: int) -> None:
        """Add one more token to the state.  A token that is not allowed makes the state lost; a lost state allows
        everything."""

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        """See `Constraint`."""
        state = self.state_after(output_ids)
        masks = [self.allowed(state)]
        for token in draft_ids:
            self.advance(state, token)
            masks.append(self.allowed(state))
        return masks

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:  # noqa: ARG002
        """Return the draft unchanged."""
        return draft_ids

    def state_after(self, output_ids: Sequence[int]) -> State:
        """Return a copy of the state, which the caller may advance."""
        for token in output_ids[self._n_seen :]:
            self.advance(self._state, token)
        self._n_seen = len(output_ids)
        return copy(self._state)


class VocabularyBytes:
    """The bytes of every token.  They are bytes because tokens may cross the borders of lines and characters.

    `pieces` maps ids to bytes, without ids that write nothing (control tokens).  Raises ValueError if a byte has no
    token of its own, because some texts could then not be written from every place.
    """

    def __init__(self, pieces: Mapping[int, bytes]) -> None:
        self._pieces = {token: piece for token, piece in pieces.items() if piece}
        self._ids: dict[bytes, list[int]] = defaultdict(list)
        for token, piece in self._pieces.items():
            self._ids[piece].append(token)
        if not self._ids.keys() >= {bytes([byte]) for byte in range(256)}:
            raise ValueError("the vocabulary lacks single bytes")
        self.longest = max(map(len, self._ids))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> VocabularyBytes | None:
        """Return the vocabulary of a byte-level tokenizer, or of one that marks spaces and falls back to bytes.

        Return None for any other tokenizer.  A probe text shows the kind.
        """
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
        return cls.of_pieces(pieces) if written == PROBE.encode() else None

    @classmethod
    def of_pieces(cls, pieces: Mapping[int, bytes]) -> VocabularyBytes | None:
        """Return the vocabulary of these tokens; None if it lacks single bytes."""
        try:
            return cls(pieces)
        except ValueError:
            return None

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for a control token."""
        return self._pieces.get(token, b"")

    def ids(self, piece: bytes) -> list[int]:
        """Return the tokens with exactly these bytes."""
        return self._ids.get(piece, [])

    def longer(self, start: bytes) -> Iterator[tuple[bytes, list[int]]]:
        """Yield the pieces that begin with `start` and are longer, with their ids."""
        for at in range(bisect_right(self._sorted, start), len(self._sorted)):
            piece = self._sorted[at]
            if not piece.startswith(start):
                return
            yield piece, self._ids[piece]

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self._ids)


def source_lines(job: EditJob) -> list[str]:
    """Return the lines that an output may have: the lines of the original, and the lines of the update that the merger
    writes (no markers, fences, hints)."""
    original = job.original.split("\n")
    update = [op.text for op in job.prediction.ops if op.update_line is not None and op.kind != "drop"]
    return [*(original if original[-1] else original[:-1]), *update]


@dataclass(slots=True)
class TextState:
    """The bytes since the last line end.  `is_opening`: `before` is not complete yet."""

    line: bytes = b""
    is_opening: bool = False
    is_over: bool = False
    is_lost: bool = False


class SourceConstraint(Masks[TextState]):
    """A constraint for formats that write the plain file.  The target chooses how the text is divided into tokens.

    A token is allowed if the line so far and the token begin a line of the sources.  It may also end a line and begin
    others.  The output is `before`, some of `lines` (given without line ends), `after`, then `end_id`.  The last line
    may lack its line end, or share the line end at the start of `after`.

    The allowed tokens of a place are cached.  Finding them takes one look-up for each byte of the lines that may
    follow.
    """

    def __init__(
        self, vocabulary: VocabularyBytes, lines: Iterable[str], *, end_id: int, before: str = "", after: str = ""
    ) -> None:
        super().__init__(TextState(is_opening=bool(before)))
        self._vocabulary = vocabulary
        self._end_id = end_id
        self._before, closing = before.encode(), after.encode()
        known = {line.encode() for line in lines}
        ends = {closing, closing.removeprefix(b"\n")}
        self._ends = frozenset(ends if closing.startswith(b"\n") else ends | {line + closing for line in known})
        self._lines = frozenset(line + b"\n" for line in known)
        self._units = sorted((self._lines | self._ends) - {b""})
        self._starts: dict[bytes, bool] = {}  # bytes -> whether a line may begin with them
        self._kept: dict[tuple[bool, bytes], TokenSet] = {}

    def advance(self, state: TextState, token: int) -> None:
        if state.is_lost or state.is_over:
            return
        if token == self._end_id:
            state.is_over, state.is_lost = True, state.is_opening or state.line not in self._ends
            return
        piece = self._vocabulary.piece(token)
        state.line += piece
        if not piece:
            state.is_lost = True
        elif not state.is_opening:
            self._end_lines(state)
        elif state.line.startswith(self._before):
            state.line, state.is_opening = state.line[len(self._before) :], False
            self._end_lines(state)
        else:
            state.is_lost = not self._before.startswith(state.line)

    def _end_lines(self, state: TextState) -> None:
        """Remove complete lines from the state.  The state is lost if the rest begins no line.

        A line end that could also begin `after` counts as an empty line if the sources have one.  In both cases the
        rest of `after` may follow.
        """
        while (cut := state.line.find(b"\n") + 1) and state.line[:cut] in self._lines:
            state.line = state.line[cut:]
        first, last = self._units_from(state.line)
        state.is_lost = bool(state.line) and first == last

    def allowed(self, state: TextState) -> TokenSet | None:
        if state.is_lost:
            return None
        if state.is_over:
            return np.array([self._end_id], dtype=np.int64)
        place = is_opening, line = state.is_opening, state.line
        if place in self._kept:
            return self._kept[place]
        vocabulary = self._vocabulary
        found = {self._end_id} if line in self._ends and not is_opening else set()
        known = b""  # the rest of the previous unit; all its beginnings were looked up
        first, last = self._units_from(line)
        for unit in [self._before] if is_opening else self._units[first:last]:
            rest = unit[len(line) :]
            shared = takewhile(lambda pair: pair[0] == pair[1], zip(known, rest, strict=False))
            for size in range(len([*shared]) + 1, min(len(rest), vocabulary.longest) + 1):
                found.update(vocabulary.ids(rest[:size]))
            if is_opening or unit in self._lines:
                for piece, ids in vocabulary.longer(rest):
                    start = piece[len(rest) :]
                    if start not in self._starts:
                        begun = TextState(start)
                        self._end_lines(begun)
                        self._starts[start] = not begun.is_lost
                    if self._starts[start]:
                        found.update(ids)
            known = rest
        self._kept[place] = np.array(sorted(found), dtype=np.int64)
        return self._kept[place]

    def _units_from(self, line: bytes) -> tuple[int, int]:
        """Return the range of the units that begin with `line`."""
        return bisect_left(self._units, line), bisect_left(self._units, line + NO_TEXT)
