"""`constrain: sources`: every line of the output is a line of a source.

A constraint is a state that each token of the output advances, and the tokens allowed in a state.  Nothing is done for
every entry of the vocabulary at any token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from apply_service.prompts.compact_lines import N_PHASES, LineVocabulary
from apply_service.prompts.tokenizer import VocabularyBytes
from apply_service.protocols import EditJob, TokenSet

LOOK_AHEAD = 48
"""Update lines that a single `take` can pass over; below N_PHASES, so that a phase names one line."""
NO_TEXT = b"\xff"
"""A byte that no text has: whatever begins with `x` sorts before `x` and it."""

State = TypeVar("State")


class WalkedConstraint(ABC, Generic[State]):
    """A `Constraint`.  One object a request; the state is copied once a window, so it holds nothing that a shallow copy
    shares and `_advance` changes."""

    def __init__(self, start: State) -> None:
        self._state = start
        self._n_seen = 0

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        state = self._state_after(output_ids)
        masks = [self._allowed(state)]
        for token in draft_ids:
            self._advance(state, token)
            masks.append(self._allowed(state))
        return masks

    @abstractmethod
    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        """See `CompletingConstraint`."""

    def _state_after(self, output_ids: Sequence[int]) -> State:
        """A copy, free to be advanced."""
        for token in output_ids[self._n_seen :]:
            self._advance(self._state, token)
        self._n_seen = len(output_ids)
        return copy(self._state)

    @abstractmethod
    def _advance(self, state: State, token: int) -> None:
        """Take one more token; one that was not allowed may leave the state anyhow."""

    @abstractmethod
    def _allowed(self, state: State) -> TokenSet | None: ...


# -- the compact format ------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class ListingState:
    """The next line of either source, and what is left of the line being written."""

    original_at: int = 0
    update_at: int = 0
    line: Sequence[int] = ()
    line_at: int = 0
    is_over: bool = False
    is_lost: bool = False


class LineConstraint(WalkedConstraint[ListingState]):
    """Of an annotated listing: at a line's start the operations that the pointers allow, inside a line its own tokens.

    It guarantees that nothing is invented and that no line of the original is lost without a `drop`.  Linear in the
    output.  `matches` maps original lines to the update lines that a prediction pairs them with.
    """

    def __init__(
        self,
        vocabulary: LineVocabulary,
        original: Sequence[str],
        update: Sequence[str],
        matches: Mapping[int, int],
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
        state = self._state_after(output_ids)
        sure: list[int] = []
        while len(sure) < limit and not state.is_over:
            allowed = self._allowed(state)
            if allowed is None or len(allowed) != 1:
                break
            sure.append(int(allowed[0]))
            self._advance(state, sure[-1])
        return draft_ids if list(draft_ids[: len(sure)]) == sure else sure

    def _allowed(self, state: ListingState) -> TokenSet | None:
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

    def _advance(self, state: ListingState, token: int) -> None:
        if state.is_lost or state.is_over:
            return
        if state.line_at < len(state.line):
            state.is_lost = token != state.line[state.line_at]
            state.line_at += 1
        elif token == self._vocabulary.end:
            state.is_lost = state.original_at < len(self._original)
            state.is_over = True
        elif self._vocabulary.is_tag(token):
            self._begin_line(state, token)
        else:
            state.is_lost = True

    def _begin_line(self, state: ListingState, tag: int) -> None:
        kind, phase = self._vocabulary.kind_of(tag), self._vocabulary.phase_of(tag)
        state.line_at = 0
        at, reached = state.original_at, self._last_reached(state.update_at)
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
            # The update's pointer passes its copy of the line; it stays where that can't be told.
            rows, text = range(state.update_at, reached), self._original_text[at]
            past_alike = next((row + 1 for row in rows if self._update_text[row] == text), state.update_at)
            match = self._matches.get(at, -1)
            state.update_at = match + 1 if match >= state.update_at else past_alike


# -- plain text --------------------------------------------------------------------------------------------------------
def source_lines(job: EditJob) -> list[str]:
    """The lines that an output may have: those of the original, and those of the update as the merger reads it that
    are part of the output (no markers, fences, hints)."""
    original = job.original.split("\n")
    update = [op.text for op in job.prediction.ops if op.update_line is not None and op.kind != "drop"]
    return [*(original if original[-1] else original[:-1]), *update]


@dataclass(slots=True)
class TextState:
    """What was written since the last line end.  `is_opening`: the opening is not complete yet."""

    line: bytes = b""
    is_opening: bool = False
    is_over: bool = False
    is_lost: bool = False


class SourceConstraint(WalkedConstraint[TextState]):
    """Of any format that writes the plain file: a token is allowed where the bytes of the line so far and its own begin
    a line of the sources, or end one and begin others.  How the text is cut into tokens is the target's choice.

    The output is `before`, some of `lines` (given without line ends), `after`, then `end_id`.  The last line may lack
    its line end; one that `after` begins with may be that of the line before it.  `encode` writes text as the target
    would, so that text can be drafted where no other may follow; without it drafts stay as they are.

    What is allowed at a place costs as many look-ups as the lines that may follow have bytes, and is kept.
    """

    def __init__(
        self,
        vocabulary: VocabularyBytes,
        lines: Iterable[str],
        *,
        end_id: int,
        before: str = "",
        after: str = "",
        encode: Callable[[str], Sequence[int]] | None = None,
    ) -> None:
        super().__init__(TextState(is_opening=bool(before)))
        self._vocabulary = vocabulary
        self._end_id = end_id
        self._encode = encode
        self._before, closing = before.encode(), after.encode()
        known = {line.encode() for line in lines}
        ends = {closing, closing.removeprefix(b"\n")}
        self._ends = frozenset(ends if closing.startswith(b"\n") else ends | {line + closing for line in known})
        self._lines = frozenset(line + b"\n" for line in known)
        self._units = sorted((self._lines | self._ends) - {b""})
        self._starts: dict[bytes, bool] = {}  # whether the output may go on with this at the start of a line
        self._kept: dict[tuple[bool, bytes], TokenSet] = {}

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        """As text: which cut into tokens the target prefers, a draft of the right text knows as well."""
        state = self._state_after(output_ids)
        if state.is_lost or state.is_over or self._encode is None:
            return draft_ids
        first, last = self._units_from(state.line)
        rest = b""  # how every line that may come here goes on
        if state.is_opening:
            rest = self._before[len(state.line) :]
        elif first < last:
            rest = self._units[first][len(state.line) : _n_common(self._units[first], self._units[last - 1])]
        drafted = b"".join(self._vocabulary.piece(token) for token in draft_ids[: len(rest)])
        if not rest or (drafted and (drafted.startswith(rest) or rest.startswith(drafted))):
            return draft_ids
        return self._encode(rest.decode(errors="ignore"))[:limit]

    def _advance(self, state: TextState, token: int) -> None:
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
        """Leave the lines behind that are complete; what begins no line is lost.

        A line end that could begin `after` too is taken for an empty line where the sources have one: the rest of
        `after` may follow either way.
        """
        while True:
            line, end, rest = state.line.partition(b"\n")
            if not end or line + end not in self._lines:
                break
            state.line = rest
        first, last = self._units_from(state.line)
        state.is_lost = bool(state.line) and first == last

    def _allowed(self, state: TextState) -> TokenSet | None:
        if state.is_lost:
            return None
        if state.is_over:
            return np.array([self._end_id], dtype=np.int64)
        place = (state.is_opening, state.line)
        if place not in self._kept:
            self._kept[place] = np.array(sorted(self._following(*place)), dtype=np.int64)
        return self._kept[place]

    def _following(self, is_opening: bool, line: bytes) -> set[int]:
        vocabulary = self._vocabulary
        found = {self._end_id} if line in self._ends and not is_opening else set()
        known = b""  # the rest of the unit before, whose beginnings have been looked up
        first, last = self._units_from(line)
        for unit in [self._before] if is_opening else self._units[first:last]:
            rest = unit[len(line) :]
            for size in range(_n_common(known, rest) + 1, min(len(rest), vocabulary.longest) + 1):
                found.update(vocabulary.ids(rest[:size]))
            if is_opening or unit in self._lines:
                for piece, ids in vocabulary.longer(rest):
                    start = piece[len(rest) :]
                    if start not in self._starts:
                        state = TextState(start)
                        self._end_lines(state)
                        self._starts[start] = not state.is_lost
                    if self._starts[start]:
                        found.update(ids)
            known = rest
        return found

    def _units_from(self, line: bytes) -> tuple[int, int]:
        """The range of the units that begin so."""
        return bisect_left(self._units, line), bisect_left(self._units, line + NO_TEXT)


def _n_common(one: bytes, other: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
