"""`constrain: sources` for any format that writes the plain file: every line of the output is a line of a source.

A constraint on text: where the output stands in a line is a string of bytes, and a token is allowed where these bytes
and its own begin a line of the sources, or end one and begin others.  How the text is cut into tokens is the target's
choice.  What is allowed at a place costs as many look-ups as the lines that may follow have bytes, and is kept; nothing
is done for every entry of the vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from apply_service.prompts.vocabulary_bytes import VocabularyBytes
from apply_service.prompts.walked_constraint import WalkedConstraint
from apply_service.protocols import EditJob, TokenSet

LINE_END = b"\n"
NO_TEXT = b"\xff"
"""A byte that no text has: whatever begins with `x` sorts before `x` and it."""


def source_lines(job: EditJob) -> list[str]:
    """The lines that an output may have: those of the original, and those of the update as the merger reads it that
    are part of the output (no markers, fences, hints)."""
    update = [op.text for op in job.prediction.ops if op.update_line is not None and op.kind != "drop"]
    return [*_lines(job.original), *update]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


@dataclass(slots=True)
class _State:
    """What was written since the last line end.  `is_opening`: the opening is not complete yet."""

    line: bytes = b""
    is_opening: bool = False
    is_over: bool = False
    is_lost: bool = False


class SourceConstraint(WalkedConstraint[_State]):
    """One object a request.

    The output is `before`, some of `lines` (given without line ends), `after`, then `end_id`.  The last line may lack
    its line end; one that `after` begins with may be that of the line before it.  `encode` writes text as the target
    would, so that text can be drafted where no other may follow; without it drafts stay as they are.
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
        super().__init__(_State(is_opening=bool(before)))
        self._vocabulary = vocabulary
        self._end_id = end_id
        self._encode = encode
        self._before, closing = before.encode(), after.encode()
        known = {line.encode() for line in lines}
        ends = {closing, closing.removeprefix(LINE_END)}
        self._ends = frozenset(ends if closing.startswith(LINE_END) else ends | {line + closing for line in known})
        self._lines = frozenset(line + LINE_END for line in known)
        self._units = sorted((self._lines | self._ends) - {b""})
        self._at_start: dict[bytes, bool] = {}
        self._kept: dict[tuple[bool, bytes], TokenSet] = {}

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        """As text: which cut into tokens the target prefers, a draft of the right text knows as well."""
        rest = self._only_rest(self._state_after(output_ids))
        if not rest or self._encode is None:
            return draft_ids
        drafted = b"".join(self._vocabulary.piece(token) for token in draft_ids[: len(rest)])
        if drafted and (drafted.startswith(rest) or rest.startswith(drafted)):
            return draft_ids
        return self._encode(rest.decode(errors="ignore"))[:limit]

    def _only_rest(self, state: _State) -> bytes:
        """How every line that may stand here goes on; empty where they part at once."""
        if state.is_lost or state.is_over:
            return b""
        if state.is_opening:
            return self._before[len(state.line) :]
        first, last = (bisect_left(self._units, text) for text in (state.line, state.line + NO_TEXT))
        if first == last:
            return b""
        n_common = _n_common(self._units[first], self._units[last - 1])
        return self._units[first][len(state.line) : n_common]

    # -- where the output stands ---------------------------------------------------------------------------------------
    def _advance(self, state: _State, token: int) -> None:
        if state.is_lost or state.is_over:
            return
        if token == self._end_id:
            state.is_over, state.is_lost = True, state.is_opening or state.line not in self._ends
            return
        piece = self._vocabulary.piece(token)
        if not piece:
            state.is_lost = True
            return
        state.line += piece
        if state.is_opening:
            self._open(state)
        if not (state.is_lost or state.is_opening):
            self._end_lines(state)

    def _open(self, state: _State) -> None:
        if state.line.startswith(self._before):
            state.line, state.is_opening = state.line[len(self._before) :], False
        else:
            state.is_lost = not self._before.startswith(state.line)

    def _end_lines(self, state: _State) -> None:
        """Leave the lines behind that are complete; what begins no line is lost.

        A line end that could begin `after` too is taken for an empty line where the sources have one: the rest of
        `after` may follow either way.
        """
        while True:
            line, end, rest = state.line.partition(LINE_END)
            if not end or line + end not in self._lines:
                break
            state.line = rest
        state.is_lost = bool(state.line) and not self._begins_unit(state.line)

    def _begins_unit(self, text: bytes) -> bool:
        at = bisect_left(self._units, text)
        return at < len(self._units) and self._units[at].startswith(text)

    # -- what may come next --------------------------------------------------------------------------------------------
    def _allowed(self, state: _State) -> TokenSet | None:
        if state.is_lost:
            return None
        if state.is_over:
            return np.array([self._end_id], dtype=np.int64)
        place = (state.is_opening, state.line)
        if place not in self._kept:
            found = self._opening(state.line) if state.is_opening else self._following(state.line)
            self._kept[place] = np.array(sorted(found), dtype=np.int64)
        return self._kept[place]

    def _opening(self, written: bytes) -> set[int]:
        rest = self._before[len(written) :]
        found = self._prefixes(rest, 0)
        for piece, ids in self._vocabulary.longer(rest):
            if self._fits_at_start(piece[len(rest) :]):
                found.update(ids)
        return found

    def _following(self, line: bytes) -> set[int]:
        found = {self._end_id} if line in self._ends else set()
        before = b""
        for at in range(bisect_left(self._units, line), len(self._units)):
            unit = self._units[at]
            if not unit.startswith(line):
                break
            rest = unit[len(line) :]
            found |= self._prefixes(rest, _n_common(before, rest))
            found.update(self._straddling.get(rest, ()))
            before = rest
        return found

    def _prefixes(self, text: bytes, n_known: int) -> set[int]:
        """Ids of the pieces that `text` begins with, longer than `n_known` bytes."""
        longest = min(len(text), self._vocabulary.longest)
        return {token for n in range(n_known + 1, longest + 1) for token in self._vocabulary.ids(text[:n])}

    @cached_property
    def _straddling(self) -> dict[bytes, list[int]]:
        """What is left of a line -> ids that end it and go on with what may follow."""
        found: dict[bytes, list[int]] = defaultdict(list)
        for head, rests in self._vocabulary.straddling.items():
            ids = [token for rest, token in rests if self._fits_at_start(rest)]
            if ids:
                found[head] = ids
        return found

    def _fits_at_start(self, text: bytes) -> bool:
        """Whether the output may go on with this at the start of a line."""
        if text not in self._at_start:
            state = _State(text)
            self._end_lines(state)
            self._at_start[text] = not state.is_lost
        return self._at_start[text]


def _n_common(one: bytes, other: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
