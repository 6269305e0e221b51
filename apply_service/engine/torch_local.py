"""The target on this machine: any Hugging Face causal language model, on CPU or CUDA, many sequences in one forward.

Sees token ids only.  A pass has one of a few row counts (`buckets`), measured by `self_test` to give rows that are
equal in every bit wherever they lie: that is what makes drafts, neighbours and the prefix cache unable to change a
choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import torch

from apply_service.engine.attention import PackedPass
from apply_service.engine.kv_cache import KVShape, SlotPool
from apply_service.engine.packing import Layout, pack
from apply_service.engine.prefix_cache import PrefixCache
from apply_service.engine.rotary import fix_frequencies
from apply_service.engine.sampling import Rows, choose, logprobs_of
from apply_service.engine.session import TorchSession
from apply_service.errors import ContextLimitExceeded, EngineFailure
from apply_service.protocols import Part, Session, Verification, Window

DEFAULT_BUCKETS = (4, 8, 16, 32, 64, 128, 256)
KEY_GRAIN = 512
"""Keys are attended to in multiples of this: the CPU kernel's key block, so that whole blocks beyond a row's position
add exactly nothing.  The self-test crosses a multiple; on other devices all of a session's slots are attended to."""
QUERY_GRAIN = 4
"""Query rows of one session go through the attention kernel in multiples of this; the self-test may ask for more."""
PREFILL_GRAIN = 64
KV_CACHE_BYTES = 2**30

Chooser = Callable[[torch.Tensor, Sequence[Rows], Sequence[Window]], torch.Tensor]
"""Logits [n_rows, vocab], the rows of each window and the windows -> the token chosen in each row [n_rows]."""


def choose_by_model(logits: torch.Tensor, rows: Sequence[Rows], windows: Sequence[Window]) -> torch.Tensor:  # noqa: ARG001
    """The model's own choice."""
    return choose(logits, rows)


