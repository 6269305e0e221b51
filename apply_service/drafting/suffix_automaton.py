"""An online suffix automaton: after every token, the longest suffix of the text that occurred before, however long.

The construction is Blumer et al. (1985): each token adds one state, at times a copy of another, and moves links; over a
text of n tokens that is O(n) in all.  Our addition: every state remembers where its string was last seen as the longest
repeated suffix, so that the copied place is a recent one, at O(1) a token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

ROOT = 0


class Repeat(NamedTuple):
    """The text's longest suffix that occurred before.

    `length` in tokens, 0 where the last token is new; `end`: the place right after that earlier occurrence; `n_next`:
    how many different tokens have followed its occurrences.
    """

    length: int
    end: int
    n_next: int


class SuffixAutomaton:
    """Grows with its text; never rebuilt."""

    def __init__(self) -> None:
        self.n_tokens = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = array("q", [-1])
        self._length = array("q", [0])
        self._end = array("q", [0])
        self._last = ROOT
        self._repeated = ROOT
        self._repeated_end = 0

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens; amortised O(1) each."""
        for token in tokens:
            self._append(token)
            self._repeated = self._link[self._last]
            self._repeated_end = self._end[self._repeated]
            self._end[self._repeated] = self.n_tokens

    @property
    def repeat(self) -> Repeat:
        """As of the last token."""
        state = self._repeated
        return Repeat(self._length[state], self._repeated_end, len(self._next[state]))

    def _append(self, token: int) -> None:
        self.n_tokens += 1
        new = self._add_state(self.n_tokens, {}, ROOT, self.n_tokens)
        nexts, link = self._next, self._link
        state, self._last = self._last, new
        while state >= 0 and token not in nexts[state]:
            nexts[state][token] = new
            state = link[state]
        if state < 0:
            return
        target = nexts[state][token]
        link[new] = target if self._length[state] + 1 == self._length[target] else self._split(state, token, target)

    def _split(self, state: int, token: int, target: int) -> int:
        """A copy of `target` for its shorter strings, which now occur in one place more."""
        nexts, link = self._next, self._link
        copy = self._add_state(self._length[state] + 1, dict(nexts[target]), link[target], self._end[target])
        while state >= 0 and nexts[state].get(token) == target:
            nexts[state][token] = copy
            state = link[state]
        link[target] = copy
        return copy

    def _add_state(self, length: int, nexts: dict[int, int], link: int, end: int) -> int:
        self._next.append(nexts)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1
