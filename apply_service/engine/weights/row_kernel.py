"""`rows.quantise_rows` to fp8 as one Triton kernel: eager steps would launch six for every linear layer of a pass.

One program a row, the whole row in registers; division and rounding as in torch, so the bits are the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from apply_service.engine.weights.rows import LEAST_SCALE, LIMITS, Rows

WIDE = 8192
"""Columns from which on a row gets more warps."""


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


def quantise_rows_fp8(x: torch.Tensor) -> Rows:
    """`x` [n_rows, n_columns], columns next to each other, on CUDA -> as `rows.quantise_rows(x, "fp8")`."""
    n_rows, n_columns = x.shape
    values = torch.empty((n_rows, n_columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((n_rows, 1), dtype=torch.float32, device=x.device)
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
