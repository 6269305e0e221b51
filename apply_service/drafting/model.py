"""Drafts with a smaller model that has the target's tokenizer.  The model writes in a session of its own.

The model chooses as the target does.  If the target samples, the model samples with the same noise, which depends only
on seed, position and token.  The model's cache holds the prompt, the part of the output that it has read, and its own
last draft.  A rejected draft is forgotten by rewinding.  The first `propose` opens the session and reads the prompt, so
a chain spends nothing on the model as long as its other drafters are sure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from apply_service.drafting.drafter import DRAFT_MODEL
from apply_service.drafting.written import WritingDrafter
from apply_service.errors import ContextLimitExceeded
from apply_service.protocols import DraftContext, Prefill, Session, TokenSet, Window

MAX_DRAFTED = 16
"""A draft has at most this many tokens, because each costs a pass of the draft model."""
LEAST_CHANCE = 0.3
"""A draft ends before a token that would be reached and accepted with less than this probability."""


class DraftModel(WritingDrafter):
    """Drafts what the draft model writes.

    If that model has no room for the sequence, nothing is drafted: the answer stays the same, but comes later.
    """

    def __init__(self, context: DraftContext) -> None:
        super().__init__(context, DRAFT_MODEL, most=MAX_DRAFTED, least=LEAST_CHANCE)
        assert context.open_draft_engine is not None, "a name that needs a draft model is refused where there is none"
        self._context = context
        self._model = context.open_draft_engine()
        self._session: Session | None = None
        self._is_closed = False
        self._cached: list[int] = []
        """The cached tokens from the prompt's last token on.  The first `_n_settled` belong to the prompt and the
        output."""
        self._n_settled = 0

    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        if self._session is None and not self._is_closed:
            context = self._context
            try:
                self._session = self._model.engine.open(context.prompt_ids, context.max_new_tokens + MAX_DRAFTED)
            except ContextLimitExceeded:
                self._is_closed = True  # the model's context is shorter than the target's
        if self._session is None:
            return
        session, engine = self._session, self._model.engine
        longest = max(engine.pass_times) // engine.prefill_grain * engine.prefill_grain
        while session.n_pending:
            engine.step([Prefill(session, min(longest, session.n_pending))])
        # Forget cached tokens that the output lacks.  Then read the tokens that the cache lacks, at least the last
        # token.
        written = [self._context.prompt_ids[-1], *output_ids]
        n_kept = self._n_settled
        while n_kept < min(len(self._cached), len(written) - 1) and self._cached[n_kept] == written[n_kept]:
            n_kept += 1
        session.rewind(len(self._cached) - n_kept)
        del self._cached[n_kept:]
        self._n_settled = n_kept
        unread = written[n_kept:]
        for _ in range(n_tokens):
            if max(unread) >= self._model.n_vocab:
                return  # one of the two models lacks the ids beyond their shared vocabulary
            unread = [self._read(session, unread)]
            if unread[0] < self._model.n_vocab:
                yield unread[0]

    def close(self) -> None:
        """Free the session.  Nothing is drafted afterwards."""
        self._is_closed = True
        if self._session is not None:
            self._session.close()
            self._session = None

    def _read(self, session: Session, token_ids: Sequence[int]) -> int:
        """Read `token_ids` into the cache, and return the model's choice after the last one.

        The tokens are sent as drafts in windows, and a mask for each token forces the model to choose it.
        """
        n_window = self._model.engine.max_draft + 1
        choice = -1
        for start in range(0, len(token_ids), n_window):
            ids = token_ids[start : start + n_window]
            forced = [np.array([token], dtype=np.int64) for token in token_ids[start + 1 : start + 1 + n_window]]
            allowed: list[TokenSet | None] = [*forced, None][: len(ids)]
            (answer,) = self._model.engine.step([Window(session, ids[0], ids[1:], self._context.sampling, allowed)])
            assert answer is not None
            choice = answer.choices[-1]
            self._cached += ids
        return choice
