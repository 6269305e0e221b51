"""Drafts by a smaller model with the target's tokenizer: it writes greedily what it expects, in a session of its own.

Its cache holds the prompt, the output as far as it has read it, and its own last draft; a rejected draft is forgotten
by rewinding.  The session is opened and the prompt read at the first `propose`, so that in a chain nothing is spent on
it while the other drafter knows its way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apply_service.drafting.acceptance import Counts, LearningDrafter, worthwhile_length
from apply_service.errors import ContextLimitExceeded
from apply_service.protocols import (
    EMPTY_DRAFT,
    Draft,
    DraftContext,
    DraftEngine,
    Prefill,
    SamplingParams,
    Session,
    TokenSet,
    Window,
)

MAX_DRAFTED = 16
"""Each token costs a pass of the draft model."""
LEAST_CHANCE = 0.3
"""A draft ends where its next token is reached and accepted with less than this probability."""
PRIOR = Counts(4.0, 1.0)
GREEDY = SamplingParams()
KIND = "draft_model"


class DraftModel(LearningDrafter):
    """The second drafter of a chain, or a drafter of its own.

    Where the draft model has no room for the sequence, now or ever, it drafts nothing: the answer is the same, later.
    """

    def __init__(self, context: DraftContext) -> None:
        super().__init__({KIND: PRIOR})
        assert context.open_draft_engine is not None, "a name that needs a draft model is refused where there is none"
        self._context = context
        self._model = context.open_draft_engine()
        self._writer: Writer | None = None
        self._is_closed = False

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        if self._writer is None and limit > 0 and not self._is_closed:
            self._open()
        if limit <= 0 or self._writer is None:
            return EMPTY_DRAFT
        n_tokens = worthwhile_length(self.acceptance.expected(KIND), LEAST_CHANCE, min(limit, MAX_DRAFTED))
        # However badly it fares, one token is tried, or it would never be tried again.
        return self.draft(self._writer.write_after(output_ids, max(1, n_tokens)), KIND, KIND)

    def close(self) -> None:
        """Free the session; nothing is drafted from now on."""
        self._is_closed = True
        if self._writer is not None:
            self._writer.session.close()
            self._writer = None

    def _open(self) -> None:
        context = self._context
        try:
            session = self._model.engine.open(context.prompt_ids, context.max_new_tokens + MAX_DRAFTED)
        except ContextLimitExceeded:
            self._is_closed = True  # the target's context is the longer one
            return
        self._writer = None if session is None else Writer(self._model, session, context.prompt_ids[-1])


class Writer:
    """The draft model's session, kept in step with the output."""

    def __init__(self, model: DraftEngine, session: Session, last_prompt_id: int) -> None:
        self.session = session
        self._engine, self._n_vocab = model.engine, model.n_vocab
        self._last_prompt_id = last_prompt_id
        self._cached: list[int] = []
        """What the cache holds from the prompt's last token on."""
        self._n_sure = 0
        """So many of them are the output's, and will not be taken back."""

    def write_after(self, output_ids: Sequence[int], n_tokens: int) -> list[int]:
        """The model's own next tokens after the output, `n_tokens` unless it leaves the common vocabulary."""
        self._prefill()
        drafted: list[int] = []
        unread = self._unread(output_ids)
        while len(drafted) < n_tokens and max(unread) < self._n_vocab:
            drafted.append(self._read(unread))
            unread = drafted[-1:]
        return drafted if max(unread) < self._n_vocab else drafted[:-1]

    def _prefill(self) -> None:
        """Read the prompt but for its last token, in passes as long as may be."""
        grain = self._engine.prefill_grain
        most = max(self._engine.pass_times) // grain * grain
        while self.session.n_pending:
            self._engine.step([Prefill(self.session, min(most, self.session.n_pending))])

    def _unread(self, output_ids: Sequence[int]) -> list[int]:
        """Forget what the cache holds beyond the output; the tokens that it lacks, the last one always among them."""
        written = [self._last_prompt_id, *output_ids]
        n_kept = self._n_sure
        while n_kept < min(len(self._cached), len(written) - 1) and self._cached[n_kept] == written[n_kept]:
            n_kept += 1
        self.session.rewind(len(self._cached) - n_kept)
        del self._cached[n_kept:]
        self._n_sure = n_kept
        return written[n_kept:]

    def _read(self, token_ids: Sequence[int]) -> int:
        """Take `token_ids` into the cache, in windows whose choices are forced to them; the model's choice after the
        last."""
        n_window = self._engine.max_draft + 1
        choice = -1
        for start in range(0, len(token_ids), n_window):
            ids = token_ids[start : start + n_window]
            forced = [np.array([token], dtype=np.int64) for token in token_ids[start + 1 : start + 1 + n_window]]
            allowed: list[TokenSet | None] = [*forced, None][: len(ids)]
            (answer,) = self._engine.step([Window(self.session, ids[0], ids[1:], GREEDY, allowed)])
            assert answer is not None
            choice = answer.choices[-1]
            self._cached += ids
        return choice
