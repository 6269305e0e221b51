"""The compact format's constraint: every line of the output is a line of the original or of the update.

A grammar over (sources, output so far): at a line's start the operations that the pointers allow, inside a line its own
tokens.  It guarantees that nothing is invented and that no line of the original is lost without a `drop`.  Linear in
the output; no work the size of the vocabulary or of the file at any token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apply_service.prompts.compact_lines import N_PHASES, LineVocabulary
from apply_service.prompts.walked_constraint import WalkedConstraint
from apply_service.protocols import TokenSet

LOOK_AHEAD = 48
"""Update lines that a single `take` can pass over; below N_PHASES, so that a phase names one line."""


@dataclass(slots=True)
class _State:
    """Where the output stands: the next line of either source, and what is left of the line being written."""

    original_at: int = 0
    update_at: int = 0
    line: Sequence[int] = ()
    line_at: int = 0
    is_over: bool = False
    is_lost: bool = False


class LineConstraint(WalkedConstraint[_State]):
    """One object a request.  `matches` maps original lines to the update lines that a prediction pairs them with."""

    def __init__(
        self,
        vocabulary: LineVocabulary,
        original: Sequence[str],
        update: Sequence[str],
        matches: Mapping[int, int],
    ) -> None:
        super().__init__(_State())
        self._vocabulary = vocabulary
        self._original = [ids.tolist() for ids in vocabulary.encode_lines(original)]
        self._update = [ids.tolist() for ids in vocabulary.encode_lines(update)]
        self._original_text = [line.strip() for line in original]
        self._update_text = [line.strip() for line in update]
        self._matches = matches
        self._choices: dict[tuple[int, int], TokenSet] = {}

    def _allowed(self, state: _State) -> TokenSet | None:
        if state.is_lost:
            return None
        if state.line_at < len(state.line):
            return self._vocabulary.singles[state.line[state.line_at]]
        if state.is_over:
            return self._vocabulary.singles[self._vocabulary.end]
        place = (state.original_at, state.update_at)
        if place not in self._choices:
            self._choices[place] = self._operations(*place)
        return self._choices[place]

    def _only(self, state: _State) -> int | None:
        return None if state.is_over else super()._only(state)

    def _operations(self, original_at: int, update_at: int) -> TokenSet:
        tag = self._vocabulary.tag
        last = min(update_at + LOOK_AHEAD, len(self._update))
        tags = [tag("take", line) for line in range(update_at, last)]
        if original_at < len(self._original):
            tags += [tag("keep", original_at), tag("both", original_at), tag("drop", original_at)]
        else:
            tags.append(self._vocabulary.end)
        return np.array(sorted(tags), dtype=np.int64)

    def _advance(self, state: _State, token: int) -> None:
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

    def _begin_line(self, state: _State, tag: int) -> None:
        kind, phase = self._vocabulary.kind_of(tag), self._vocabulary.phase_of(tag)
        state.line_at = 0
        if kind == "take":
            at = state.update_at + (phase - state.update_at) % N_PHASES
            state.is_lost = at >= min(state.update_at + LOOK_AHEAD, len(self._update))
            if not state.is_lost:
                state.line, state.update_at = self._update[at], at + 1
            return
        at = state.original_at
        state.is_lost = at >= len(self._original) or phase != at % N_PHASES
        if state.is_lost:
            return
        state.line, state.original_at = self._original[at], at + 1
        if kind == "both":
            state.update_at = self._after_match(at, state.update_at)

    def _after_match(self, original_line: int, update_at: int) -> int:
        """The update's pointer once its copy of an original line is passed; unmoved where it can't be told."""
        match = self._matches.get(original_line, -1)
        if match >= update_at:
            return match + 1
        text = self._original_text[original_line]
        for line in range(update_at, min(update_at + LOOK_AHEAD, len(self._update))):
            if self._update_text[line] == text:
                return line + 1
        return update_at
