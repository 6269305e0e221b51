"""Chooses tokens, normalises rows and computes with 8-bit weights, in Triton kernels that each replace several kernels
of PyTorch.

In plain PyTorch, the choice of a token goes several times over a copy of the logits in float32.  A norm takes seven
kernels.  In every linear layer, quantising takes six kernels and scaling takes four.  A pass of a small window is so
short that these kernels matter.  Importing this module needs `triton`.  On a CPU it runs only with TRITON_INTERPRET=1.
"""

# No postponed annotations here: Triton's interpreter compares a kernel's annotations with `tl.constexpr`.
import torch
import triton
import triton.language as tl

CHOICE_BLOCK = 4096
WIDE_NORM = 2048
"""A norm uses more warps for rows with more columns than this."""
WIDE_ROW = 8192
"""Quantisation uses more warps for rows with more columns than this."""
SCALED_COLUMNS = 2048
"""The number of columns that one program scales."""
INT8_COLUMNS, INT8_OUT, INT8_MAX_ROWS = 128, 32, 64
"""The number of columns and of outputs in one block of an int8 product, and the maximum number of rows."""


# -- choice ------------------------------------------------------------------------------------------------------------
@triton.jit
def _best_of_block(logits, peaks, places, sums, n_vocab, row_stride, n_blocks, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    columns = part * block + tl.arange(0, block)
    scores = tl.load(logits + row * row_stride + columns, mask=columns < n_vocab, other=float("-inf")).to(tl.float32)
    peak = tl.max(scores, 0)
    here = row * n_blocks + part
    tl.store(peaks + here, peak)
    tl.store(places + here, part * block + tl.argmax(scores, 0))
    tl.store(sums + here, tl.sum(tl.exp(scores - peak), 0))


@triton.jit
def _best_of_row(peaks, places, sums, choices, logprobs, n_blocks, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, width)
    is_block = at < n_blocks
    mine = tl.load(peaks + row * n_blocks + at, mask=is_block, other=float("-inf"))
    best = tl.argmax(mine, 0)  # the first of equal peaks, because its block has the lower token ids
    peak = tl.max(mine, 0)
    total = tl.sum(tl.load(sums + row * n_blocks + at, mask=is_block, other=0.0) * tl.exp(mine - peak), 0)
    tl.store(choices + row, tl.load(places + row * n_blocks + best))
    tl.store(logprobs + row, -tl.log(total))


def choose_best(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best token of each row of `logits` [n, vocab], as [n] int64, and the natural logs of these tokens'
    probabilities, as [n] float32.  Ties go to the lowest id.  A row with a NaN logit has a NaN log."""
    n_rows, n_vocab = logits.shape
    n_blocks = triton.cdiv(n_vocab, CHOICE_BLOCK)
    peaks, sums = logits.new_empty((2, n_rows, n_blocks), dtype=torch.float32)
    places = logits.new_empty((n_rows, n_blocks), dtype=torch.int64)
    choices, logprobs = places.new_empty((n_rows,)), peaks.new_empty((n_rows,))
    _best_of_block[(n_rows, n_blocks)](
        logits, peaks, places, sums, n_vocab, logits.stride(0), n_blocks, block=CHOICE_BLOCK, num_warps=8
    )
    _best_of_row[(n_rows,)](
        peaks, places, sums, choices, logprobs, n_blocks, width=triton.next_power_of_2(n_blocks), num_warps=1
    )
    return choices, logprobs


# -- norms -------------------------------------------------------------------------------------------------------------
@triton.jit
def _normalise(x, weight, out, n_columns, row_stride, epsilon, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < n_columns
    exact = tl.load(x + row * row_stride + at, mask=inside, other=0.0).to(tl.float32)
    scaled = exact * (1.0 / tl.sqrt(tl.sum(exact * exact, 0) / n_columns + epsilon))
    rounded = scaled.to(out.dtype.element_ty).to(tl.float32)  # the library rounds here too
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * n_columns + at, (scale * rounded).to(out.dtype.element_ty), mask=inside)


def normalise(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return `weight * x / rms(x)` over the last dimension of `x` [..., n].  `x` and `weight` have the same type."""
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(rows.shape[1])
    _normalise[(len(rows),)](
        rows, weight, out, rows.shape[1], rows.stride(0), epsilon, block=block, num_warps=8 if block > WIDE_NORM else 4
    )
    return out.view(x.shape)


# -- 8-bit weights -----------------------------------------------------------------------------------------------------
@triton.jit
def _quantise(x, values, scales, n_columns, stride, limit: tl.constexpr, least: tl.constexpr, block: tl.constexpr):
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


def quantise_rows_fp8(
    x: torch.Tensor, limit: float, least: float, *, grain: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same values and scales as `eight_bit.quantise_rows(x, "fp8")`, in every bit.

    `x` [n_rows, n_columns] is on CUDA, and its columns are contiguous.  Uninitialised rows are appended until the
    number of rows is a multiple of `grain`.
    """
    n_rows, n_columns = x.shape
    n_made = triton.cdiv(n_rows, grain) * grain
    values = torch.empty((n_made, n_columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((n_made, 1), dtype=torch.float32, device=x.device)
    block, n_warps = triton.next_power_of_2(n_columns), 16 if n_columns > WIDE_ROW else 8
    _quantise[(n_rows,)](
        x, values, scales, n_columns, x.stride(0), limit=limit, least=least, block=block, num_warps=n_warps
    )
    return values, scales


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
    """Return `product * row_scales * column_scales + bias`, rounded once to `dtype`.

    `product` [n_rows, n_columns] is float32.  `row_scales` is [n_rows or more, 1], `column_scales` [n_columns, 1],
    `bias` [n_columns].
    """
    n_rows, n_columns = product.shape
    out = torch.empty((n_rows, n_columns), dtype=dtype, device=product.device)
    any_bias = column_scales if bias is None else bias
    _scale[(n_rows, triton.cdiv(n_columns, SCALED_COLUMNS))](
        product, row_scales, column_scales, any_bias, out, n_columns, product.stride(0),
        has_bias=bias is not None, block=SCALED_COLUMNS, num_warps=8,
    )  # fmt: skip
    return out


@triton.jit
def _multiply(x, weights, scales, bias, out, n_rows, n_out, stride, n_columns: tl.constexpr, has_bias: tl.constexpr,
              block_rows: tl.constexpr, block_out: tl.constexpr, block_columns: tl.constexpr):  # fmt: skip
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
    """Return the product of `x` and 8-bit weights [n_rows, n_out], in the type of `x`.

    `x` is [n_rows, n_columns] with contiguous columns, `weights` [n_out, n_columns] int8, `scales` [n_out, 1] float32,
    `bias` [n_out].  A weight is loaded as one byte.  Each value of the result is a float32 sum over fixed blocks of
    columns in a fixed order, whatever the number of rows.
    """
    n_rows, n_columns = x.shape
    n_out = weights.shape[0]
    out = torch.empty((n_rows, n_out), dtype=x.dtype, device=x.device)
    block_rows = min(INT8_MAX_ROWS, max(16, triton.next_power_of_2(n_rows)))
    _multiply[(triton.cdiv(n_out, INT8_OUT), triton.cdiv(n_rows, block_rows))](
        x, weights, scales, scales if bias is None else bias, out, n_rows, n_out, x.stride(0),
        n_columns=n_columns, has_bias=bias is not None,
        block_rows=block_rows, block_out=INT8_OUT, block_columns=INT8_COLUMNS,
    )  # fmt: skip
    return out
