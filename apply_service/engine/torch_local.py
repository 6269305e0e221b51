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

from apply_service.engine.attention import AnyPass, PackedPass
from apply_service.engine.attention_kernel import AttentionSetting, KernelAttention, Kernels, find_kernels
from apply_service.engine.attention_tiles import TileShape, shape_for
from apply_service.engine.device_choice import Decision, choose_greedily, decide, is_greedy, raise_known, read_decisions
from apply_service.engine.device_inputs import KnownRows, PassInputs, PassKey, power_of_two
from apply_service.engine.graphs import GraphedPasses, GraphSetting, PassOutput, open_passes
from apply_service.engine.kv_cache import KVShape, SlotPool
from apply_service.engine.packing import Layout, pack, windows_first
from apply_service.engine.prefix_cache import PrefixCache
from apply_service.engine.rotary import fix_frequencies
from apply_service.engine.sampling import Rows, choose, logprobs_of
from apply_service.engine.session import TorchSession
from apply_service.errors import ContextLimitExceeded, EngineFailure
from apply_service.protocols import Part, Session, Verification, Window

DEFAULT_BUCKETS = (4, 8, 16, 32, 64, 128, 256)
CUDA_BUCKETS = (32, 64, 128, 192, 256)
"""In the place of the default ones: fewer rows take no less time there."""
LARGE_BUCKET = 512
"""For small models, on CUDA."""
KEY_GRAIN = 512
"""Keys are attended to in multiples of this: the CPU kernel's key block, so that whole blocks beyond a row's position
add exactly nothing.  The self-test crosses a multiple; on other devices all of a session's slots are attended to."""
QUERY_GRAIN = 4
"""Query rows of one session go through the attention kernel in multiples of this; the self-test may ask for more."""
PREFILL_GRAIN = 64
KV_CACHE_BYTES = 2**30

PLAIN_SPLIT = 256
"""Stretches of keys in the undrafted baseline, which need not have anybody's bits: shorter ones keep more of a device
busy with one row."""

KnownAnswer = Callable[[Rows, Window], Sequence[int] | None]
"""The tokens that the rows of a window are to choose whatever the model says; None: the model's own choice."""


