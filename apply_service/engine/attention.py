"""Plugs the attention of a packed pass into any Hugging Face model that uses the attention interface.

The model has no cache of its own: attention writes the new keys and values into our slots and reads them there.  So
nothing here depends on the cache classes of a transformers version.  The model's forward gets the data of a pass as the
keyword argument `apply_pass`.  A `PackedPass` calls PyTorch's attention once for each session.  A `KernelPass` calls
the Triton kernel once for all sessions.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import torch
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.kv_cache import SlotPool
from apply_service.engine.layout import Segment
from apply_service.engine.passes import PassInputs
from apply_service.engine.sampling import GreedyChoice, choose_greedily
from apply_service.errors import MissingDependency

ATTENTION_NAME = "apply_service"
AttentionSetting = Literal["auto", "sdpa", "triton"]


def register() -> str:
    """Register `attend` with transformers, and return the name for `attn_implementation`.

    No mask function is registered, so the library makes no mask.  Making one would wait for the device, and a captured
    pass must not wait.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, attend)
    return ATTENTION_NAME


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001  the interface passes it; our mask is in the pass
    *,
    apply_pass: PackedPass | KernelPass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_unused: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention [1, n_rows, n_heads, d] and None, as the interface demands.

    `query` is [1, n_heads, n_rows, d]; `key` and `value` are [1, n_kv_heads, n_rows, d].  Rows of padding become zeros.
    Raises NotImplementedError if the model has attention sinks.
    """
    if s_aux is not None:
        raise NotImplementedError("attention sinks")
    layer = int(cast(Any, module).layer_idx)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    found = apply_pass.attend(
        layer, query[0], key[0], value[0], scale=scale, sliding_window=sliding_window, softcap=softcap
    )
    return found[None], None


# -- PyTorch's attention -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PackedPass:
    """The attention of one forward, with one call of PyTorch's attention for each session."""

    pool: SlotPool
    segments: tuple[Segment, ...]
    _masks: dict[tuple[int, int | None, int], torch.Tensor] = field(default_factory=dict)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        sliding_window: int | None,
        softcap: float | None,
    ) -> torch.Tensor:
        """Store `key` and `value` [n_kv_heads, n_rows, d], and return the attention [n_rows, n_heads, d] of `query`
        [n_heads, n_rows, d].  Rows outside all segments become zeros."""
        out = torch.zeros_like(query.transpose(0, 1))
        n_heads, n_kv_heads = len(query), len(key)
        group = n_heads // n_kv_heads
        all_keys, all_values = self.pool.keys[layer], self.pool.values[layer]
        for i, segment in enumerate(self.segments):
            rows = slice(segment.first_row, segment.first_row + segment.n_rows)
            start = segment.first_slot + segment.position
            all_keys[:, start : start + segment.n_rows] = key[:, rows]
            all_values[:, start : start + segment.n_rows] = value[:, rows]
            slots = slice(segment.first_slot, segment.first_slot + segment.n_keys)
            keys, values = all_keys[None, :, slots], all_values[None, :, slots]
            mask = self._mask(i, sliding_window, group)
            q = query[:, rows]
            if segment.n_padded > segment.n_rows:
                q = torch.cat([q, q[:, -1:].expand(-1, segment.n_padded - segment.n_rows, -1)], dim=1)
            # The heads that share a KV head become rows, so keys and values need not be repeated.
            q = q.reshape(1, n_kv_heads, group * segment.n_padded, q.shape[-1])
            if softcap is None:
                found = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale)
            else:
                scores = torch.tanh(q @ keys.transpose(-1, -2) * scale / softcap) * softcap
                scores = scores if mask is None else scores + mask
                found = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) @ values
            out[rows] = found.reshape(n_heads, segment.n_padded, -1)[:, : segment.n_rows].transpose(0, 1)
        return out

    def _mask(self, index: int, sliding_window: int | None, group: int) -> torch.Tensor | None:
        """Return the additive mask [group * n_padded, n_keys] of one segment, which is made once in a pass.  The result
        is None if a single row sees every key."""
        segment = self.segments[index]
        if sliding_window is not None and sliding_window >= segment.n_keys:
            sliding_window = None
        if sliding_window is None and segment.n_padded == 1 and segment.n_keys == segment.position + 1:
            return None
        if (index, sliding_window, group) not in self._masks:
            shape = self.pool.shape
            rows = torch.arange(segment.n_padded, device=shape.device).clamp(max=segment.n_rows - 1)[:, None]
            rows = rows + segment.position
            keys = torch.arange(segment.n_keys, device=shape.device)[None, :]
            visible = keys <= rows
            if sliding_window is not None:
                visible &= rows - keys < sliding_window
            mask = torch.zeros(visible.shape, dtype=shape.dtype, device=shape.device)
            mask = mask.masked_fill_(~visible, float("-inf")).repeat(group, 1)
            self._masks[index, sliding_window, group] = mask
        return self._masks[index, sliding_window, group]


