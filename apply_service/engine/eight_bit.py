"""Replaces `nn.Linear` with layers that have weights of 8 bits (`fp8`, `int8`).

Each row has its own scale, computed from its largest magnitude.  A row of a product depends only on the same row of the
input, so its values are bitwise the same beside any other rows.  Without CUDA, both formats are emulated in float32,
with exact products and the same scales.  The emulation is for tests and for trying a model, and is not fast.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Final, Literal, NamedTuple

import torch
from torch import nn

Format = Literal["fp8", "int8"]
LIMITS: Final = {"fp8": 448.0, "int8": 127.0}
"""The largest magnitude of each format: e4m3 without infinities, and symmetric integers."""
DTYPES: Final = {"fp8": torch.float8_e4m3fn, "int8": torch.int8}
PART_ROWS = 2048
LEAST_SCALE = 1e-12
"""The smallest scale, so that a row of zeros is not divided by zero."""
SIZE_GRAIN = 16
"""Rows and columns of an fp8 matrix must be multiples of this (`torch._scaled_mm`)."""
ROW_GRAIN = 32
"""Activations are padded to a multiple of this many rows.  The library may have no kernel for other counts, and its
kernels are slow for fewer rows."""
PROBED_ROWS = (32, 64, 96, 128, 160, 192, 224, 256, 288, 512, 1024, 4096)

ScaleWay = Literal["within", "after"]
"""Where the scales are applied: `within` the library's fp8 product, or `after` the product by our own kernel."""

log = logging.getLogger(__name__)
_ways: dict[tuple[int, int, torch.device], ScaleWay] = {}


class ScaledRows(NamedTuple):
    """A quantised matrix: `values` [n_rows, n_columns] in 8 bits, to be multiplied by `scales` [n_rows, 1] float32."""

    values: torch.Tensor
    scales: torch.Tensor


def quantise_rows(x: torch.Tensor, number_format: Format) -> ScaledRows:
    """Return `x` [n_rows, n_columns], of any float type, in 8 bits, rounded to nearest.  A row with a NaN gets a scale
    of NaN."""
    limit = LIMITS[number_format]
    exact = x.float()
    # The divisor is a tensor, because CUDA multiplies by the rounded inverse of a Python number, which gives other
    # bits.
    divisor = torch.full((), limit, device=x.device)
    scales = (exact.abs().amax(dim=-1, keepdim=True) / divisor).clamp(min=LEAST_SCALE)
    scaled = (exact / scales).clamp(-limit, limit)
    if number_format == "int8":
        scaled = torch.nan_to_num(scaled).round()  # integers have no NaN, but the scale of such a row is NaN
    return ScaledRows(scaled.to(DTYPES[number_format]), scales)


def quantise_in_parts(x: torch.Tensor, number_format: Format) -> ScaledRows:
    """Do the same as `quantise_rows`, but a few rows at a time: beside a large matrix there may be little free
    memory."""
    parts = [quantise_rows(rows, number_format) for rows in torch.split(x, PART_ROWS)]
    return ScaledRows(torch.cat([part.values for part in parts]), torch.cat([part.scales for part in parts]))


