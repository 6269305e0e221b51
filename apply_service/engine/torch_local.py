"""Runs any Hugging Face causal language model on CPU or CUDA, with many sequences in one forward.

The engine sees only token ids.  A pass has one of a few row counts (`buckets`).  `self_test` finds row counts with
which a row's results are bitwise the same at any place in the pass.  That is why drafts, other sequences and the prefix
cache cannot change a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch

from apply_service.engine.attention import (
    AttentionSetting,
    KernelPass,
    Kernels,
    PackedPass,
    TileShape,
    find_kernels,
    fix_frequencies,
)
from apply_service.engine.kv_cache import KVShape, SlotEngine, SlotPool, settle
from apply_service.engine.layout import Layout, pack
from apply_service.engine.passes import (
    GraphSetting,
    Passes,
    PassInputs,
    PassKey,
    PassOutput,
    decide,
    is_greedy,
    open_passes,
    power_of_two,
    raise_known,
)
from apply_service.engine.sampling import choose, choose_greedily, logprobs_of
from apply_service.protocols import Part, Session, Verification, Window

DEFAULT_BUCKETS = (4, 8, 16, 32, 64, 128, 256)
"""The row counts of passes on a CPU (see `self_test.buckets_on`)."""
KEY_GRAIN = 512
"""On a CPU, attention reads keys in multiples of this.  It is the key block of PyTorch's CPU kernel.

Because the multiple is the kernel's key block, a block beyond a row's position adds exactly nothing.  The self-test
uses windows on both sides of a multiple of KEY_GRAIN.  On other devices, PyTorch's attention reads all slots of a
session.
"""
QUERY_GRAIN = 4
"""The query rows of a session are padded to a multiple of this for attention.  The self-test may find that a larger
grain is needed."""
KV_CACHE_BYTES = 2**30
PLAIN_SPLIT = 256
"""The number of positions per split of attention in the baseline without drafts.

