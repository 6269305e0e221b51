"""The attention kernels under Triton's interpreter, against plain attention in float64 and against themselves."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention.bias import causal_lower_right

from apply_service.engine.attention import Places, TileShape
from tests.engine import plain_kernels

pytest.importorskip("triton", reason="Triton is not installed")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
SMALL = TileShape(rows=16, keys=32, split=64)
"""Many tiles and stretches of few positions, for an interpreter that takes milliseconds an operation."""
N_SLOTS = 512


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    name: str = getattr(request, "param", "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if name == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("TRITON_INTERPRET is not 1")
    return name


def products_keep_bits() -> bool:
    """Whether NumPy's product of a tile has the same bits for a row at each of its places: with OpenBLAS on processors
    without AVX-512 it has not."""
    rng = np.random.default_rng(0)
    row, right = rng.standard_normal(16, np.float32), rng.standard_normal((16, SMALL.keys), np.float32)
    found = set()
    for place in range(SMALL.rows):
        tile = rng.standard_normal((SMALL.rows, 16), np.float32)
        tile[place] = row
        found.add((tile @ right)[place].tobytes())
    return len(found) == 1


def kernels() -> ModuleType:
    from apply_service.engine import triton_attention

    return triton_attention


class Rows(NamedTuple):
    """One session's rows: `n_rows` from `position` on, its slots from `first_slot` on."""

    position: int
    n_rows: int
    first_slot: int


class Case:
    """Random keys, values and queries of a pass over `sessions`, with two rows of padding at its end."""

    def __init__(
        self, sessions: list[Rows], *, n_kv_heads: int, group: int, dim: int, dtype: torch.dtype = torch.float32,
        tile: TileShape = SMALL, device: str = "cpu", seed: int = 0,
    ) -> None:  # fmt: skip
        generator = torch.Generator().manual_seed(seed)
        size = (n_kv_heads, N_SLOTS, dim)
        self.keys, self.values = (torch.randn(size, generator=generator).to(device, dtype) for _ in range(2))
        self.sessions, self.tile, self.group = sessions, replace(tile, group=group), group
        n_rows = sum(one.n_rows for one in sessions) + 2
        self.query = torch.randn((n_kv_heads * group, n_rows, dim), generator=generator).to(device, dtype)
        positions, slots = torch.zeros(n_rows, dtype=torch.int64), torch.full((n_rows,), -1)
        tiles, first = [(0, 0, 0)], 0
        for one in sessions:
            here = torch.arange(one.position, one.position + one.n_rows)
            positions[first : first + one.n_rows], slots[first : first + one.n_rows] = here, here + one.first_slot
            tiles += self.tile.cut(first, one.n_rows, one.first_slot)
            first += one.n_rows
        n_splits = tile.n_splits(max(one.position + one.n_rows for one in sessions))
        self.places = Places(positions.to(device), slots.to(device), torch.tensor(tiles, device=device), n_splits)

    def run(self, module: Any, **options: Any) -> torch.Tensor:
        scale = self.query.shape[-1] ** -0.5
        out: torch.Tensor = module.attend_slots(
            self.query, self.keys, self.values, self.places, self.tile, scale=scale, **options
        )
        return out

    def check(self, **options: Any) -> None:
        exact = self.query.dtype == torch.float32
        wanted = self.run(plain_kernels, **options)
        torch.testing.assert_close(
            self.run(kernels(), **options), wanted, rtol=1e-5 if exact else 2e-2, atol=2e-6 if exact else 1e-2
        )


