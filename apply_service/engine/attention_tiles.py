"""How the query rows of a packed pass are cut into tiles for the attention kernel: whole tokens of one session each.

Counts and tables only; the kernel itself is in `triton_attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class TileShape:
    """What one program of the kernel works on: `rows` rows of queries (tokens times the heads that share a KV head),
    `keys` keys at a time, of a stretch of `split` absolute positions.  A change of any of them may change bits, so an
    engine has one."""

    rows: int = 64
    keys: int = 64
    split: int = 512
    warps: int = 4
    stages: int = 2

    def tokens(self, group: int) -> int:
        """Query tokens of a tile where `group` query heads share a KV head."""
        return self.rows // group

    def n_splits(self, n_positions: int) -> int:
        """Stretches that positions 0..n_positions lie in, at least one."""
        return max(1, -(-n_positions // self.split))

    def cut(self, first_row: int, n_rows: int, first_slot: int, group: int) -> Iterator[tuple[int, int, int]]:
        """Tiles of one session's rows, as `Places.tiles` has them."""
        n_tokens = self.tokens(group)
        for start in range(0, n_rows, n_tokens):
            yield first_row + start, min(n_tokens, n_rows - start), first_slot


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a pass lie, on the device.

    `positions` [n_rows] int64; `slots` [n_rows] int64, -1 where the row is padding; `tiles` [n_tiles, 3] int64: first
    row, number of rows (0: nothing) and the session's first slot; `n_splits`: stretches of positions up to the last
    row, or more.
    """

    positions: torch.Tensor
    slots: torch.Tensor
    tiles: torch.Tensor
    n_splits: int


def shape_for(head_dim: int, group: int, dtype: torch.dtype, *, split: int = 512) -> TileShape:
    """The shape for a model: as many rows as the tensor cores of a warp group take at once (fewer in float32, which has
    no use of them), so that registers and shared memory hold a tile."""
    rows, keys, warps = (64, 64, 4) if dtype.itemsize == 2 else (16, 32, 4)
    if head_dim > 128:
        keys, warps = keys // 2, 8
    while rows < group:
        rows *= 2
    return TileShape(rows=rows, keys=keys, split=split, warps=warps)
