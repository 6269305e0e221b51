"""Key-value slots of one session: a fixed length from admission to the end.

A fixed length keeps every pass of a session in one shape, which is what makes drafted and undrafted decoding equal
bit for bit (another KV length changes the kernels' blocking).  Rewinding is moving a number: what lies beyond the
length is masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class KVShape:
    """What one layer stores per token."""

    n_layers: int
    n_kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, config: object, dtype: torch.dtype, device: torch.device) -> KVShape:
        """From a Hugging Face text config."""
        n_heads: int = config.num_attention_heads  # type: ignore[attr-defined]
        hidden: int = config.hidden_size  # type: ignore[attr-defined]
        return cls(
            n_layers=config.num_hidden_layers,  # type: ignore[attr-defined]
            n_kv_heads=getattr(config, "num_key_value_heads", None) or n_heads,
            head_dim=getattr(config, "head_dim", None) or hidden // n_heads,
            dtype=dtype,
            device=device,
        )


class Slots:
    """`keys[layer]` and `values[layer]` [1, n_kv_heads, capacity, head_dim]."""

    def __init__(self, shape: KVShape, capacity: int) -> None:
        self.capacity = capacity
        size = (1, shape.n_kv_heads, capacity, shape.head_dim)
        # Zeros, not empty memory: a masked key has weight 0, but 0 times a stray NaN is NaN.
        self.keys = [torch.zeros(size, dtype=shape.dtype, device=shape.device) for _ in range(shape.n_layers)]
        self.values = [torch.zeros(size, dtype=shape.dtype, device=shape.device) for _ in range(shape.n_layers)]

    def write(
        self, layer: int, start: int, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store `key` and `value` [1, n_kv_heads, n_rows, head_dim] at `start`; returns the whole layer."""
        end = start + key.shape[2]
        self.keys[layer][:, :, start:end] = key
        self.values[layer][:, :, start:end] = value
        return self.keys[layer], self.values[layer]
