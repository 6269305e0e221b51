"""Rows of numbers in 8 bits, each with a scale of its own: what `fp8` and `int8` weights and activations are made of.

A row's scale is its own largest magnitude, so a row becomes the same bits whatever lies beside it: a window's
companions can't change it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import torch

Format = Literal["fp8", "int8"]

LIMITS: Final = {"fp8": 448.0, "int8": 127.0}
"""The largest magnitude of each: of e4m3 without infinities, and of symmetric integers."""
DTYPES: Final = {"fp8": torch.float8_e4m3fn, "int8": torch.int8}
PART_ROWS = 2048
LEAST_SCALE = 1e-12
"""So that a row of zeros divides by something."""


class Rows(NamedTuple):
    """`values` [n_rows, n_columns] in 8 bits times `scales` [n_rows, 1] float32 are the numbers meant."""

    values: torch.Tensor
    scales: torch.Tensor


def quantise_rows(x: torch.Tensor, number_format: Format) -> Rows:
    """`x` [n_rows, n_columns] of any float type in 8 bits, rounded to nearest.  A row with a NaN gets a scale of NaN:
    what is broken stays so."""
    limit = LIMITS[number_format]
    exact = x.float()
    # By a number of the host's CUDA multiplies with its rounded inverse: other bits than a division's.
    divisor = torch.full((), limit, device=x.device)
    scales = (exact.abs().amax(dim=-1, keepdim=True) / divisor).clamp(min=LEAST_SCALE)
    scaled = (exact / scales).clamp(-limit, limit)
    if number_format == "int8":
        scaled = torch.nan_to_num(scaled).round()  # integers have no NaN; the scale tells
    return Rows(scaled.to(DTYPES[number_format]), scales)


def quantise_in_parts(x: torch.Tensor, number_format: Format) -> Rows:
    """As `quantise_rows`, a few rows at a time: beside a large matrix there may be little memory."""
    values = torch.empty(x.shape, dtype=DTYPES[number_format], device=x.device)
    scales = torch.empty((len(x), 1), dtype=torch.float32, device=x.device)
    for first in range(0, len(x), PART_ROWS):
        here = slice(first, first + PART_ROWS)
        values[here], scales[here] = quantise_rows(x[here], number_format)
    return Rows(values, scales)


def restore(rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The numbers that the rows stand for."""
    return (rows.values.float() * rows.scales).to(dtype)