def odd_sessions(seed: int) -> list[Rows]:
    """An empty cache, a full one, and random lengths between."""
    rng = random.Random(seed)
    return [Rows(0, 1, 0), Rows(rng.randint(60, 90), rng.randint(2, 7), 7), Rows(rng.randint(1, 61), 3, 130)]


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("group", [1, 3, 5, 6, 7, 8])
def test_every_group_size(group: int, device: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    Case(odd_sessions(seed), n_kv_heads=2, group=group, dim=16, device=device, seed=seed).check()


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_head_size(dim: int, dtype: torch.dtype, device: str) -> None:
    tile = TileShape.for_model(dim, 3, dtype, split=64)
    Case([Rows(70, 5, 3)], n_kv_heads=1, group=3, dim=dim, dtype=dtype, tile=tile, device=device).check()


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("window", [1, 24, 70, 10_000])
def test_sliding_windows(window: int, device: str) -> None:
    Case([Rows(100, 5, 3), Rows(0, 3, 200)], n_kv_heads=1, group=2, dim=16, device=device).check(sliding_window=window)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_capped_scores(device: str) -> None:
    Case([Rows(70, 5, 3)], n_kv_heads=1, group=2, dim=16, device=device).check(softcap=1.5, sliding_window=20)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_against_the_librarys_causal_attention(device: str) -> None:
    """Bottom-right aligned, keys repeated: the oracle that is not of this project."""
    case = Case([Rows(81, 9, 5)], n_kv_heads=2, group=3, dim=32, device=device)
    keys, values = (one[:, 5:95].repeat_interleave(3, 0)[None] for one in (case.keys, case.values))
    wanted = F.scaled_dot_product_attention(case.query[None, :, :9], keys, values, attn_mask=causal_lower_right(9, 90))
    torch.testing.assert_close(case.run(kernels())[:9], wanted[0].transpose(0, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_rows_of_padding_are_zeros_and_slots_beyond_are_never_read(device: str) -> None:
    case = Case([Rows(66, 3, 10)], n_kv_heads=1, group=2, dim=16, device=device)
    wanted = case.run(kernels())
    case.keys[:, :10] = case.keys[:, 79:] = case.values[:, :10] = case.values[:, 79:] = float("nan")
    found = case.run(kernels())
    assert torch.equal(found, wanted)
    assert not found[3:].any()


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"sliding_window": 40, "softcap": 5.0}], ids=["plain", "sliding"])
def test_a_row_has_the_same_bits_in_any_window_and_beside_anybody(
    dtype: torch.dtype, options: dict[str, Any], device: str
) -> None:
    """The row at position 130, alone and at every kind of place in windows of 2 to 129 rows, with other grids too."""
    if device == "cpu" and not products_keep_bits():
        pytest.skip("the interpreter multiplies with NumPy, which on this processor rounds a row by its place")
    alone = Case([Rows(130, 1, 20)], n_kv_heads=1, group=3, dim=16, dtype=dtype, device=device)
    wanted = alone.run(kernels(), **options)[0]
    for n_rows, place in ((2, 0), (2, 1), (3, 1), (16, 9), (129, 0), (129, 128)):
        for beside in ([], [Rows(64, 4, 300)]):
            sessions = [*beside, Rows(130 - place, n_rows, 20)]
            case = Case(sessions, n_kv_heads=1, group=3, dim=16, dtype=dtype, device=device)
            row = place + sum(one.n_rows for one in beside)
            case.query[:, row] = alone.query[:, 0]
            assert torch.equal(case.run(kernels(), **options)[row], wanted), (n_rows, place, beside)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_new_keys_and_values_go_to_their_slots_and_nowhere_else(device: str) -> None:
    case = Case([Rows(3, 4, 10), Rows(0, 2, 100)], n_kv_heads=3, group=1, dim=24, device=device)
    # As models hand them over: keys of their own, values a part of a wider matrix.
    new = [torch.randn((8, 3, 24), device=device).transpose(0, 1), torch.randn((8, 5, 24), device=device)[:, 1:4]]
    new[1] = new[1].transpose(0, 1)
    pools = [[case.keys.clone(), case.values.clone()] for _ in range(2)]
    kernels().store(*new, *pools[0], case.places.slots)
    plain_kernels.store(*new, *pools[1], case.places.slots)
    for found, wanted in zip(*pools, strict=True):
        assert torch.equal(found, wanted)
    assert not torch.equal(pools[0][0], case.keys)
