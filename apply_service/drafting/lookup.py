"""Drafts what followed the last tokens where they occurred before: in the output, the prompt, or earlier outputs for
the same file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from apply_service.drafting.drafter import Counts, LearningDrafter, worthwhile_length
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, TokenIds, Verification

Positions = npt.NDArray[np.int64]
MAX_MATCH = 32
"""At most this many tokens of a match are compared."""
LEAST_CHANCE = 0.005
"""A draft ends before a token that would be reached and accepted with less than this probability."""
NGRAM_PRIORS = {"1": (2.0, 2.0), "2": (5.0, 1.0), "4": (8.0, 1.0), "8": (20.0, 1.0)}
"""The priors by the length of the match, rounded down to a power of two.  The means were measured on edits mined from
commits (docs/log.md)."""
SEVERAL = {"1": (0.4, 1.0), "2": (2.4, 1.6), "4": (2.8, 1.2), "8": (6.0, 1.0), "16": (12.0, 1.0), "32": (30.0, 1.0)}
SOLE = {"1": (2.0, 1.3), "2": (6.5, 1.0), "4": (9.0, 1.0), "8": (14.0, 1.0), "16": (30.0, 1.0), "32": (50.0, 1.0)}
SUFFIX_PRIORS = SEVERAL | {f"{length} sole": counts for length, counts in SOLE.items()}
"""The priors by the length of the match, and by whether the same token has followed it everywhere ("sole")."""


def agreement(ids: TokenIds, places: Positions, tail: Sequence[int], longest: int = MAX_MATCH) -> Positions:
    """Return, for each place, how many tokens up to and including that place agree with `tail`, at most `longest`.

    `places` [n_places]: every place of `tail[-1]` in `ids`.  The places are narrowed token by token, without a loop
    over `ids`.
    """
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
    """Base class of drafters that continue from an earlier place of the text's longest suffix.

    The suffix has at most `longest` tokens.
    """

    longest: int
    priors: dict[str, Counts]

    def __init__(self, context: DraftContext) -> None:
        super().__init__(context, self.priors)
        before = [*chain.from_iterable(context.earlier), *context.prompt_ids]
        self._n_earlier, self._n_before = len(before) - len(context.prompt_ids), len(before)
        self._n_known = self._n_before
        self._ids = np.zeros(self._n_before + max(64, context.max_new_tokens), dtype=np.int64)
        self._ids[: self._n_before] = before

    def choose(self, starts: Positions) -> tuple[int, str]:
        """Return the place to continue from, and a note that is added to the kind of draft.

        `starts`: the possible places, in rising order, each right after a match.
        """
        raise NotImplementedError

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        """Return the tokens from the chosen place on.  If the text ends before the draft is full, the tokens repeat, so
        a run can grow."""
        new = output_ids[self._n_known - self._n_before :]
        self._n_known += len(new)
        if self._n_known > len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros(self._n_known, dtype=np.int64)])
        self._ids[self._n_known - len(new) : self._n_known] = new
        known = self._ids[: self._n_known]
        places = np.flatnonzero(known[:-1] == known[-1]) if len(known) else np.zeros(0, np.int64)
        if limit <= 0 or not len(places):
            return EMPTY_DRAFT
        lengths = agreement(known, places, known[-self.longest :].tolist(), self.longest)
        length = int(lengths.max())
        start, note = self.choose(places[lengths == length] + 1)
        kind = f"{1 << (length.bit_length() - 1)}{note}"
        n_tokens = worthwhile_length(self.expected(kind), LEAST_CHANCE, limit)
        ids = np.resize(known[start : start + n_tokens], n_tokens).tolist()
        place = "earlier" if start < self._n_earlier else "prompt" if start < self._n_before else "output"
        return self.draft(ids, kind, place)


class PromptLookup(LookupDrafter):
    """Looks up an n-gram.

    Copying goes forward, so the draft continues from the first match after the text copied last, or else from the last
    match.
    """

    longest = 8
    priors = NGRAM_PRIORS

    def __init__(self, context: DraftContext) -> None:
        super().__init__(context)
        self._pointer = self._n_earlier

    def choose(self, starts: Positions) -> tuple[int, str]:
        ahead = starts[starts >= self._pointer]
        self._pointer = int(ahead[0] if len(ahead) else starts[-1])
        return self._pointer, ""

    def observe(self, verification: Verification) -> None:
        self._pointer += verification.n_accepted + 1
        super().observe(verification)


class Suffix(LookupDrafter):
    """Looks up a suffix, and continues from the last place where it occurred.

    As in SuffixDecoding (Oliaro et al. 2024), the length of the draft depends on the length of the match and on the
    tokens that have followed it.  Unlike SuffixDecoding, this drafter has no tree of all requests: it looks into this
    request and the file's earlier outputs.
    """

    longest = MAX_MATCH
    priors = SUFFIX_PRIORS

    def choose(self, starts: Positions) -> tuple[int, str]:
        is_sole = bool((self._ids[starts] == self._ids[starts[0]]).all())
        return int(starts[-1]), " sole" if is_sole else ""
