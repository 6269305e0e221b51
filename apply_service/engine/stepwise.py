"""Targets whose state can't be rewound (recurrent, hybrid): one token a pass, through the library's own cache.

A rejected draft would have to be taken out of a recurrent state, which has forgotten what it was before; so nothing is
drafted here.  Each sequence has a forward of its own, so neighbours can't touch it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, cast

import torch

from apply_service.engine.sampling import Rows, choose
from apply_service.errors import ContextLimitExceeded
from apply_service.protocols import Part, Session, Verification, Window

UNDRAFTED = "the model keeps a recurrent state, which can't be rewound after a rejected draft"
MAX_ACTIVE = 64


def is_recurrent(model: Any) -> bool:
    """Whether the library says that the model's state is not a list of keys and values."""
    return bool(getattr(model, "_is_stateful", False))


class StepwiseSession:
    """One sequence and the library's cache of it."""

    def __init__(self, prompt_ids: Sequence[int], capacity: int) -> None:
        self.prompt_ids = prompt_ids
        self.capacity = capacity
        self.length = 0
        self.n_cached = 0
        self.cache: Any = None
        self.done: tuple[Part, Verification | None] | None = None
        self.is_open = True

    @property
    def n_pending(self) -> int:
        return max(0, len(self.prompt_ids) - 1 - self.length)

    def rewind(self, n_tokens: int) -> None:
        if n_tokens:
            raise AssertionError(f"rewind {n_tokens} of a recurrent state")

    def close(self) -> None:
        self.cache, self.done, self.is_open = None, None, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StepwiseEngine:
    """Any causal language model that can go on from its own cache.  Memory grows with the sessions; `max_active` bounds
    them."""

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
        self._open: list[StepwiseSession] = []

    def plain(self) -> StepwiseEngine:
        """The undrafted baseline, which is this engine itself."""
        return self

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:  # noqa: ARG002
        needed = len(prompt_ids) + max_new_tokens
        if needed > self.context_limit:
            raise ContextLimitExceeded(
                f"{len(prompt_ids)} prompt tokens and up to {max_new_tokens} new ones exceed the context limit",
                value=needed,
                limit=self.context_limit,
                remedy="send a smaller file, or use a model with a longer context",
            )
        self._open = [session for session in self._open if session.is_open]
        if len(self._open) >= self.max_active:
            return None
        session = StepwiseSession(prompt_ids, needed)
        self._open.append(session)
        return session

    @torch.inference_mode()
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        """As `Engine.step`, one forward a part; prompts are read whole, in the pass that reaches their end.

        Where one raises, those before it are done already; asked for the same part again, a session gives the same
        answer again.
        """
        return [self._run_once(part) for part in parts]

    def _run_once(self, part: Part) -> Verification | None:
        session = cast(StepwiseSession, part.session)
        assert session.is_open, "the session is closed"
        if session.done is None or session.done[0] is not part:
            session.done = (part, self._run(session, part))
        return session.done[1]

    def _run(self, session: StepwiseSession, part: Part) -> Verification | None:
        if isinstance(part, Window):
            return self._choose(session, part)
        if part.n_rows == session.n_pending:
            self._forward(session, session.prompt_ids[:-1])
        session.length += part.n_rows
        return None

    def _choose(self, session: StepwiseSession, window: Window) -> Verification:
        logits = self._forward(session, [window.last_id])
        session.length += 1
        rows = Rows(0, 1, session.length, window.sampling, window.allowed)
        choice = int(choose(logits, [rows])[0])
        return Verification([choice], [float(logits[0].float().log_softmax(-1)[choice])])

    def _forward(self, session: StepwiseSession, ids: Sequence[int]) -> torch.Tensor:
        """Logits [1, vocab] after `ids`."""
        tokens = torch.tensor([list(ids)], dtype=torch.int64, device=self.device)
        output = self.model(tokens, use_cache=True, **{self._cache_name: session.cache})
        session.cache = getattr(output, self._cache_name)
        return cast(torch.Tensor, output.logits)[0, -1:]
