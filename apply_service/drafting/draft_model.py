"""Drafts by a smaller model with the target's tokenizer: it writes greedily what it expects, in a session of its own.

Its cache holds the prompt, the output as far as it has read it, and its own last draft; a rejected draft is forgotten
by rewinding.  The session is opened and the prompt read at the first `propose`, so that in a chain nothing is spent on
it while the other drafter knows its way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apply_service.drafting.acceptance import Acceptance, Counts, worthwhile_length
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
    Verification,
    Window,
)

MAX_DRAFTED = 16
"""Each token costs a pass of the draft model."""
LEAST_CHANCE = 0.3
"""A draft ends where its next token is reached and accepted with less than this probability."""
PRIOR = Counts(4.0, 1.0)
GREEDY = SamplingParams()
KIND = "draft_model"


class DraftModel:
    """The second drafter of a chain, or a drafter of its own.

    Where the draft model has no room for the sequence, now or ever, it drafts nothing: the answer is the same, later.
    """

    def __init__(self, context: DraftContext) -> None:
        assert context.open_draft_engine is not None, "a name that needs a draft model is refused where there is none"
        self._context = context
        self._model = context.open_draft_engine()
        self._acceptance = Acceptance({KIND: PRIOR})
        self._reader: Reader | None = None
        self._is_closed = False
        self._drafted: list[int] = []

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._drafted = []
        acceptance = self._acceptance.expected(KIND)
        n_tokens = worthwhile_length(acceptance, LEAST_CHANCE, min(limit, MAX_DRAFTED))
        if limit <= 0 or not self._is_open():
            return EMPTY_DRAFT
        assert self._reader is not None
        # However badly it fares, one token is tried, or it would never be tried again.
        self._drafted = self._reader.write_after(output_ids, max(1, n_tokens))
        return Draft(self._drafted, acceptance, KIND)

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Learns how its drafts fare; the cache is set right at the next `propose`."""
        is_rejected = n_accepted < len(self._drafted) and self._drafted[n_accepted] != next_id
        if self._drafted:
            self._acceptance.learn(KIND, n_accepted=n_accepted, is_rejected=is_rejected)

    def close(self) -> None:
        """Free the session; nothing is drafted from now on."""
        self._is_closed = True
        if self._reader is not None:
            self._reader.session.close()
            self._reader = None

    def _is_open(self) -> bool:
        """Whether there is a session; opens one where there may be."""
        if self._reader is None and not self._is_closed:
            self._open()
        return self._reader is not None

    def _open(self) -> None:
        context, engine = self._context, self._model.engine
        try:
            session = engine.open(context.prompt_ids, context.max_new_tokens + MAX_DRAFTED)
        except ContextLimitExceeded:
            self._is_closed = True  # the target's context is the longer one
            return
        self._reader = None if session is None else Reader(self._model, session, context.prompt_ids[-1])


class Reader:
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
            choice = _choice(self._engine.step([Window(self.session, ids[0], ids[1:], GREEDY, allowed)]))
            self._cached += ids
        return choice


def _choice(answers: Sequence[Verification | None]) -> int:
    """The last choice of the one window in a pass."""
    (answer,) = answers
    assert answer is not None
    return answer.choices[-1]