class EightBitLinear(nn.Module):
    """A linear layer with `values` [n_out, n_in], `scales` [n_out, 1] float32 and perhaps a `bias` [n_out]. None of
    these is trainable.

    In `fp8` the activations are e4m3 too, and their scales are computed in the pass.  `way` tells where CUDA applies
    the scales; on other devices `way` is None.  In `int8` the activations keep their type.
    """

    def __init__(self, linear: nn.Linear, number_format: Format) -> None:
        super().__init__()
        self.number_format = number_format
        rows = quantise_in_parts(linear.weight.detach(), number_format)
        self.values = nn.Parameter(rows.values, requires_grad=False)
        self.scales = nn.Parameter(rows.scales, requires_grad=False)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach(), requires_grad=False)
        self.way = find_way(self.values) if number_format == "fp8" and self.values.is_cuda else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product [..., n_out] for `x` [..., n_in], in the type of `x`."""
        rows = x.reshape(-1, x.shape[-1])
        if not x.is_cuda:  # emulated, in float32
            made = ScaledRows(rows, torch.ones(())) if self.number_format == "int8" else quantise_rows(rows, "fp8")
            product = made.values.float() @ self.values.float().T * made.scales * self.scales.T
            product = (product if self.bias is None else product + self.bias.float()).to(x.dtype)
            return product.view(*x.shape[:-1], len(self.values))
        from apply_service.engine.triton_kernels import multiply_int8, quantise_rows_fp8, scale_product

        if self.number_format == "int8":
            product = multiply_int8(rows, self.values, self.scales, self.bias)
        else:
            assert self.way is not None
            made = ScaledRows(*quantise_rows_fp8(rows, LIMITS["fp8"], LEAST_SCALE, grain=ROW_GRAIN))
            product = multiply_fp8(made, self.values, self.scales, self.way)[: len(rows)]
            if self.way == "after":
                product = scale_product(product, made.scales, self.scales, self.bias, x.dtype)
            else:
                product = product.to(x.dtype)
                product = product if self.bias is None else product.add_(self.bias)
        return product.view(*x.shape[:-1], len(self.values))


def can_be(linear: nn.Linear, number_format: Format) -> bool:
    """Tell whether the layer's sizes allow the format."""
    return number_format == "int8" or (linear.in_features % SIZE_GRAIN == 0 and linear.out_features % SIZE_GRAIN == 0)


# -- fp8 products on CUDA ----------------------------------------------------------------------------------------------
def find_way(values: torch.Tensor) -> ScaleWay:
    """Return where scales are applied for fp8 weights of the size of `values` [n_out, n_columns] on their device.  Each
    size is tried once, before any pass is captured.

    Scales within the product are faster.  But on Hopper, cuBLAS refuses such scales if the input has few rows and many
    columns, as in the down projection of a 70B model (`CUBLAS_STATUS_NOT_SUPPORTED`; pytorch/ao issue 4582).  A matrix
    has one way for all row counts, so that a row's results are bitwise the same in all passes.
    """
    key = (*values.shape, values.device)
    if key not in _ways:
        _one(values.device)
        refused = []
        n_out, n_columns = values.shape
        for n_rows in PROBED_ROWS:
            x = torch.zeros((n_rows, n_columns), dtype=values.dtype, device=values.device)
            ones = torch.ones((max(n_rows, n_out), 1), dtype=torch.float32, device=values.device)
            try:
                multiply_fp8(ScaledRows(x, ones[:n_rows]), values, ones[:n_out], "within")
            except RuntimeError:  # the library refuses before it launches anything
                refused.append(n_rows)
        _ways[key] = "after" if refused else "within"
        if refused:
            log.info("fp8 products of %d columns and %d outputs: no scales within for %s rows", *key[1::-1], refused)
    return _ways[key]


def multiply_fp8(rows: ScaledRows, values: torch.Tensor, scales: torch.Tensor, way: ScaleWay) -> torch.Tensor:
    """Return the product [n_rows, n_out] of `rows` [n_rows, n_columns] and `values` [n_out, n_columns] with `scales`
    [n_out, 1].

    `n_rows` is a multiple of `ROW_GRAIN`.  With the way `within`, the product is already scaled.  Its type is bfloat16,
    because the library's kernels for row-wise scales write no other type.  With `after`, it is float32 without scales.
    """
    is_within, one = way == "within", _one(values.device)
    product: torch.Tensor = torch._scaled_mm(
        rows.values,
        values.t(),
        scale_a=rows.scales if is_within else one,
        scale_b=scales.t() if is_within else one,
        out_dtype=torch.bfloat16 if is_within else torch.float32,
        use_fast_accum=True,
    )
    return product


@cache
def _one(device: torch.device) -> torch.Tensor:
    """Return the scale 1 as a tensor.  It is made before any pass is captured."""
    return torch.ones(1, dtype=torch.float32, device=device)
