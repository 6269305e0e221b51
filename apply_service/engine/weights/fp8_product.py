"""Products of fp8 matrices on CUDA, with a scale for every row of each, in the way that the library has for their
sizes.

Scales within the product are the fastest, but cuBLAS refuses them on Hopper for long rows and few of them
(`CUBLAS_STATUS_NOT_SUPPORTED`; pytorch/ao issue 4582): the down projection of a 70B shape is such a matrix.  There the
bare product is taken, which it has for every size, and scaled by a kernel of ours.  A matrix has one way for all row
counts, so that rows of different passes stay alike.
"""

from __future__ import annotations

import logging
from typing import Literal

import torch

from apply_service.engine.weights.rows import Rows

Way = Literal["within", "after"]
"""Whether the scales are part of the product, or come after it."""

ROW_GRAIN = 32
"""Rows of activations are multiplied in multiples of this: the library's kernels are at their best from there on, and
odd counts are those that it may not have."""
PROBED_ROWS = (32, 64, 96, 128, 160, 192, 224, 256, 288, 512, 1024, 4096)

log = logging.getLogger(__name__)
_ways: dict[tuple[int, int, torch.device], Way] = {}
_ones: dict[torch.device, torch.Tensor] = {}


def find_way(values: torch.Tensor) -> Way:
    """The way for weights of this size [n_out, n_columns], tried out once; before any pass is captured."""
    key = (*values.shape, values.device)
    if key not in _ways:
        _ones.setdefault(values.device, torch.ones(1, dtype=torch.float32, device=values.device))
        refused = [n_rows for n_rows in PROBED_ROWS if not _has_within(values, n_rows)]
        _ways[key] = "after" if refused else "within"
        if refused:
            log.info("fp8 products of %d columns and %d outputs: no scales within for %s rows", *key[1::-1], refused)
    return _ways[key]


def multiply(rows: Rows, values: torch.Tensor, scales: torch.Tensor, way: Way) -> torch.Tensor:
    """`rows` [n_rows, n_columns], a multiple of `ROW_GRAIN` of them, times `values` [n_out, n_columns] with `scales`
    [n_out, 1] -> [n_rows, n_out]: bfloat16 where the scales are `within`, else float32 that is yet to be scaled."""
    if way == "within":  # the kernels for row-wise scales write bfloat16 alone
        scaled: torch.Tensor = torch._scaled_mm(
            rows.values,
            values.t(),
            scale_a=rows.scales,
            scale_b=scales.t(),
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )
        return scaled
    one = _ones[values.device]
    bare: torch.Tensor = torch._scaled_mm(
        rows.values, values.t(), scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=True
    )
    return bare


def _has_within(values: torch.Tensor, n_rows: int) -> bool:
    """Whether the library multiplies so many rows with their scales; it refuses before anything is launched."""
    n_out, n_columns = values.shape
    x = torch.zeros((n_rows, n_columns), dtype=values.dtype, device=values.device)
    ones = torch.ones((max(n_rows, n_out), 1), dtype=torch.float32, device=values.device)
    try:
        multiply(Rows(x, ones[:n_rows]), values, ones[:n_out], "within")
    except RuntimeError:
        return False
    return True