# -- the Triton kernel -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TileShape:
    """The amount of work of one program of the kernel.

    A program handles `rows` rows of queries: tokens times the `group` heads that share a KV head.  It goes through a
    range of `split` absolute positions, `keys` keys at a time.  Other values may change the results bitwise, so an
    engine has only one shape.
    """

    rows: int = 64
    keys: int = 64
    split: int = 512
    warps: int = 4
    stages: int = 2
    group: int = 1

    @classmethod
    def for_model(cls, head_dim: int, group: int, dtype: torch.dtype, *, split: int = 512) -> TileShape:
        """Return a tile that fits into registers and shared memory.  It has as many rows as the tensor cores of a warp
        group take at once.  In float32, which does not use these cores, it has fewer rows."""
        rows, keys, warps = (64, 64, 4) if dtype.itemsize == 2 else (16, 32, 4)
        if head_dim > 128:
            keys, warps = keys // 2, 8
        while rows < group:
            rows *= 2
        return cls(rows=rows, keys=keys, split=split, warps=warps, group=group)

    def n_splits(self, n_positions: int) -> int:
        """Return the number of splits (ranges of `split` positions) that hold `n_positions` positions, at least one."""
        return max(1, -(-n_positions // self.split))

    def least_tiles(self, n_rows: int) -> int:
        """Return the number of tiles of a pass if all its rows belong to one session.  No pass of `n_rows` rows has
        fewer tiles."""
        return -(-n_rows // (self.rows // self.group))

    def cut(self, first_row: int, n_rows: int, first_slot: int) -> list[tuple[int, int, int]]:
        """Return the tiles of one session's rows, in the form of `Places.tiles`.  A tile never divides a token."""
        n_tokens = self.rows // self.group
        return [(first_row + start, min(n_tokens, n_rows - start), first_slot) for start in range(0, n_rows, n_tokens)]


class Places(NamedTuple):
    """The places of the rows of a pass, on the device.

    `positions` [n_rows] int64.  `slots` [n_rows] int64, -1 for padding.  `tiles` [n_tiles, 3] int64: the first row, the
    number of rows (0 for an empty tile) and the session's first slot.  `n_splits`: at least the number of splits up to
    the last position.
    """

    positions: torch.Tensor
    slots: torch.Tensor
    tiles: torch.Tensor
    n_splits: int


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of `triton_attention` and `triton_kernels`.  Tests replace them with plain PyTorch."""

    store: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]
    attend_slots: Callable[..., torch.Tensor]
    choose_best: GreedyChoice = choose_greedily


@dataclass(frozen=True, slots=True)
class KernelPass:
    """The attention of one forward by the kernel.  The kernel reads all data from `inputs` on the device, so a captured
    pass can be replayed for other lengths, sessions and slots."""

    pool: SlotPool
    kernels: Kernels
    tile: TileShape
    inputs: PassInputs

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """Store keys and values and return the attention, as `PackedPass.attend` does."""
        keys, values, inputs = self.pool.keys[layer], self.pool.values[layer], self.inputs
        places = Places(inputs.positions, inputs.slots, inputs.tiles, inputs.key.n_splits)
        self.kernels.store(key, value, keys, values, inputs.slots)
        return self.kernels.attend_slots(query, keys, values, places, self.tile, **options)


def find_kernels(setting: AttentionSetting, device: torch.device) -> tuple[Kernels | None, str]:
    """Return the kernels for `setting` on `device` and an empty text, or None and the reason for using PyTorch's
    attention.  Raises MissingDependency if the setting demands the kernels, but they can't run here."""
    if setting == "sdpa":
        return None, "attention is set to sdpa"
    is_interpreted = device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if importlib.util.find_spec("triton") is None:
        lack = "triton is not installed"
    elif device.type == "cuda":
        lack = "" if torch.cuda.get_device_capability(device) >= (8, 0) else "the device is older than Ampere"
    elif is_interpreted:
        lack = "" if setting == "triton" else "the interpreter is for tests"
    else:
        lack = f"{device.type} has no Triton"
    if not lack:
        # At import, TRITON_INTERPRET decides whether the kernels are interpreted.
        attention = importlib.import_module("apply_service.engine.triton_attention")
        others = importlib.import_module("apply_service.engine.triton_kernels")
        return Kernels(attention.store, attention.attend_slots, others.choose_best), ""
    if setting == "triton":
        message = f"the attention kernel can't run here: {lack}"
        raise MissingDependency(message, value="triton", remedy="set attention to sdpa or auto")
    return None, lack


# -- rotary frequencies ------------------------------------------------------------------------------------------------
@torch.no_grad()
def fix_frequencies(model: Any, context_limit: int) -> None:
    """Choose the rotary frequencies of `longrope` models (Phi 3 and 4) once, for the longest sequence that the engine
    admits.  A second call does nothing.

    The library chooses the frequencies in each forward, by the largest position.  So in a packed pass, a long sequence
    would change the frequencies of a short one.  And if a sequence grew past the limit for short sequences, its cache
    would mix both kinds of frequencies.  `dynamic` frequencies need no fixing: they change only past the context limit,
    and no sequence gets there.
    """
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        kinds = kind if isinstance(kind, dict) else {None: kind}
        changing = [name for name, one in kinds.items() if one == "longrope"]
        for name in changing:
            # The module chooses by the largest position, so show it the largest possible position.
            device = next(module.buffers()).device
            positions = torch.tensor([[context_limit - 1]], device=device)
            module(torch.zeros(1, device=device), positions, **({} if name is None else {"layer_type": name}))
        if changing:  # the library does not know the kind "fixed", so it changes nothing in a forward
            fixed = {name: "fixed" if name in changing else one for name, one in kinds.items()}
            module.rope_type = fixed if isinstance(kind, dict) else "fixed"