class TorchEngine:
    """Verifies windows with a model whose attention implementation is `engine.attention` (see `engine.loading`).

    `buckets`: row counts of a pass.  `padded=False` is the undrafted baseline `plain`: no row and no key beyond what is
    needed; `pool` lets it share its parent's slots.  `prefix_cache_bytes` 0 keeps no prompt.  `attention`: the Triton
    kernel or PyTorch's own; `cuda_graphs`: whether passes are captured; `auto` takes both where they can run.
    `kernels` stand in for the kernel in tests.

    Raises:
        MissingDependency: the kernel or graphs are asked for by name and can't run here.
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
        attention: AttentionSetting = "auto",
        cuda_graphs: GraphSetting = "auto",
        kernels: Kernels | None = None,
        known: KnownAnswer | None = None,
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
        shape = KVShape.of(config, next(model.parameters()).dtype, self.device)
        n_slots = max(kv_cache_bytes // shape.bytes_per_slot, self.context_limit)
        self.pool = pool or SlotPool(shape, _round_up(n_slots, KEY_GRAIN))
        max_kept = prefix_cache_bytes // shape.bytes_per_slot
        self.prefix_cache = PrefixCache(self.pool, grain=self.prefill_grain, max_slots=max_kept)
        self._known = known
        self._options: dict[str, Any] = {"attention": attention, "cuda_graphs": cuda_graphs, "known": known}
        found, self.attention_note = (kernels, "") if kernels is not None else find_kernels(attention, self.device)
        group = config.num_attention_heads // shape.n_kv_heads
        tile = shape_for(shape.head_dim, group, shape.dtype, split=TileShape().split if padded else PLAIN_SPLIT)
        self.kernel = None if found is None else KernelAttention(found, tile, group)
        self.passes, self.graphs_note = open_passes(cuda_graphs, self.device, has_kernels=found is not None)
        self.attends_in_blocks = self.device.type == "cpu" or found is not None

    @property
    def max_draft(self) -> int:
        return self.buckets[-1] - 1

    @property
    def attention(self) -> Literal["sdpa", "triton"]:
        """What attention runs on; `attention_note` says why where it is not the kernel."""
        return "sdpa" if self.kernel is None else "triton"

    @property
    def has_graphs(self) -> bool:
        """Whether passes are captured and replayed; `graphs_note` says why not."""
        return isinstance(self.passes, GraphedPasses)

    def plain(self) -> TorchEngine:
        """The fastest undrafted run of the same model: the baseline of every speed-up."""
        return TorchEngine(
            self.model, name=self.name, buckets=self.buckets, padded=False, pool=self.pool, **self._options
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
        n_rows = self.row_count(sum(part.n_rows for part in parts))
        decides_here = bool(windows) and all(map(is_greedy, windows))
        output, layout, inputs = self.run(parts, n_rows, is_greedy=decides_here)
        table = output.table
        if windows and table is None:
            assert output.logits is not None
            table = self._sampled(output.logits[: layout.n_window_rows], layout, inputs)
        decisions = [] if table is None else read_decisions(table, [rows.first for rows in layout.windows])
        for window, one in zip(windows, decisions, strict=True):
            _refuse_nan(cast(TorchSession, window.session), one)
        answers = iter(decisions)
        found: list[Decision | None] = [next(answers) if isinstance(part, Window) else None for part in parts]
        for part, decision in zip(parts, found, strict=True):
            session = cast(TorchSession, part.session)
            session.length = session.length + part.n_rows if decision is None else decision.length
        return [None if one is None else Verification(one.choices, one.logprobs) for one in found]

    def row_count(self, n_rows: int) -> int:
        """Rows that a pass (or its head) over `n_rows` rows takes."""
        if not self.padded:
            return power_of_two(n_rows) if self.has_graphs else n_rows
        return next((bucket for bucket in self.buckets if bucket >= n_rows), n_rows)

    def logits(
        self, parts: Sequence[Part], n_rows: int, *, n_head_rows: int | None = None
    ) -> tuple[torch.Tensor, Layout]:
        """One forward in exactly `n_rows` rows: logits of the windows' rows, which come first, and where they lie.  The
        head takes `n_head_rows`, or as few as it may.  Writes keys and values; no session's length changes.  What comes
        back holds until the next pass."""
        with torch.inference_mode():
            output, layout, _ = self.run(parts, n_rows, n_head_rows=n_head_rows, is_greedy=False)
        assert output.logits is not None
        return output.logits, layout

    def run(
        self, parts: Sequence[Part], n_rows: int, *, is_greedy: bool, n_head_rows: int | None = None
    ) -> tuple[PassOutput, Layout, PassInputs]:
        """A pass over `parts`, with its decisions in it if it `is_greedy`; where its rows lie; and its inputs."""
        layout = pack(parts, n_rows, n_vocab=self._n_vocab, n_keys=self._n_keys, n_padded=self._n_padded)
        if self.kernel is None:
            for part, segment in zip(windows_first(parts), layout.segments, strict=True):
                self._clear(cast(TorchSession, part.session), segment.n_keys)
        if n_head_rows is None:
            n_head_rows = min(n_rows, self.row_count(layout.n_window_rows)) if layout.windows else 0
        tiles = [] if self.kernel is None else self.kernel.tiles(layout.segments)
        n_tiles = 0 if self.kernel is None else max(len(tiles), self.kernel.n_tiles(n_rows))
        n_splits = 0 if self.kernel is None else self.kernel.n_splits(layout.segments)
        n_choices = n_head_rows if self.has_graphs else layout.n_window_rows
        key = PassKey(n_rows, n_head_rows, n_choices, power_of_two(n_tiles), power_of_two(n_splits), is_greedy)
        used: list[PassInputs] = []

        def fill(inputs: PassInputs) -> None:
            used.append(inputs)
            inputs.fill(layout, self._known_rows(layout, parts), tiles)

        output = self.passes.run(key, fill, lambda inputs: self._compute(inputs, layout))
        return output, layout, used[0]

    def _known_rows(self, layout: Layout, parts: Sequence[Part]) -> KnownRows:
        if self._known is None:
            return ()
        windows = [part for part in parts if isinstance(part, Window)]
        found = [(rows.first, self._known(rows, window)) for rows, window in zip(layout.windows, windows, strict=True)]
        return [(first, ids) for first, ids in found if ids is not None]

    def _compute(self, inputs: PassInputs, layout: Layout) -> PassOutput:
        """The pass itself, of nothing but what lies on the device where it may be captured: `layout` is then another
        one's and serves PyTorch's own attention alone."""
        key = inputs.key
        hidden = self.hidden(inputs, layout)
        if not key.n_head_rows:
            return PassOutput(None, None)
        logits = self.head(hidden[:, : key.n_head_rows])
        if self._known is not None:
            raise_known(logits, inputs.known_ids[: key.n_head_rows])
        if not key.is_greedy:
            return PassOutput(logits, None)
        choices, logprobs = self._choose_greedily(logits[: key.n_choices])
        return PassOutput(None, decide(choices, logprobs, inputs))

    def hidden(self, inputs: PassInputs, layout: Layout) -> torch.Tensor:
        """The forward itself: last hidden states [1, n_rows, d]."""
        attention: AnyPass = PackedPass(self.pool, layout.segments)
        if self.kernel is not None:
            attention = self.kernel.over(inputs, self.pool)
        output = self.model.base_model(
            input_ids=inputs.ids[None], position_ids=inputs.positions[None], use_cache=False, apply_pass=attention
        )
        return cast(torch.Tensor, output.last_hidden_state)

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

    def _choose_greedily(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return choose_greedily(logits) if self.kernel is None else self.kernel.kernels.choose_best(logits)

    def _sampled(self, logits: torch.Tensor, layout: Layout, inputs: PassInputs) -> torch.Tensor:
        """The decisions of a pass with masks or temperatures, which no captured pass holds: they are of any size, and
        noise over a vocabulary costs as much as a small model."""
        choices = choose(logits, layout.windows)
        return decide(choices, logprobs_of(logits, choices), inputs)


def _refuse_nan(session: TorchSession, decision: Decision) -> None:
    """A choice among logits that are not numbers means nothing, and the prefix cache must not keep this session."""
    if any(map(math.isnan, decision.logprobs)):
        session.is_sound = False
        raise EngineFailure("the model's output is not a number", value=session.length)


def _round_up(n: int, grain: int) -> int:
    return -(-n // grain) * grain
