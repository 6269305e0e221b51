"""Linear layers whose weights are 8 bits a number, in the place of `nn.Linear`.

Both give a row of the result from that row of the input alone.  Off CUDA they are emulated in float32: exact products,
the same scales, for tests and for trying a model, not for speed.
"""

from __future__ import annotations

import torch
from torch import nn

from apply_service.engine.weights.fp8_product import ROW_GRAIN, find_way, multiply
from apply_service.engine.weights.rows import Format, Rows, quantise_in_parts, quantise_rows

GRAIN = 16
"""What rows and columns of an fp8 matrix must be multiples of (`torch._scaled_mm`)."""


class _EightBitLinear(nn.Module):
    """`values` [n_out, n_in], `scales` [n_out, 1] float32 and perhaps `bias` [n_out], none of which learns."""

    number_format: Format
    bias: nn.Parameter | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        rows = quantise_in_parts(linear.weight.detach(), self.number_format)
        self.values = nn.Parameter(rows.values, requires_grad=False)
        self.scales = nn.Parameter(rows.scales, requires_grad=False)
        bias = None if linear.bias is None else nn.Parameter(linear.bias.detach(), requires_grad=False)
        self.register_parameter("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., n_in] -> [..., n_out] in the type of `x`."""
        return self._multiply(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], len(self.values))

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def _scaled(self, product: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """What both emulations end with."""
        product = product * self.scales.T
        return (product if self.bias is None else product + self.bias.float()).to(dtype)


class Fp8Linear(_EightBitLinear):
    """Weights and activations in e4m3, a scale for every row of each; the activations' are found in the pass.  `way`:
    how CUDA multiplies them, None on other devices."""

    number_format: Format = "fp8"

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.way = find_way(self.values) if self.values.is_cuda else None

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        if self.way is None:
            rows = quantise_activations(x)
            return self._scaled(rows.values.float() @ self.values.float().T * rows.scales, x.dtype)
        from apply_service.engine.weights.row_kernel import quantise_rows_fp8, scale_product

        rows = quantise_rows_fp8(x, grain=ROW_GRAIN)
        product = multiply(rows, self.values, self.scales, self.way)
        if self.way == "after":
            return scale_product(product[: len(x)], rows.scales, self.scales, self.bias, x.dtype)
        product = product[: len(x)].to(x.dtype)
        return product if self.bias is None else product.add_(self.bias)


class Int8Linear(_EightBitLinear):
    """Weights in whole numbers with a scale for every output, activations as they are."""

    number_format: Format = "int8"

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_cuda:
            return self._scaled(x.float() @ self.values.float().T, x.dtype)
        from apply_service.engine.weights.int8_kernel import multiply_int8

        return multiply_int8(x, self.values, self.scales, self.bias)


def quantise_activations(x: torch.Tensor) -> Rows:
    """`x` [n_rows, n_columns] in fp8, on CUDA by the kernel."""
    if not x.is_cuda:
        return quantise_rows(x, "fp8")
    from apply_service.engine.weights.row_kernel import quantise_rows_fp8

    return quantise_rows_fp8(x)


def is_eight_bit(module: nn.Module) -> bool:
    """Whether its weights are 8 bits a number."""
    return isinstance(module, _EightBitLinear)


def can_be(linear: nn.Linear, number_format: Format) -> bool:
    """Whether the layer's sizes allow the format."""
    return number_format == "int8" or (linear.in_features % GRAIN == 0 and linear.out_features % GRAIN == 0)


def in_eight_bits(linear: nn.Linear, number_format: Format) -> nn.Module:
    """The layer with its weights in 8 bits, on the device where they are."""
    return Fp8Linear(linear) if number_format == "fp8" else Int8Linear(linear)
