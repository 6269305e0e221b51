"""Runs models with a recurrent state (also hybrids): one token a pass, through the library's own cache.

A recurrent state can't be rewound after a rejected draft, so nothing is drafted.  Each sequence has a forward of its
own, so other sequences can't change it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import torch

from apply_service.engine.sampling import WindowRows, choose, logprobs_of
from apply_service.engine.session import EngineSession, refuse_over_limit
from apply_service.protocols import Part, Session, Verification, Window

UNDRAFTED = "the model keeps a recurrent state, which can't be rewound after a rejected draft"
MAX_ACTIVE = 64


def is_recurrent(model: Any) -> bool:
    """Whether the library says that the model has another state than keys and values."""
    return bool(getattr(model, "_is_stateful", False))


class StepwiseSession(EngineSession):
    """One sequence and its cache in the library.  `done`: the last part that it ran, with the answer."""

    cache: Any = None
    done: tuple[Part, Verification | None] | None = None

    def rewind(self, n_tokens: int) -> None:
        if n_tokens:
            raise AssertionError(f"rewind {n_tokens} of a recurrent state")

    def close(self) -> None:
        self.cache = self.done = None
        super().close()


class StepwiseEngine:
    """Any causal language model that can continue from its own cache.  Memory grows with the sessions, of which there
    are at most `max_active`."""

    determinism: Literal["bitwise", "tolerant"] = "bitwise"
    max_draft = 0
    prefill_grain = 64

    def __init__(self, model: Any, *, name: str, max_active: int = MAX_ACTIVE) -> None:
        self.model = model
        self.name = name
        self.max_active = max_active
        self.pass_times: Mapping[int, float] = {max_active: 1.0}
        config = model.config.get_text_config()
        self.context_limit: int = getattr(config, "max_position_embeddings", None) or 2**20
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache_params" if "cache_params" in names else "past_key_values"
        self.device = next(model.parameters()).device
        self._n_open = 0

    def plain(self) -> StepwiseEngine:
        """The undrafted baseline: this engine itself."""
        return self

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:  # noqa: ARG002
        refuse_over_limit(len(prompt_ids), max_new_tokens, self.context_limit)
        if self._n_open >= self.max_active:
            return None
        self._n_open += 1
        return StepwiseSession(prompt_ids, len(prompt_ids) + max_new_tokens, release=self._release)

    def _release(self, _session: StepwiseSession) -> None:
        self._n_open -= 1

    @torch.inference_mode()
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        """As `Engine.step`, with one forward a part.  A prompt is read whole, in the pass that reaches its end.

        If a part raises, the parts before it are done already.  A session that gets the same part again returns the
        same answer.
        """
        answers = []
        for part in parts:
            session = cast(StepwiseSession, part.session)
            assert session.is_open, "the session is closed"
            if session.done is None or session.done[0] is not part:
                answer = None
                if isinstance(part, Window):
                    logits = self._forward(session, [part.last_id])
                    rows = WindowRows(0, 1, session.length + 1, part.sampling, part.allowed)
                    choices = choose(logits, [rows])
                    answer = Verification([int(choices[0])], logprobs_of(logits, choices).tolist())
                elif part.n_rows == session.n_pending:
                    self._forward(session, session.prompt_ids[:-1])
                session.length += part.n_rows
                session.done = (part, answer)
            answers.append(session.done[1])
        return answers

    def _forward(self, session: StepwiseSession, ids: Sequence[int]) -> torch.Tensor:
        """Logits [1, vocab] after `ids`."""
        tokens = torch.tensor([list(ids)], dtype=torch.int64, device=self.device)
        output = self.model(tokens, use_cache=True, **{self._cache_name: session.cache})
        session.cache = getattr(output, self._cache_name)
        return cast(torch.Tensor, output.logits)[0, -1:]
