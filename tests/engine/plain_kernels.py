"""What the Triton kernels do, in plain PyTorch over the same tensors: the oracle, and what runs in their place where
Triton is not."""

from __future__ import annotations

import torch

from apply_service.engine.attention import Kernels, Places, TileShape


def store(
    key: torch.Tensor, value: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor
) -> None:
    """As `triton_attention.store`."""
    rows = (slots >= 0).nonzero()[:, 0]
    keys[:, slots[rows]] = key[:, rows]
    values[:, slots[rows]] = value[:, rows]


def attend_slots(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    places: Places,
    tile: TileShape,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """As `triton_attention.attend_slots`, a row at a time, in float64."""
    n_heads, n_rows, dim = query.shape
    group = n_heads // keys.shape[0]
    out = query.new_zeros((n_rows, n_heads, dim))
    for first, n_tokens, first_slot in places.tiles.tolist():
        for row in range(first, first + n_tokens):
            position = int(places.positions[row])
            assert position < places.n_splits * tile.split, "more positions than the pass has stretches for"
            oldest = 0 if sliding_window is None else max(0, position - sliding_window + 1)
            seen = slice(first_slot + oldest, first_slot + position + 1)
            k, v = (one[:, seen].double().repeat_interleave(group, 0) for one in (keys, values))
            scores = (k @ query[:, row, :, None].double())[..., 0] * scale
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            out[row] = (scores.softmax(-1)[:, None] @ v)[:, 0].to(out.dtype)
    return out


PLAIN = Kernels(store, attend_slots)
