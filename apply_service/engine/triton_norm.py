"""Root-mean-square norms in one kernel each: step by step they are seven, and a pass of a small window is short enough
to feel them.

One program a row, the whole row in registers; roundings are where the library has them.
"""

# No postponed annotations here: see `triton_attention`.
import torch
import triton
import triton.language as tl

WIDE = 2048
"""Columns from which on a row gets more warps."""


@triton.jit
def _normalise(x, weight, out, n_columns, row_stride, epsilon, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < n_columns
    exact = tl.load(x + row * row_stride + at, mask=inside, other=0.0).to(tl.float32)
    scaled = exact * (1.0 / tl.sqrt(tl.sum(exact * exact, 0) / n_columns + epsilon))
    rounded = scaled.to(out.dtype.element_ty).to(tl.float32)
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * n_columns + at, (scale * rounded).to(out.dtype.element_ty), mask=inside)


def normalise(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """`weight * x / rms(x)` over the last dimension, [..., n] of `x`'s type, which is the weight's too."""
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(rows.shape[1])
    _normalise[(len(rows),)](
        rows,
        weight,
        out,
        rows.shape[1],
        rows.stride(0),
        epsilon,
        block=block,
        num_warps=8 if block > WIDE else 4,
    )
    return out.view(x.shape)
