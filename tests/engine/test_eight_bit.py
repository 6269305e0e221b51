"""Linear layers in 8 bits against float32 ones, and the shapes, types and tricks of the projections joined."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from apply_service.engine.eight_bit import EightBitLinear, Format, can_be
from apply_service.engine.weights import Projection, join_projections

TOLERANCE = {"fp8": 0.05, "int8": 0.015}
"""Of the result's norm, on random numbers: two roundings to 3 bits of fraction (2.6% each), or one to 127 steps."""


def linear(n_in: int, n_out: int, *, bias: bool = True, seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    made = nn.Linear(n_in, n_out, bias=bias)
    with torch.no_grad():
        made.weight.mul_(torch.logspace(-2, 2, n_out)[:, None])  # outputs of very different sizes
    return made.requires_grad_(False)


@pytest.mark.parametrize("number_format", ["fp8", "int8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_close_to_the_layer_itself(number_format: Format, dtype: torch.dtype, bias: bool) -> None:
    exact = linear(256, 96, bias=bias)
    x = torch.randn(10, 40, 256)
    found = EightBitLinear(linear(256, 96, bias=bias).to(dtype), number_format)(x.to(dtype))
    assert found.dtype == dtype
    assert found.shape == (10, 40, 96)
    wanted = exact(x)
    error = (found.float() - wanted).norm(dim=(0, 1)) / wanted.norm(dim=(0, 1))  # of every output by itself
    assert float(error.max()) < TOLERANCE[number_format] + (0.01 if dtype == torch.bfloat16 else 0)


def test_sizes_that_the_fp8_kernel_can_not_take_are_known() -> None:
    assert can_be(linear(32, 48), "fp8")
    assert not can_be(linear(40, 48), "fp8")
    assert not can_be(linear(32, 24), "fp8")
    assert can_be(linear(33, 7), "int8")


class Attention(nn.Module):
    """The projections of a published architecture."""

    def __init__(self, *, bias: bool = True, n_in_values: int = 64) -> None:
        super().__init__()
        self.q_proj, self.k_proj = linear(64, 96, bias=bias, seed=1), linear(64, 32, bias=bias, seed=2)
        self.v_proj = linear(n_in_values, 32, bias=bias, seed=3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)


@pytest.mark.parametrize("bias", [True, False])
def test_joined_projections_give_what_each_gave(bias: bool) -> None:
    x = torch.randn(1, 16, 64)
    wanted = Attention(bias=bias)(x)
    joined = Attention(bias=bias)
    join_projections(joined)
    assert isinstance(joined.q_proj, Projection)
    assert isinstance(joined.v_proj, Projection)
    for found, exact in zip(joined(x), wanted, strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-4)
    assert sum(p.numel() for p in joined.parameters()) == sum(p.numel() for p in Attention(bias=bias).parameters())


def test_nothing_is_kept_once_all_have_taken_their_parts() -> None:
    joined = Attention()
    join_projections(joined)
    joined(torch.randn(1, 4, 64))
    first = joined.q_proj
    assert isinstance(first, Projection)
    assert first.joined._input is None
    assert first.joined._parts == [None, None, None]


def test_a_part_of_another_input_is_never_handed_out() -> None:
    plain, joined = Attention(), Attention()
    join_projections(joined)
    first, second = torch.randn(1, 4, 64), torch.randn(1, 4, 64)
    joined.q_proj(first)
    torch.testing.assert_close(joined.k_proj(second), plain.k_proj(second), rtol=1e-5, atol=1e-4)
    joined.q_proj(first)
    joined.k_proj(first)
    first.mul_(2)
    joined.q_proj(first)  # the same tensor with other numbers, as a buffer that is written anew
    torch.testing.assert_close(joined.k_proj(first), plain.k_proj(first), rtol=1e-5, atol=1e-4)


def test_what_does_not_share_its_input_is_left_alone() -> None:
    other = Attention(n_in_values=32)
    join_projections(other)
    assert all(isinstance(m, nn.Linear) for m in (other.q_proj, other.k_proj, other.v_proj))
