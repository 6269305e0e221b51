"""`rows.quantise_rows` to fp8 as one Triton kernel, and the scaling of a product as another: eager steps would launch
six and four for every linear layer of a pass.

Quantising, one program has the whole row in registers; division and rounding as in torch, so the bits are the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from apply_service.engine.weights.rows import LEAST_SCALE, LIMITS, Rows

WIDE = 8192
"""Columns from which on a row gets more warps."""
SCALED_COLUMNS = 2048
"""Columns of a product that one program scales."""


@triton.jit
def _quantise(
    x,
    values,
    scales,
    n_columns,
    stride,
    limit: tl.constexpr,
    least: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < n_columns
    exact = tl.load(x + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    broken = tl.max((exact != exact).to(tl.int32), axis=0)  # the maximum of a row drops a NaN
    scale = tl.maximum(tl.math.div_rn(tl.max(tl.abs(exact), axis=0), limit), least)
    scale = tl.where(broken > 0, float("nan"), scale)
    scaled = tl.math.div_rn(exact, tl.zeros([block], tl.float32) + scale)
    scaled = tl.where(scaled > limit, limit, tl.where(scaled < -limit, -limit, scaled))
    tl.store(values + row * n_columns + columns, scaled.to(tl.float8e4nv), mask=inside)
    tl.store(scales + row, scale)


@triton.jit
def _scale(
    product, row_scales, column_scales, bias, out, n_columns, stride, has_bias: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < n_columns
    exact = tl.load(product + row * stride + columns, mask=inside, other=0.0)
    exact = exact * tl.load(row_scales + row) * tl.load(column_scales + columns, mask=inside, other=0.0)
    if has_bias:
        exact += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * n_columns + columns, exact.to(out.dtype.element_ty), mask=inside)


def scale_product(
    product: torch.Tensor,
    row_scales: torch.Tensor,
    column_scales: torch.Tensor,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """`product` [n_rows, n_columns] float32 times the scales of its rows and columns, [n_rows or more, 1] and
    [n_columns, 1], plus `bias` [n_columns], rounded once to `dtype`."""
    n_rows, n_columns = product.shape
    out = torch.empty((n_rows, n_columns), dtype=dtype, device=product.device)
    _scale[(n_rows, triton.cdiv(n_columns, SCALED_COLUMNS))](
        product,
        row_scales,
        column_scales,
        column_scales if bias is None else bias,
        out,
        n_columns,
        product.stride(0),
        has_bias=bias is not None,
        block=SCALED_COLUMNS,
        num_warps=8,
    )
    return out


def quantise_rows_fp8(x: torch.Tensor, *, grain: int = 1) -> Rows:
    """`x` [n_rows, n_columns], columns next to each other, on CUDA -> as `rows.quantise_rows(x, "fp8")`, followed by
    rows of anything up to a multiple of `grain`."""
    n_rows, n_columns = x.shape
    n_made = triton.cdiv(n_rows, grain) * grain
    values = torch.empty((n_made, n_columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((n_made, 1), dtype=torch.float32, device=x.device)
    _quantise[(n_rows,)](
        x,
        values,
        scales,
        n_columns,
        x.stride(0),
        limit=LIMITS["fp8"],
        least=LEAST_SCALE,
        block=triton.next_power_of_2(n_columns),
        num_warps=16 if n_columns > WIDE else 8,
    )
    return Rows(values, scales)
