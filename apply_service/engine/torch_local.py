"""The target on this machine: any Hugging Face causal language model, on CPU or CUDA, verified in padded windows.

Sees token ids only.  Every pass of a session has one shape (a row count out of `buckets` over slots of a fixed
length), so a row's logits do not depend on how many tokens were drafted: that is the lossless law, measured by
`self_test`.  Windows of several sessions are run one after the other here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, cast

import torch

from apply_service.engine.attention import WindowPass
from apply_service.engine.kv_cache import KVShape, Slots
from apply_service.engine.sampling import choose
from apply_service.errors import ContextLimitExceeded
from apply_service.protocols import Session, Verification, Window

DEFAULT_BUCKETS = (16, 64, 256)
KEY_GRAIN = 512
"""Slots are attended to in multiples of this: the CPU kernel's key block, so that whole blocks beyond a row's
position add exactly nothing.  The self-test crosses a multiple; on other devices all slots are attended to."""


def nothing() -> None:
    """Nobody asks to stop."""


class TorchSession:
    """One sequence; owns its slots."""

    def __init__(self, slots: Slots) -> None:
        self.slots: Slots | None = slots
        self.capacity = slots.capacity
        self.length = 0
        self.prefill_passes = 0

    def rewind(self, n_tokens: int) -> None:
        if not 0 <= n_tokens <= self.length:
            raise AssertionError(f"rewind {n_tokens} of {self.length}")
        self.length -= n_tokens

    def close(self) -> None:
        self.slots = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TorchEngine:
    """Verifies windows with a model whose attention implementation is `engine.attention` (see `engine.loading`).

    `buckets`: row counts of a pass, rising.  `padded=False` is the undrafted baseline `plain`: one row a pass and no
    key beyond what is filled.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        buckets: Sequence[int] = DEFAULT_BUCKETS,
        determinism: Literal["bitwise", "tolerant"] = "tolerant",
        padded: bool = True,
    ) -> None:
        self.model = model
        self.name = name
        self.buckets = tuple(sorted(buckets)) if padded else (1,)
        self.determinism = determinism
        self.padded = padded
        config = model.config.get_text_config()
        self.context_limit: int = config.max_position_embeddings
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self.device = next(model.parameters()).device
        self.kv_shape = KVShape.of(config, next(model.parameters()).dtype, self.device)

    @property
    def max_draft(self) -> int:
        return self.buckets[-1] - 1

    def plain(self) -> TorchEngine:
        """The fastest undrafted run of the same model: the baseline of every speed-up."""
        return TorchEngine(self.model, name=self.name, padded=False)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, poll: Callable[[], None] = nothing) -> Session:
        needed = len(prompt_ids) + max_new_tokens
        if needed > self.context_limit:
            raise ContextLimitExceeded(
                f"{len(prompt_ids)} prompt tokens and up to {max_new_tokens} new ones exceed the context limit",
                value=needed,
                limit=self.context_limit,
                remedy="send a smaller file, or use a model with a longer context",
            )
        prefill_rows = self.buckets[-1] if self.padded else 256
        capacity = _round_up(needed + prefill_rows, KEY_GRAIN)
        session = TorchSession(Slots(self.kv_shape, capacity))
        try:
            self._prefill(session, prompt_ids[:-1], prefill_rows, poll)
        except BaseException:
            session.close()
            raise
        return session

    def step(self, windows: Sequence[Window]) -> Sequence[Verification]:
        return [self._verify(window) for window in windows]

    @torch.inference_mode()
    def _prefill(self, session: TorchSession, ids: Sequence[int], n_rows: int, poll: Callable[[], None]) -> None:
        """Chunks of one fixed shape on an absolute grid; the head is not computed."""
        for start in range(0, len(ids), n_rows):
            poll()
            chunk = ids[start : start + n_rows]
            rows = n_rows if self.padded else len(chunk)
            self._hidden(session, chunk, rows)
            session.length += len(chunk)
            session.prefill_passes += 1

    @torch.inference_mode()
    def _verify(self, window: Window) -> Verification:
        session = cast(TorchSession, window.session)
        ids = [window.last_id, *window.draft_ids]
        n_rows = next(size for size in self.buckets if size >= len(ids))
        hidden = self._hidden(session, ids, n_rows)
        logits = self.head(hidden)
        positions = torch.arange(session.length + 1, session.length + 1 + n_rows, device=self.device)
        choices = choose(logits, positions, window.sampling, window.allowed)[: len(ids)]
        packed = self._accept(logits, choices, window.draft_ids)
        session.length += len(packed)
        return Verification(choices=[int(c) for c, _ in packed], logprobs=[lp for _, lp in packed])

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [n_rows, vocab] of last hidden states [1, n_rows, d], soft cap of the final logits included."""
        logits = self.model.get_output_embeddings()(hidden)[0]
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap

    def _hidden(self, session: TorchSession, ids: Sequence[int], n_rows: int) -> torch.Tensor:
        """Last hidden states [1, n_rows, d]; writes the keys and values of all rows, padding's beyond the real ones."""
        assert session.slots is not None, "the session is closed"
        start = session.length
        n_keys = self._n_keys(session, start + n_rows)
        padded = torch.zeros((1, n_rows), dtype=torch.int64)
        padded[0, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        positions = torch.arange(start, start + n_rows, device=self.device)[None]
        window_pass = WindowPass.over(session.slots, start=start, n_rows=n_rows, n_keys=n_keys)
        output = self.model.base_model(
            input_ids=padded.to(self.device), position_ids=positions, use_cache=False, apply_pass=window_pass
        )
        return cast(torch.Tensor, output.last_hidden_state)

    def _n_keys(self, session: TorchSession, n_filled: int) -> int:
        if not self.padded:
            return n_filled
        return _round_up(n_filled, KEY_GRAIN) if self.device.type == "cpu" else session.capacity

    def _accept(
        self, logits: torch.Tensor, choices: torch.Tensor, draft_ids: Sequence[int]
    ) -> list[tuple[float, float]]:
        """The agreeing prefix and the target's next token, with log-probabilities, in one transfer from the device.

        A draft token stands while it equals the choice before it: greedy and Gumbel choices are functions of the
        prefix, so this is exact, not a ratio test.
        """
        draft = torch.tensor(list(draft_ids), dtype=torch.int64, device=self.device)
        n_accepted = (choices[:-1] == draft).long().cumprod(0).sum()
        rows = logits[: len(choices)].float()
        logprobs = rows.gather(1, choices[:, None])[:, 0] - rows.logsumexp(dim=-1)
        packed = torch.stack([choices.double(), logprobs.double()], dim=1)
        table = torch.cat([packed, torch.stack([n_accepted.double(), n_accepted.double()])[None]]).tolist()
        return [(row[0], row[1]) for row in table[: int(table[-1][0]) + 1]]


def _round_up(n: int, grain: int) -> int:
    return -(-n // grain) * grain
