"""Drafts from the target's own guesses, kept as n-grams of earlier passes.

A pass over a rejected draft is not lost, because the target has also chosen a token after each rejected one.  These
choices are guesses, and are often right some tokens later.  Each pass adds them to a table of n-grams, and the next
draft is read from that table.  This is lookahead decoding (Fu et al. 2024) without its second branch: our window is one
chain, and the window's tail does the Jacobi iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.drafting.drafter import Counts, LearningDrafter
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, Verification

LONGEST = 3
"""The next token is looked up by at most this many tokens before it."""
N_DRAFTED = 12
"""A draft has at most this many tokens.  The target's new guesses after rejected tokens become n-grams for the next
pass."""
KIND = "lookahead"
PRIORS: dict[str, Counts] = {f"{KIND} {n}": (float(n), 2.0) for n in range(LONGEST + 1)}
"""The priors, by how many tokens matched when the draft's first token was looked up.  With 0, the draft is a mere
guess."""


class Lookahead(LearningDrafter):
    """Chains n-grams of this output and of the target's guesses.

    If no n-gram fits, it drafts the last pass's guess, then the prompt's last tokens.  These tokens need not be right,
    because the target's choices after them are new guesses.
    """

    def __init__(self, context: DraftContext) -> None:
        super().__init__(context, PRIORS)
        self._next: dict[tuple[int, ...], int] = {}
        """The last token of each n-gram, by the tokens before it."""
        self._before = list(context.prompt_ids[-LONGEST:])
        self._start = list(context.prompt_ids[-N_DRAFTED:])
        self._fed: list[int] = []
        self._guess: Sequence[int] = ()
        self._n_seen = 0

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        for token in output_ids[self._n_seen :]:
            self._add(self._before, token)
            self._before = [*self._before, token][-LONGEST:]
        self._n_seen = len(output_ids)
        if limit <= 0:
            return EMPTY_DRAFT
        n_known, _ = self._follow(self._before)
        self._fed = []
        for guess in [*self._guess, *self._start][: min(limit, N_DRAFTED)]:
            n_agreed, token = self._follow([*self._before, *self._fed])
            self._fed.append(token if n_agreed else guess)
        return self.draft(self._fed, f"{KIND} {n_known}", KIND)

    def observe(self, verification: Verification) -> None:
        """Add what the target would choose after each rejected token of the draft, if that token were right."""
        choices = [*verification.choices, *verification.beyond]
        text = [*self._before, *self._fed]
        for i in range(verification.n_accepted + 1, len(choices)):
            self._add(text[: len(self._before) + i], choices[i])
        self._guess = verification.beyond
        super().observe(verification)

    def _add(self, text: Sequence[int], token: int) -> None:
        for n in range(1, min(LONGEST, len(text)) + 1):
            self._next[tuple(text[-n:])] = token

    def _follow(self, text: Sequence[int]) -> tuple[int, int]:
        """Return the length of the text's longest known suffix, and the token that followed it; (0, -1) if no suffix is
        known."""
        for n in range(min(LONGEST, len(text)), 0, -1):
            if (token := self._next.get(tuple(text[-n:]))) is not None:
                return n, token
        return 0, -1