class TorchEngine:
    """Verifies windows with a model whose attention implementation is `engine.attention` (see `engine.loading`).

    `buckets`: row counts of a pass.  `padded=False` is the undrafted baseline `plain`: no row and no key beyond what is
    needed; `pool` lets it share its parent's slots.  `prefix_cache_bytes` 0 keeps no prompt.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        buckets: Sequence[int] = DEFAULT_BUCKETS,
        determinism: Literal["bitwise", "tolerant"] = "tolerant",
        pass_times: Mapping[int, float] | None = None,
        query_grain: int = QUERY_GRAIN,
        padded: bool = True,
        kv_cache_bytes: int = KV_CACHE_BYTES,
        prefix_cache_bytes: int = 0,
        pool: SlotPool | None = None,
        chooser: Chooser = choose_by_model,
    ) -> None:
        self.model = model
        self.name = name
        self.buckets = tuple(sorted(buckets))
        self.determinism = determinism
        self.pass_times = pass_times or {bucket: max(1.0, bucket / 64) for bucket in self.buckets}
        self.query_grain = query_grain
        self.padded = padded
        self.prefill_grain = max(1, min(PREFILL_GRAIN, self.buckets[-1] // 2))
        config = model.config.get_text_config()
        self.context_limit: int = config.max_position_embeddings
        fix_frequencies(model, self.context_limit)
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self._n_vocab: int = len(model.get_input_embeddings().weight)
        self.device = next(model.parameters()).device
        self.attends_in_blocks = self.device.type == "cpu"
        shape = KVShape.of(config, next(model.parameters()).dtype, self.device)
        n_slots = max(kv_cache_bytes // shape.bytes_per_slot, self.context_limit)
        self.pool = pool or SlotPool(shape, _round_up(n_slots, KEY_GRAIN))
        max_kept = prefix_cache_bytes // shape.bytes_per_slot
        self.prefix_cache = PrefixCache(self.pool, grain=self.prefill_grain, max_slots=max_kept)
        self._chooser = chooser

    @property
    def max_draft(self) -> int:
        return self.buckets[-1] - 1

    def plain(self) -> TorchEngine:
        """The fastest undrafted run of the same model: the baseline of every speed-up."""
        return TorchEngine(
            self.model, name=self.name, buckets=self.buckets, padded=False, pool=self.pool, chooser=self._chooser
        )

    # -- admission -----------------------------------------------------------------------------------------------------
    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        needed = len(prompt_ids) + max_new_tokens
        limit = min(self.context_limit, self.pool.n_slots)
        if needed > limit:
            raise ContextLimitExceeded(
                f"{len(prompt_ids)} prompt tokens and up to {max_new_tokens} new ones exceed the context limit",
                value=needed,
                limit=limit,
                remedy="send a smaller file, or use a model with a longer context",
            )
        slots = self.pool.take(_round_up(needed, KEY_GRAIN))
        if slots is None:
            return None
        kept_for = self._kept_for(owner, len(slots))
        n_cached = self.prefix_cache.restore(kept_for, prompt_ids, slots)
        return TorchSession(prompt_ids, slots, owner=kept_for, n_cached=n_cached, release=self._release)

    def _kept_for(self, owner: str, capacity: int) -> str:
        """Who may use a prompt again: where all slots of a session are attended to, only sessions of as many have the
        same bits."""
        is_exact = self.determinism == "bitwise" and not self.attends_in_blocks
        return f"{capacity} {owner}" if is_exact else f"any {owner}"

    def _release(self, session: TorchSession) -> None:
        n_known = min(session.length, len(session.prompt_ids) - 1) if session.is_sound else 0
        known = session.prompt_ids[:n_known]
        self.prefix_cache.keep(session.owner, known, session.slots)

    def check_integrity(self) -> None:
        """To be called while no session is open.

        Raises:
            EngineFailure: slots are neither free nor the prefix cache's, or both.
        """
        n_held = self.pool.n_slots - self.pool.n_free
        n_kept, ranges = self.prefix_cache.n_slots, self.prefix_cache.ranges
        if n_held != n_kept or self.pool.find(self.pool.n_slots, ranges) is None:
            raise EngineFailure(f"integrity: {n_held} slots are lent, {n_kept} kept", value=n_held, limit=n_kept)

    # -- passes --------------------------------------------------------------------------------------------------------
    @torch.inference_mode()
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        windows = [part for part in parts if isinstance(part, Window)]
        logits, layout = self.logits(parts, self.row_count(sum(part.n_rows for part in parts)))
        answers = iter(self._verify(windows, layout, logits) if windows else ())
        found = [next(answers) if isinstance(part, Window) else None for part in parts]
        for part, answer in zip(parts, found, strict=True):
            cast(TorchSession, part.session).length += part.n_rows if answer is None else len(answer.choices)
        return found

    def row_count(self, n_rows: int) -> int:
        """Rows that a pass (or its head) over `n_rows` rows takes."""
        if not self.padded:
            return n_rows
        return next((bucket for bucket in self.buckets if bucket >= n_rows), n_rows)

    def logits(self, parts: Sequence[Part], n_rows: int) -> tuple[torch.Tensor, Layout]:
        """One forward in exactly `n_rows` rows: logits of the windows' rows, which come first, and where they lie.  The
        head takes as few rows as it may.  Writes keys and values; no session's length changes."""
        hidden, layout = self.hidden(parts, n_rows)
        return self.head(hidden[:, : min(n_rows, self.row_count(layout.n_window_rows))]), layout

    @torch.inference_mode()
    def hidden(self, parts: Sequence[Part], n_rows: int) -> tuple[torch.Tensor, Layout]:
        """The forward itself: last hidden states [1, n_rows, d]."""
        layout = pack(parts, n_rows, n_vocab=self._n_vocab, n_keys=self._n_keys, n_padded=self._n_padded)
        for part, segment in zip(sorted(parts, key=lambda p: not isinstance(p, Window)), layout.segments, strict=True):
            self._clear(cast(TorchSession, part.session), segment.n_keys)
        output = self.model.base_model(
            input_ids=layout.ids.to(self.device),
            position_ids=layout.positions.to(self.device),
            use_cache=False,
            apply_pass=PackedPass(self.pool, layout.segments),
        )
        return output.last_hidden_state, layout

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [n_rows, vocab] of last hidden states [1, n_rows, d], soft cap of the final logits included."""
        logits = self.model.get_output_embeddings()(hidden)[0]
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap

    def _n_keys(self, session: TorchSession, n_filled: int) -> int:
        if not self.padded:
            return n_filled
        return _round_up(n_filled, KEY_GRAIN) if self.attends_in_blocks else session.capacity

    def _n_padded(self, n_rows: int) -> int:
        return _round_up(n_rows, self.query_grain) if self.padded else n_rows

    def _clear(self, session: TorchSession, n_keys: int) -> None:
        if self.padded and n_keys > session.cleared:  # unpadded, every key that is attended to has been written
            self.pool.clear(session.slots[session.cleared : n_keys])
            session.cleared = n_keys

    def _verify(self, windows: Sequence[Window], layout: Layout, logits: torch.Tensor) -> list[Verification]:
        """The agreeing prefix of each window and the target's next token, with one transfer from the device.

        A draft token stands while it equals the choice before it: greedy and Gumbel choices are functions of the
        prefix, so this is exact, not a ratio test.
        """
        logits = logits[: layout.n_window_rows]  # rows of padding are nobody's
        choices = self._chooser(logits, layout.windows, windows)
        logprobs = logprobs_of(logits, choices)
        table = torch.stack([choices.double(), logprobs.double()]).tolist()
        found = [
            _accepted(window.draft_ids, *(column[rows.first : rows.first + rows.n_rows] for column in table))
            for window, rows in zip(windows, layout.windows, strict=True)
        ]
        for window, verification in zip(windows, found, strict=True):
            _refuse_nan(cast(TorchSession, window.session), verification)
        return found


def _refuse_nan(session: TorchSession, verification: Verification) -> None:
    """A choice made of what is no number is nobody's, and what the session has read must not be found again."""
    if any(map(math.isnan, verification.logprobs or ())):
        session.is_sound = False
        raise EngineFailure("the model's output is not a number", value=session.length)


def _accepted(draft_ids: Sequence[int], choices: Sequence[float], logprobs: Sequence[float]) -> Verification:
    n_accepted = next((i for i, (a, b) in enumerate(zip(draft_ids, choices, strict=False)) if a != b), len(draft_ids))
    return Verification([int(choice) for choice in choices[: n_accepted + 1]], list(logprobs[: n_accepted + 1]))


def _round_up(n: int, grain: int) -> int:
    return -(-n // grain) * grain
