"""Projections of the same input multiplied as one: queries, keys and values; gate and up.

On a GPU a matrix of few outputs keeps few of its processors busy, so keys and values by themselves take about as
long as a matrix several times their size.  The modules keep their names and places; the first one multiplies for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import nn

GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names that a published architecture calls in this order, each with the same input."""


class First(nn.Module):
    """Multiplies for the whole group and hands the others their parts."""

    def __init__(self, linear: nn.Module, sizes: Sequence[int]) -> None:
        super().__init__()
        self.linear = linear
        self.sizes = list(sizes)
        self._input: torch.Tensor | None = None
        self._parts: list[torch.Tensor | None] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *others = self._split(x)
        self._input, self._parts = x, list(others)
        return first

    def take(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """Part `index` (1: the one after the first) of the product with `x`: from the call just made if it was with the
        very same tensor, else computed anew.  What was taken, or is not fetched by the last, is kept no longer."""
        found = self._parts[index - 1] if self._input is x else None
        if found is None:
            return self._split(x)[index]
        self._parts[index - 1] = None
        if all(part is None for part in self._parts):
            self._input = None
        return found

    def _split(self, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return cast(Sequence[torch.Tensor], self.linear(x).split(self.sizes, dim=-1))


class Other(nn.Module):
    """Any further projection of a group."""

    def __init__(self, first: First, index: int) -> None:
        super().__init__()
        self._first = (first,)  # in a tuple: the module belongs to its own place alone
        self._index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._first[0].take(x, self._index)


def join_projections(parent: nn.Module) -> None:
    """Join the groups among the children of every module in `parent`, in place; those that can't be are left alone."""
    for module in list(parent.modules()):
        for names in GROUPS:
            linears = [getattr(module, name, None) for name in names]
            if _can_join(linears):
                _join(module, names, cast(list[nn.Linear], linears))


def _can_join(linears: Sequence[object]) -> bool:
    if not all(type(linear) is nn.Linear for linear in linears):
        return False
    known = cast(Sequence[nn.Linear], linears)
    return (
        len({linear.in_features for linear in known}) == 1
        and len({linear.bias is None for linear in known}) == 1
        and len({linear.weight.dtype for linear in known}) == 1
    )


@torch.no_grad()
def _join(module: nn.Module, names: Sequence[str], linears: Sequence[nn.Linear]) -> None:
    sizes = [linear.out_features for linear in linears]
    one = linears[0]
    joined = nn.Linear(one.in_features, 1, bias=one.bias is not None, device="meta", dtype=one.weight.dtype)
    joined.out_features = sum(sizes)
    joined.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]), requires_grad=False)
    if one.bias is not None:
        joined.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]), requires_grad=False)
    first = First(joined, sizes)
    setattr(module, names[0], first)
    for index, name in enumerate(names[1:], 1):
        setattr(module, name, Other(first, index))
