"""Attention of a window of new tokens over a session's slots, plugged into any Hugging Face model that uses the
attention interface.

The model is called without a cache of its own: this function writes the new keys and values into our slots and attends
over them, so nothing here depends on the cache classes of a transformers version.  What it needs of the pass travels
as a keyword argument through the model's forward (`apply_pass`), never through a global.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.kv_cache import Slots

ATTENTION_NAME = "apply_service"


@dataclass(frozen=True, slots=True)
class WindowPass:
    """One forward as attention sees it: rows [n_rows] are consecutive positions of one session from `start`.

    `n_keys` is how much of the slots is attended to: the whole capacity, so that every pass of a session has one
    shape, or just what is filled (the unpadded baseline).
    """

    slots: Slots
    start: int
    n_rows: int
    n_keys: int
    visible: torch.Tensor
    """[n_rows, n_keys] bool: key k is visible to row r."""

    @classmethod
    def over(cls, slots: Slots, *, start: int, n_rows: int, n_keys: int) -> WindowPass:
        device = slots.keys[0].device
        rows = torch.arange(start, start + n_rows, device=device)
        keys = torch.arange(n_keys, device=device)
        return cls(slots, start, n_rows, n_keys, keys[None, :] <= rows[:, None])


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001  the interface passes it; ours is in the pass
    *,
    apply_pass: WindowPass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_unused: Any,
) -> tuple[torch.Tensor, None]:
    """`query` [1, n_heads, n_rows, d], `key` and `value` [1, n_kv_heads, n_rows, d] -> ([1, n_rows, n_heads, d], None).

    Queries of one KV head are folded into rows, so that keys and values are never repeated.
    """
    if s_aux is not None:
        raise NotImplementedError("attention sinks")
    layer = int(cast(Any, module).layer_idx)
    keys, values = apply_pass.slots.write(layer, apply_pass.start, key, value)
    keys, values = keys[:, :, : apply_pass.n_keys], values[:, :, : apply_pass.n_keys]
    _, n_heads, n_rows, dim = query.shape
    n_kv_heads = keys.shape[1]
    group = n_heads // n_kv_heads
    visible = _within(apply_pass, sliding_window)
    scale = dim**-0.5 if scaling is None else scaling
    folded = query.reshape(1, n_kv_heads, group * n_rows, dim)
    visible = visible.repeat(group, 1) if group > 1 else visible
    if softcap is None:
        out = F.scaled_dot_product_attention(folded, keys, values, attn_mask=visible, scale=scale)
    else:
        out = _softcapped(folded, keys, values, visible, scale, softcap)
    return out.reshape(1, n_heads, n_rows, -1).transpose(1, 2).contiguous(), None


def _within(apply_pass: WindowPass, sliding_window: int | None) -> torch.Tensor:
    if sliding_window is None or sliding_window >= apply_pass.n_keys:
        return apply_pass.visible
    device = apply_pass.visible.device
    rows = torch.arange(apply_pass.start, apply_pass.start + apply_pass.n_rows, device=device)
    keys = torch.arange(apply_pass.n_keys, device=device)
    return apply_pass.visible & (rows[:, None] - keys[None, :] < sliding_window)


def _softcapped(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, visible: torch.Tensor, scale: float, cap: float
) -> torch.Tensor:
    scores = torch.tanh(query @ keys.transpose(-1, -2) * scale / cap) * cap
    scores = scores.masked_fill(~visible, float("-inf"))
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype) @ values


def _no_mask(*_: Any, **__: Any) -> None:
    """The mask is the pass's own; the model must build none."""


def register() -> str:
    """Make `attend` known to transformers; returns the name for `attn_implementation`."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(ATTENTION_NAME, attend)
    AttentionMaskInterface.register(ATTENTION_NAME, _no_mask)
    return ATTENTION_NAME
