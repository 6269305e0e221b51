"""Attention of a packed pass, plugged into any Hugging Face model that uses the attention interface.

The model is called without a cache of its own: this function writes the new keys and values into our slots and attends
over them, so nothing here depends on the cache classes of a transformers version.  What it needs of the pass travels
as a keyword argument through the model's forward (`apply_pass`), never through a global.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.kv_cache import SlotPool

ATTENTION_NAME = "apply_service"


@dataclass(frozen=True, slots=True)
class Segment:
    """One session's rows in a packed pass.

    Rows `first_row..first_row + n_rows` of the pass are positions `position..` of the sequence, whose slots begin at
    `first_slot`.  `n_keys` slots are attended to; `n_padded` query rows go through the kernel, the last repeated.
    """

    first_row: int
    n_rows: int
    position: int
    first_slot: int
    n_keys: int
    n_padded: int


@dataclass(frozen=True, slots=True)
class PackedPass:
    """One forward as attention sees it."""

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
        """Store `key` and `value` [n_kv_heads, n_rows, d] and attend from `query` [n_heads, n_rows, d] ->
        [n_rows, n_heads, d]; rows that belong to no segment come out as zeros."""
        out = torch.zeros_like(query.transpose(0, 1))
        for i, segment in enumerate(self.segments):
            rows = slice(segment.first_row, segment.first_row + segment.n_rows)
            keys, values = _written(self.pool, layer, segment, key[:, rows], value[:, rows])
            mask = self.mask(i, sliding_window, query.shape[0] // keys.shape[0])
            folded = _folded(query[:, rows], keys.shape[0], segment.n_padded)
            if softcap is None:
                found = F.scaled_dot_product_attention(folded, keys[None], values[None], attn_mask=mask, scale=scale)
            else:
                found = _softcapped(folded, keys[None], values[None], mask, scale, softcap)
            out[rows] = found.reshape(query.shape[0], segment.n_padded, -1)[:, : segment.n_rows].transpose(0, 1)
        return out

    def mask(self, index: int, sliding_window: int | None, group: int) -> torch.Tensor | None:
        """Additive mask [group * n_padded, n_keys] of one segment, made once a pass; None where a single unpadded row
        sees every key."""
        segment = self.segments[index]
        if sliding_window is not None and sliding_window >= segment.n_keys:
            sliding_window = None
        if sliding_window is None and segment.n_padded == 1 and segment.n_keys == segment.position + 1:
            return None
        key = (index, sliding_window, group)
        if key not in self._masks:
            self._masks[key] = _additive_mask(segment, sliding_window, group, self.pool)
        return self._masks[key]


def _additive_mask(segment: Segment, sliding_window: int | None, group: int, pool: SlotPool) -> torch.Tensor:
    device = pool.shape.device
    rows = torch.arange(segment.n_padded, device=device).clamp(max=segment.n_rows - 1)[:, None] + segment.position
    keys = torch.arange(segment.n_keys, device=device)[None, :]
    visible = keys <= rows
    if sliding_window is not None:
        visible &= rows - keys < sliding_window
    mask = torch.zeros(visible.shape, dtype=pool.shape.dtype, device=device)
    return mask.masked_fill_(~visible, float("-inf")).repeat(group, 1)


class AnyPass(Protocol):
    """One forward as attention sees it: `PackedPass`, or `attention_kernel.KernelPass`."""

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
    ) -> torch.Tensor: ...


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001  the interface passes it; ours is in the pass
    *,
    apply_pass: AnyPass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_unused: Any,
) -> tuple[torch.Tensor, None]:
    """`query` [1, n_heads, n_rows, d], `key` and `value` [1, n_kv_heads, n_rows, d] -> ([1, n_rows, n_heads, d], None).

    Rows of padding come out as zeros.
    """
    if s_aux is not None:
        raise NotImplementedError("attention sinks")
    layer = int(cast(Any, module).layer_idx)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    found = apply_pass.attend(
        layer, query[0], key[0], value[0], scale=scale, sliding_window=sliding_window, softcap=softcap
    )
    return found[None], None


def _written(
    pool: SlotPool, layer: int, segment: Segment, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Store the new keys and values [n_kv_heads, n_rows, d]; returns all that the segment attends to."""
    start = segment.first_slot + segment.position
    pool.keys[layer][:, start : start + segment.n_rows] = key
    pool.values[layer][:, start : start + segment.n_rows] = value
    slots = slice(segment.first_slot, segment.first_slot + segment.n_keys)
    return pool.keys[layer][:, slots], pool.values[layer][:, slots]


def _folded(query: torch.Tensor, n_kv_heads: int, n_padded: int) -> torch.Tensor:
    """[n_heads, n_rows, d] -> [1, n_kv_heads, group * n_padded, d]: the queries of one KV head become rows, so that
    keys and values are never repeated; the last row repeated up to `n_padded`."""
    n_heads, n_rows, dim = query.shape
    if n_padded > n_rows:
        query = torch.cat([query, query[:, -1:].expand(-1, n_padded - n_rows, -1)], dim=1)
    return query.reshape(1, n_kv_heads, n_heads // n_kv_heads * n_padded, dim)


def _softcapped(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scale: float, cap: float
) -> torch.Tensor:
    scores = torch.tanh(query @ keys.transpose(-1, -2) * scale / cap) * cap
    scores = scores if mask is None else scores + mask
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype) @ values


def register() -> str:
    """Make `attend` known to transformers; returns the name for `attn_implementation`.

    No mask function goes with it: for an attention without one the library makes no mask and asks the device nothing
    about one, which a captured pass could not answer.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, attend)
    return ATTENTION_NAME
