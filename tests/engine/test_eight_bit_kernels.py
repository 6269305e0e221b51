"""The kernels for weights and activations in 8 bits, against the same in torch: under Triton's interpreter on a CPU
(TRITON_INTERPRET=1), and compiled on CUDA."""

from __future__ import annotations

import os

import pytest
import torch

from apply_service.engine.eight_bit import LEAST_SCALE, LIMITS, ScaledRows, quantise_rows
from tests.engine.test_scaled_rows import restore

pytest.importorskip("triton", reason="Triton is not installed")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
E4M3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if name == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("TRITON_INTERPRET is not 1")
    return name


def quantised(x: torch.Tensor, *, grain: int = 1) -> ScaledRows:
    from apply_service.engine.triton_kernels import quantise_rows_fp8

    return ScaledRows(*quantise_rows_fp8(x, LIMITS["fp8"], LEAST_SCALE, grain=grain))


def random_rows(n_rows: int, n_columns: int, device: str) -> torch.Tensor:
    """Rows of very different sizes."""
    x = torch.randn(n_rows, n_columns, generator=torch.Generator().manual_seed(3))
    return (x * torch.logspace(-3, 3, n_rows)[:, None]).to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [(1, 96), (5, 100), (17, 1025)])
def test_scales_of_activations_are_torchs(size: tuple[int, int], dtype: torch.dtype, device: str) -> None:
    x = random_rows(*size, device).to(dtype)
    found, wanted = quantised(x), quantise_rows(x, "fp8")
    assert torch.equal(found.scales, wanted.scales)
    if device == "cuda":  # the interpreter rounds to 8 bits wrongly where a carry reaches the exponent
        assert torch.equal(found.values.float(), wanted.values.float())


def test_numbers_that_fp8_has_are_kept(device: str) -> None:
    known = E4M3[~E4M3.isnan()].to(device)
    x = torch.stack([known * 2.0**power for power in (-8, 0, 5)])
    assert torch.equal(quantised(x).values.float(), known.expand(3, -1))


def test_broken_rows_stay_broken_and_zeros_zeros(device: str) -> None:
    x = torch.ones(3, 40, device=device)
    x[0, 7] = float("nan")
    x[1] = 0
    found = quantised(x)
    assert bool(found.scales[0].isnan().all())
    assert bool((found.values[1].float() == 0).all())
    assert not bool(found.scales[1:].isnan().any())


def test_a_slice_of_a_larger_tensor_is_read_by_its_rows(device: str) -> None:
    whole = random_rows(4, 96, device)
    part = whole[:, :64]
    assert torch.equal(quantised(part).scales, quantise_rows(part.clone(), "fp8").scales)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("size", [(1, 96, 40), (5, 300, 33), (70, 256, 64)])
def test_products_with_int8_weights(size: tuple[int, int, int], has_bias: bool, device: str) -> None:
    from apply_service.engine.triton_kernels import multiply_int8

    n_rows, n_columns, n_out = size
    x = torch.randn(n_rows, n_columns, generator=torch.Generator().manual_seed(1)).to(device)
    weights = quantise_rows(random_rows(n_out, n_columns, device), "int8")
    bias = torch.randn(n_out, generator=torch.Generator().manual_seed(2)).to(device) if has_bias else None
    wanted = x @ restore(weights).T
    wanted = wanted if bias is None else wanted + bias
    found = multiply_int8(x, weights.values, weights.scales, bias)
    size_of_sum = x.norm(dim=1)[:, None] * restore(weights).norm(dim=1)[None]  # as large as the sum may be
    assert bool(((found - wanted).abs() <= 1e-6 * size_of_sum + 1e-6).all())


def test_a_row_of_an_int8_product_is_the_same_in_any_company(device: str) -> None:
    from apply_service.engine.triton_kernels import multiply_int8

    x = torch.randn(40, 256, generator=torch.Generator().manual_seed(1)).to(device)
    weights = quantise_rows(random_rows(48, 256, device), "int8")
    together = multiply_int8(x, weights.values, weights.scales, None)
    for n_rows in (1, 3, 17):
        assert torch.equal(multiply_int8(x[:n_rows], weights.values, weights.scales, None), together[:n_rows])


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_product_is_scaled_by_rows_and_columns(has_bias: bool, device: str) -> None:
    from apply_service.engine.triton_kernels import scale_product

    generator = torch.Generator().manual_seed(4)
    product = (torch.randn((32, 2100), generator=generator) * 1e6).to(device)[:5]
    row_scales, column_scales = (torch.rand((n, 1), generator=generator).to(device) for n in (32, 2100))
    bias = torch.randn(2100, generator=generator).to(device, torch.bfloat16) if has_bias else None
    found = scale_product(product, row_scales, column_scales, bias, torch.bfloat16)
    wanted = product * row_scales[:5] * column_scales.T
    wanted = wanted if bias is None else wanted + bias.float()
    torch.testing.assert_close(found, wanted.bfloat16(), rtol=1e-2, atol=0)


def test_rows_are_made_up_to_a_grain(device: str) -> None:
    x = random_rows(5, 96, device)
    found, wanted = quantised(x, grain=32), quantised(x)
    assert found.values.shape == (32, 96)
    assert found.scales.shape == (32, 1)
    assert torch.equal(found.scales[:5], wanted.scales)
    assert torch.equal(found.values[:5].view(torch.uint8), wanted.values.view(torch.uint8))
