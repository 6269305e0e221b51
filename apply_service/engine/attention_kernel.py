"""Attention of a packed pass through kernels that read everything they need of it from device tensors, so that a pass
can be captured once and replayed for other lengths, sessions and slots.

The other way, `attention.PackedPass`, calls PyTorch's attention once a session.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from apply_service.engine.attention import Segment
from apply_service.engine.attention_tiles import Places, TileShape
from apply_service.engine.device_choice import Chooser, choose_greedily
from apply_service.engine.device_inputs import PassInputs
from apply_service.engine.kv_cache import SlotPool
from apply_service.errors import MissingDependency

AttentionSetting = Literal["auto", "sdpa", "triton"]
KERNEL_MODULES = ("attention", "choice")


@dataclass(frozen=True, slots=True)
class Kernels:
    """As in `triton_attention` and `triton_choice`; tests put plain PyTorch in their place."""

    store: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]
    attend_slots: Callable[..., torch.Tensor]
    choose_best: Chooser = choose_greedily


@dataclass(frozen=True, slots=True)
class KernelAttention:
    """The attention of one engine: `group` query heads share a KV head."""

    kernels: Kernels
    tile: TileShape
    group: int

    def tiles(self, segments: Sequence[Segment]) -> list[tuple[int, int, int]]:
        """The tiles of a pass, as `Places` has them."""
        cuts = (self.tile.cut(one.first_row, one.n_rows, one.first_slot, self.group) for one in segments)
        return [tile for cut in cuts for tile in cut]

    def n_tiles(self, n_rows: int) -> int:
        """Tiles of a pass whose rows are all of one session: no pass has room for fewer.  Empty ones cost little, and
        windows of all lengths make one kind of pass."""
        return -(-n_rows // self.tile.tokens(self.group))

    def n_splits(self, segments: Sequence[Segment]) -> int:
        """Stretches of positions that the longest session of a pass has."""
        return self.tile.n_splits(max(one.position + one.n_rows for one in segments))

    def over(self, inputs: PassInputs, pool: SlotPool) -> KernelPass:
        """Attention of the pass that has these inputs, whatever they will hold."""
        places = Places(inputs.positions, inputs.slots, inputs.tiles, inputs.key.n_splits)
        return KernelPass(pool, self.kernels, places, self.tile)


@dataclass(frozen=True, slots=True)
class KernelPass:
    """One forward as attention sees it."""

    pool: SlotPool
    kernels: Kernels
    places: Places
    tile: TileShape

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
        """As `attention.PackedPass.attend`."""
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        self.kernels.store(key, value, keys, values, self.places.slots)
        return self.kernels.attend_slots(
            query, keys, values, self.places, self.tile, scale=scale, sliding_window=sliding_window, softcap=softcap
        )


def find_kernels(setting: AttentionSetting, device: torch.device) -> tuple[Kernels | None, str]:
    """The kernels that `setting` means on `device`, None where it is PyTorch's own attention; and why there are none
    where they were not refused by name.

    Raises:
        MissingDependency: they were asked for by name and can't run here.
    """
    if setting == "sdpa":
        return None, "attention is set to sdpa"
    lack = _lack(device)
    if setting == "auto" and not lack and device.type != "cuda":
        lack = "the interpreter is for tests"
    if lack and setting == "triton":
        raise MissingDependency(
            f"the attention kernel can't run here: {lack}", value="triton", remedy="set attention to sdpa or auto"
        )
    return (None, lack) if lack else (load_kernels(), "")


def load_kernels() -> Kernels:
    """The Triton kernels.  Importing them decides by TRITON_INTERPRET whether they are interpreted."""
    attention, choice = (importlib.import_module(f"apply_service.engine.triton_{name}") for name in KERNEL_MODULES)
    return Kernels(attention.store, attention.attend_slots, choice.choose_best)


def _lack(device: torch.device) -> str:
    """What is missing to run Triton kernels on `device`."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if device.type == "cuda":
        return "" if torch.cuda.get_device_capability(device) >= (8, 0) else "the device is older than Ampere"
    return "" if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1" else f"{device.type} has no Triton"
