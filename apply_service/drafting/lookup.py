"""Drafts looked up in what was written: where the last tokens occurred before, in prompt or output, go on as it did
there.

`prompt_lookup` looks for n-grams with numpy; `suffix` for the longest suffix of whatever length, with an automaton.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from apply_service.drafting.acceptance import Counts, LearningDrafter, worthwhile_length
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, TokenIds

Positions = npt.NDArray[np.int64]
MAX_MATCH = 32
"""Tokens that are compared; the longest kind of match of a suffix."""
MAX_NGRAM = 8
"""Tokens of an n-gram; the same place after so many is settled by which is nearest."""
LEAST_CHANCE = 0.005
"""A draft ends where its next token is reached and accepted with less than this probability."""
NGRAM_PRIORS = {"1": (2.0, 2.0), "2": (5.0, 1.0), "4": (8.0, 1.0), "8": (20.0, 1.0)}
"""By the length of the n-gram, rounded down to a power of two; means measured on mined edits (docs/log.md)."""
SEVERAL = {"1": (0.4, 1.0), "2": (2.4, 1.6), "4": (2.8, 1.2), "8": (6.0, 1.0), "16": (12.0, 1.0), "32": (30.0, 1.0)}
SOLE = {"1": (2.0, 1.3), "2": (6.5, 1.0), "4": (9.0, 1.0), "8": (14.0, 1.0), "16": (30.0, 1.0), "32": (50.0, 1.0)}
SUFFIX_PRIORS = SEVERAL | {f"{length} sole": counts for length, counts in SOLE.items()}
"""As above, and by whether one token alone has followed the match so far."""


def agreement(ids: TokenIds, places: Positions, tail: Sequence[int], longest: int = MAX_MATCH) -> Positions:
    """For every place of `tail[-1]` in `ids`: how many tokens up to it (it included) agree with `tail`, at most
    `longest`.  Narrows the places token by token; no loop over `ids`."""
    lengths = np.ones(len(places), dtype=np.int64)
    rows = np.arange(len(places))
    for back in range(1, min(len(tail), longest)):
        agrees = places >= back
        agrees[agrees] = ids[places[agrees] - back] == tail[-1 - back]
        places, rows = places[agrees], rows[agrees]
        if not len(rows):
            break
        lengths[rows] += 1
    return lengths


class LookupDrafter(LearningDrafter):
    """Base of drafters that go on as the text did from an earlier place on."""

    def __init__(self, priors: dict[str, Counts], context: DraftContext) -> None:
        super().__init__(priors)
        self._n_prompt = len(context.prompt_ids)
        self._known = list(context.prompt_ids)

    def draft_from(self, start: int, match_length: int, limit: int, note: str = "") -> Draft:
        """What was written from `start` on, over and over where it ends: so a run goes on past what there is of it.
        The kind is the length of the match rounded down to a power of two, and `note`."""
        kind = f"{1 << (match_length.bit_length() - 1)}{note}"
        n_tokens = worthwhile_length(self.expected(kind), LEAST_CHANCE, limit)
        piece = self._known[start : start + n_tokens]
        ids = (piece * -(-n_tokens // len(piece)))[:n_tokens] if piece else []
        return self.draft(ids, kind, "prompt" if start < self._n_prompt else "output")


class PromptLookup(LookupDrafter):
    """By n-gram, the longest first; of its places the nearest one after the place that the last draft was copied from,
    as copying goes forward, else the last one."""

    def __init__(self, context: DraftContext) -> None:
        super().__init__(NGRAM_PRIORS, context)
        self._ids = np.zeros(self._n_prompt + max(64, context.max_new_tokens), dtype=np.int64)
        self._ids[: self._n_prompt] = self._known
        self._pointer = 0

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        n_read = len(self._known)
        self._known += output_ids[n_read - self._n_prompt :]
        if len(self._known) > len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros(len(self._known), dtype=np.int64)])
        self._ids[n_read : len(self._known)] = self._known[n_read:]
        known, tail = self._ids[: len(self._known)], self._known[-MAX_NGRAM:]
        places = np.flatnonzero(known[:-1] == tail[-1]) if tail else np.zeros(0, np.int64)
        if limit <= 0 or not len(places):
            return EMPTY_DRAFT
        lengths = agreement(known, places, tail, MAX_NGRAM)
        starts = places[lengths == lengths.max()] + 1
        ahead = starts[starts >= self._pointer]
        self._pointer = int(ahead[0] if len(ahead) else starts[-1])
        return self.draft_from(self._pointer, int(lengths.max()), limit)

    def observe(self, n_accepted: int, next_id: int) -> None:
        self._pointer += n_accepted + 1
        super().observe(n_accepted, next_id)


class Suffix(LookupDrafter):
    """By the longest suffix.  The prompt is read at the first `propose`.

    After SuffixDecoding's idea (Oliaro et al. 2024) that the length of a match and the counts of what followed it tell
    how much to draft, for a single request: one automaton instead of trees, built as the text grows.
    """

    def __init__(self, context: DraftContext) -> None:
        super().__init__(SUFFIX_PRIORS, context)
        self._automaton = SuffixAutomaton()

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._known += output_ids[len(self._known) - self._n_prompt :]
        self._automaton.extend(self._known[self._automaton.n_tokens :])
        length, end, n_next = self._automaton.longest_repeat()
        if limit <= 0 or not length:
            return EMPTY_DRAFT
        return self.draft_from(end, min(length, MAX_MATCH), limit, " sole" if n_next == 1 else "")


class SuffixAutomaton:
    """After every token, the longest suffix of the text that occurred before.  Grows with its text; never rebuilt.

    The construction is Blumer et al. (1985): each token adds one state, at times a copy of another, and moves links;
    over a text of n tokens that is O(n) in all.  Our addition: every state remembers where its string was last seen as
    the longest repeated suffix, so that the copied place is a recent one, at O(1) a token.
    """

    def __init__(self) -> None:
        self.n_tokens = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = array("q", [-1])
        self._length = array("q", [0])
        self._end = array("q", [0])
        self._last = self._repeated = self._repeated_end = 0

    def longest_repeat(self) -> tuple[int, int, int]:
        """Of the longest suffix that occurred before: its length in tokens (0 where the last token is new), the place
        right after that earlier occurrence, and how many different tokens have followed its occurrences."""
        return self._length[self._repeated], self._repeated_end, len(self._next[self._repeated])

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens; amortised O(1) each."""
        nexts, link = self._next, self._link
        for token in tokens:
            self.n_tokens += 1
            new = self._add_state(self.n_tokens, {}, 0, self.n_tokens)
            state, self._last = self._last, new
            while state >= 0 and token not in nexts[state]:
                nexts[state][token] = new
                state = link[state]
            if state >= 0:
                target = link[new] = nexts[state][token]
                length = self._length[state] + 1
                if length != self._length[target]:
                    # The shorter strings of `target` now occur in one place more: they get a state of their own.
                    copy = self._add_state(length, dict(nexts[target]), link[target], self._end[target])
                    while state >= 0 and nexts[state].get(token) == target:
                        nexts[state][token] = copy
                        state = link[state]
                    link[new] = link[target] = copy
            self._repeated = link[new]
            self._repeated_end = self._end[self._repeated]
            self._end[self._repeated] = self.n_tokens

    def _add_state(self, length: int, nexts: dict[int, int], link: int, end: int) -> int:
        self._next.append(nexts)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1
