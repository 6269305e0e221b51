"""The slots of an engine: room for the keys and values of so many tokens, lent to sessions in ranges.

A session's range is fixed from admission to its end and consecutive, so that attention needs no table and rewinding is
moving a number: what lies beyond a session's length is masked.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from apply_service.errors import EngineFailure

ALIGNMENT_BYTES = 64


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

    @property
    def bytes_per_slot(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * self.dtype.itemsize


class SlotPool:
    """`keys[layer]` and `values[layer]` [n_kv_heads, n_slots, head_dim], and which ranges of slots are free."""

    def __init__(self, shape: KVShape, n_slots: int) -> None:
        self.shape = shape
        self.n_slots = n_slots
        size = (shape.n_kv_heads, n_slots, shape.head_dim)
        self.keys = [_zeros(size, shape) for _ in range(shape.n_layers)]
        self.values = [_zeros(size, shape) for _ in range(shape.n_layers)]
        self._free = [(0, n_slots)]
        self._makers_of_room: list[Callable[[int], bool]] = []

    @property
    def n_free(self) -> int:
        return sum(stop - start for start, stop in self._free)

    def when_full(self, make_room: Callable[[int], bool]) -> None:
        """Have `make_room(n_slots)` asked where no range of that length is free; it says whether one is now."""
        self._makers_of_room.append(make_room)

    def take(self, n_slots: int) -> range | None:
        """The first free range of that length; None where there is none and none can be made."""
        slots = self._take_free(n_slots)
        if slots is None and any(make_room(n_slots) for make_room in self._makers_of_room):
            slots = self._take_free(n_slots)
        return slots

    def _take_free(self, n_slots: int) -> range | None:
        for i, (start, stop) in enumerate(self._free):
            if stop - start >= n_slots:
                self._free[i : i + 1] = [(start + n_slots, stop)] if stop - start > n_slots else []
                return range(start, start + n_slots)
        return None

    def find(self, n_slots: int, also_free: Iterable[range] = ()) -> range | None:
        """The first free range of that length, were those of `also_free` free too; takes nothing."""
        free = _joined(sorted([*self._free, *((slots.start, slots.stop) for slots in also_free)]))
        return next((range(start, start + n_slots) for start, stop in free if stop - start >= n_slots), None)

    def give_back(self, slots: range) -> None:
        """Free a range, or a part of one, that `take` gave.

        Raises:
            EngineFailure: some of it is free already, or not of this pool; nothing has changed then.
        """
        if not slots:
            return
        if slots.start < 0 or slots.stop > self.n_slots:
            raise EngineFailure(
                f"{slots.start}..{slots.stop} are not slots of this pool", value=[slots.start, slots.stop]
            )
        if any(slots.start < stop and start < slots.stop for start, stop in self._free):
            raise EngineFailure(f"slots {slots.start}..{slots.stop} were freed twice", value=[slots.start, slots.stop])
        insort(self._free, (slots.start, slots.stop))
        self._free = _joined(self._free)

    def clear(self, slots: range) -> None:
        """Zero a range: a masked key has weight 0, but 0 times what a broken request left there may be NaN."""
        for layer in (*self.keys, *self.values):
            layer[:, slots.start : slots.stop] = 0

    def copy(self, source: range, target: range) -> None:
        """Keys and values of `source` into `target`, of one length."""
        for layer in (*self.keys, *self.values):
            layer[:, target.start : target.stop] = layer[:, source.start : source.stop]


def _joined(free: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, stop in free:
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], stop)
        else:
            out.append((start, stop))
    return out


def _zeros(size: tuple[int, ...], shape: KVShape) -> torch.Tensor:
    """Zeros; on the CPU in pages that the system hands out when they are first touched, aligned as kernels like it."""
    if shape.device.type != "cpu":
        return torch.zeros(size, dtype=shape.dtype, device=shape.device)
    n_bytes = int(np.prod(size)) * shape.dtype.itemsize
    raw = torch.from_numpy(np.zeros(n_bytes + ALIGNMENT_BYTES, np.uint8))
    skip = -raw.data_ptr() % ALIGNMENT_BYTES
    return raw[skip : skip + n_bytes].view(shape.dtype).view(size)
