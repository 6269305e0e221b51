"""Activations times int8 weights as one Triton kernel, which reads every weight once, as a byte.

Weight-only: activations stay in their own format, so for small cards the gain is memory and bandwidth, not arithmetic.
A row of the result is one sum over fixed blocks of columns in a fixed order, whatever the number of rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK_COLUMNS = 128
BLOCK_OUT = 32
MAX_BLOCK_ROWS = 64


@triton.jit
def _multiply(
    x,
    weights,
    scales,
    bias,
    out,
    n_rows,
    n_out,
    stride,
    n_columns: tl.constexpr,
    has_bias: tl.constexpr,
    block_rows: tl.constexpr,
    block_out: tl.constexpr,
    block_columns: tl.constexpr,
):
    rows = (tl.program_id(1) * block_rows + tl.arange(0, block_rows)).to(tl.int64)
    outs = (tl.program_id(0) * block_out + tl.arange(0, block_out)).to(tl.int64)
    columns = tl.arange(0, block_columns)
    is_row, is_out = rows < n_rows, outs < n_out
    total = tl.zeros([block_rows, block_out], tl.float32)
    for first in range(0, n_columns, block_columns):
        here = first + columns
        is_column = here < n_columns
        left = tl.load(x + rows[:, None] * stride + here[None, :], mask=is_row[:, None] & is_column[None, :], other=0.0)
        right = tl.load(
            weights + outs[None, :] * n_columns + here[:, None], mask=is_out[None, :] & is_column[:, None], other=0
        )
        total += tl.dot(left, right.to(left.dtype), input_precision="ieee")
    total *= tl.load(scales + outs, mask=is_out, other=0.0)[None, :]
    if has_bias:
        total += tl.load(bias + outs, mask=is_out, other=0.0).to(tl.float32)[None, :]
    places = out + rows[:, None] * n_out + outs[None, :]
    tl.store(places, total.to(out.dtype.element_ty), mask=is_row[:, None] & is_out[None, :])


def multiply_int8(
    x: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """`x` [n_rows, n_columns], columns next to each other; `weights` [n_out, n_columns] int8, `scales` [n_out, 1]
    float32, `bias` [n_out] -> [n_rows, n_out] in the type of `x`, summed in float32."""
    n_rows, n_columns = x.shape
    n_out = weights.shape[0]
    out = torch.empty((n_rows, n_out), dtype=x.dtype, device=x.device)
    block_rows = min(MAX_BLOCK_ROWS, max(16, triton.next_power_of_2(n_rows)))
    grid = (triton.cdiv(n_out, BLOCK_OUT), triton.cdiv(n_rows, block_rows))
    _multiply[grid](
        x,
        weights,
        scales,
        scales if bias is None else bias,
        out,
        n_rows,
        n_out,
        x.stride(0),
        n_columns=n_columns,
        has_bias=bias is not None,
        block_rows=block_rows,
        block_out=BLOCK_OUT,
        block_columns=BLOCK_COLUMNS,
    )
    return out