The baseline need not agree bitwise with any other run.  With shorter splits, a single row keeps more of a device busy.
"""

KnownAnswer = Callable[[Window], Sequence[int] | None]
"""Returns the tokens that the rows of a window must choose; None if the model chooses."""


class TorchEngine(SlotEngine):
    """Verifies windows (runs of draft tokens) with a model whose attention implementation is `engine.attention` (see
    `engine.loading`).

    `buckets`: the row counts that a pass may have.  `pass_times`: the seconds of a pass by its number of rows; if it is
    None, all passes count as equally long.  `padded=False` makes the baseline without drafts (`plain`): its passes have
    only the rows and keys that they need.  `pool`: the slots of another engine, to be shared.  With
    `prefix_cache_bytes` 0, no prompt is kept.  `attention`: the Triton kernel or PyTorch's own attention.
    `cuda_graphs`: whether passes are captured.  `auto` uses the kernel, or graphs, if they can run.  `kernels` replace
    the kernel in tests.  `known`: see `KnownAnswer`.

    Raises MissingDependency if the kernel or graphs are demanded and can't run here.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        buckets: Sequence[int] = DEFAULT_BUCKETS,
        determinism: Literal["bitwise", "tolerant"] = "tolerant",
        query_grain: int = QUERY_GRAIN,
        pass_times: Mapping[int, float] | None = None,
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
        self.query_grain = query_grain
        self.padded = padded
        config = model.config.get_text_config()
        fix_frequencies(model, config.max_position_embeddings)
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        # Cohere multiplies its logits, Granite divides them.  `loading` refuses a model that does anything else.
        self._logit_scale: float = getattr(config, "logit_scale", None) or 1 / getattr(config, "logits_scaling", 1.0)
        self.n_vocab: int = len(model.get_input_embeddings().weight)
        self.device = next(model.parameters()).device
        shape = KVShape.of(config, next(model.parameters()).dtype, self.device)
        super().__init__(
            shape,
            context_limit=config.max_position_embeddings,
            pass_times={bucket: (pass_times or {}).get(bucket, 1.0) for bucket in self.buckets},
            key_grain=KEY_GRAIN,
            kv_cache_bytes=kv_cache_bytes,
            prefix_cache_bytes=prefix_cache_bytes,
            pool=pool,
        )
        self._known = known
        self._options: dict[str, Any] = {"attention": attention, "cuda_graphs": cuda_graphs, "known": known}
        self.kernels, self.attention_note = find_kernels(attention, self.device) if kernels is None else (kernels, "")
        """The kernels that replace PyTorch's attention.  The value is None if there are none; then `attention_note`
        says why."""
        group, split = config.num_attention_heads // shape.n_kv_heads, TileShape().split if padded else PLAIN_SPLIT
        self.tile = TileShape.for_model(shape.head_dim, group, shape.dtype, split=split)
        self.passes, self.graphs_note = open_passes(cuda_graphs, self.device, has_kernels=self.kernels is not None)
        self.attends_in_blocks = self.device.type == "cpu" or self.kernels is not None
        self.watched: tuple[int, ...] = ()
        """The layers whose inputs (`states`) every pass keeps beside the keys and values.  An index equal to the number
        of layers means the last layer's output after the norm."""

    @property
    def attention(self) -> Literal["sdpa", "triton"]:
        """The implementation of attention."""
        return "sdpa" if self.kernels is None else "triton"

    @property
    def has_graphs(self) -> bool:
        """Whether passes are captured and replayed.  If not, `graphs_note` says why."""
        return self.passes.capture is not None

    def plain(self) -> TorchEngine:
        """Return the engine that decodes fastest without drafts: the baseline of every speed-up."""
        shared = {"name": self.name, "buckets": self.buckets, "pool": self.pool, **self._options}
        return TorchEngine(self.model, padded=False, **shared)

    def watch(self, layers: Sequence[int]) -> None:
        """Keep the states of these layers from now on, for a head that drafts from them."""
        self.watched = tuple(layers)
        self.passes = Passes(self.device, self.passes.capture)  # captured passes keep no states, or other ones
        self.pool.keep_states(len(self.watched) * self.model.config.get_text_config().hidden_size)

    def states(self, session: Session, start: int, stop: int) -> torch.Tensor:
        """Return the watched states [stop - start, n_layers * d] of positions `start` to `stop`, which the session must
        have read.  A row holds the states of all watched layers side by side."""
        assert self.pool.states is not None, "no layer is watched"
        return self.pool.states[session.slots.start + start : session.slots.start + stop]

    @torch.inference_mode()
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        windows = [part for part in parts if isinstance(part, Window)]
        n_rows = self.row_count(sum(part.n_rows for part in parts))
        output, layout = self.run(parts, n_rows, is_greedy=bool(windows) and all(map(is_greedy, windows)))
        table = output.table
        if len(layout.head_rows) and table is None:
            # Masks and temperatures are never captured: masks can have any size, and drawing noise for a whole
            # vocabulary takes as long as a small model.
            assert output.logits is not None
            logits = output.logits[: len(layout.head_rows)]
            choices = choose(logits, layout.windows)
            table = decide(choices, logprobs_of(logits, choices))
        made, told = ([], []) if table is None else table.tolist()
        return settle(parts, layout.verified(parts, [int(token) for token in made], told))

    def row_count(self, n_rows: int) -> int:
        """Return the number of rows to which a pass (or its head) with `n_rows` rows is padded."""
        if not self.padded:
            return power_of_two(n_rows) if self.has_graphs else n_rows
        return next((bucket for bucket in self.buckets if bucket >= n_rows), n_rows)

    def logits(
        self, parts: Sequence[Part], n_rows: int, *, n_head_rows: int | None = None
    ) -> tuple[torch.Tensor, Layout]:
        """Run one forward of exactly `n_rows` rows.  Returns the logits of the rows that choose a token, and the
        layout.

        The next pass overwrites the logits.  The head gets `n_head_rows` rows, by default as few as possible.  Sessions
        keep their lengths.
        """
        with torch.inference_mode():
            output, layout = self.run(parts, n_rows, n_head_rows=n_head_rows, is_greedy=False)
        assert output.logits is not None
        return output.logits, layout

    def run(
        self, parts: Sequence[Part], n_rows: int, *, is_greedy: bool, n_head_rows: int | None = None
    ) -> tuple[PassOutput, Layout]:
        """Run a pass over `parts`, and return its output and layout.  If `is_greedy`, the device makes the choices."""
        grain = self.query_grain if self.padded else 1
        layout = pack(parts, n_rows, n_vocab=self.n_vocab, n_keys=self._n_keys, query_grain=grain)
        tiles: list[tuple[int, int, int]] = []
        n_tiles = n_splits = 0
        if self.kernels is not None:
            for one in layout.segments:
                tiles += self.tile.cut(one.first_row, one.n_rows, one.first_slot)
            n_tiles = max(len(tiles), self.tile.least_tiles(n_rows))
            n_splits = self.tile.n_splits(max(one.position + one.n_rows for one in layout.segments))
        elif self.padded:  # without padding, attention reads only keys that have been written
            self._clear_keys(parts)
        if n_head_rows is None:
            n_head_rows = min(n_rows, self.row_count(len(layout.head_rows))) if len(layout.head_rows) else 0
        n_choices = n_head_rows if self.has_graphs else len(layout.head_rows)
        key = PassKey(n_rows, n_head_rows, n_choices, power_of_two(n_tiles), power_of_two(n_splits), is_greedy)
        known: list[tuple[int, Sequence[int]]] = []
        if self._known is not None:
            windows = [part for part in parts if isinstance(part, Window)]
            for rows, window in zip(layout.windows, windows, strict=True):
                if (ids := self._known(window)) is not None:
                    known.append((rows.first, ids if rows.places is None else [ids[i] for i in rows.places]))
        inputs = self.passes.inputs(key)
        inputs.fill(layout, known, tiles)
        return self.passes.run(inputs, lambda: self._compute(inputs, layout)), layout

    def _compute(self, inputs: PassInputs, layout: Layout) -> PassOutput:
        """Compute the pass, and return its output.

        A pass that may be captured reads only `inputs`.  `layout` is for PyTorch's own attention, which is never
        captured.
        """
        key = inputs.key
        attention: PackedPass | KernelPass = PackedPass(self.pool, layout.segments)
        if self.kernels is not None:
            attention = KernelPass(self.pool, self.kernels, self.tile, inputs)
        output = self.model.base_model(
            input_ids=inputs.ids[None],
            position_ids=inputs.positions[None],
            use_cache=False,
            apply_pass=attention,
            **({"output_hidden_states": True} if self.watched else {}),
        )
        if self.watched:
            states = torch.cat([output.hidden_states[layer][0] for layer in self.watched], -1)
            self.pool.store_states(inputs.slots, states)
        if not key.n_head_rows:
            return PassOutput(None, None)
        logits = self.head(output.last_hidden_state[:, inputs.head_rows[: key.n_head_rows]])
        if self._known is not None:
            raise_known(logits, inputs.known_ids[: key.n_head_rows])
        if not key.is_greedy:
            return PassOutput(logits, None)
        choose_best = choose_greedily if self.kernels is None else self.kernels.choose_best
        return PassOutput(None, decide(*choose_best(logits[: key.n_choices])))

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [n_rows, vocab] of last hidden states [1, n_rows, d], with the model's scale and soft
        cap."""
        logits = self.model.get_output_embeddings()(hidden)[0]
        if self._logit_scale != 1:
            logits = logits * self._logit_scale
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap

    def _n_keys(self, session: Session, n_filled: int) -> int:
        return super()._n_keys(session, n_filled) if self.padded else n_filled
