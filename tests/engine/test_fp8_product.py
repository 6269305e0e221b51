"""Which way an fp8 matrix is multiplied on CUDA, with a library that refuses what cuBLAS refuses on Hopper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from apply_service.engine import eight_bit
from apply_service.engine.eight_bit import find_way, multiply_fp8, quantise_rows

LONG = 64
"""Columns from which on this library has no scales within, for up to 256 rows."""


def scaled_mm(
    left: torch.Tensor, right: torch.Tensor, *, scale_a: torch.Tensor, scale_b: torch.Tensor, out_dtype: Any, **_: Any
) -> torch.Tensor:
    if scale_a.numel() > 1 and left.shape[1] >= LONG and len(left) <= 256:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED")
    assert (out_dtype == torch.bfloat16) == (scale_a.numel() > 1)
    return (left.float() @ right.float() * scale_a * scale_b).to(out_dtype)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    yield
    eight_bit._ways.clear()


@pytest.mark.parametrize(("n_columns", "way"), [(LONG // 2, "within"), (LONG, "after")])
def test_a_matrix_has_the_way_that_takes_every_number_of_rows(n_columns: int, way: str) -> None:
    x, weights = torch.randn(32, n_columns), torch.randn(48, n_columns)
    rows, known = quantise_rows(x, "fp8"), quantise_rows(weights, "fp8")
    found = find_way(known.values)
    assert found == way
    product = multiply_fp8(rows, known.values, known.scales, found).float()
    wanted = rows.values.float() @ known.values.float().T
    scaled = wanted * rows.scales * known.scales.T
    torch.testing.assert_close(product, scaled if way == "within" else wanted, rtol=1e-2, atol=1e-2)


def test_it_is_tried_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.zeros((48, LONG), dtype=torch.float8_e4m3fn)
    assert find_way(values) == "after"
    monkeypatch.setattr(torch, "_scaled_mm", None)
    assert find_way(values.clone()) == "after"
