"""A model brought to its device layer by layer, its linear layers in the number format asked for.

At no time is more than one layer on the device in its old format beside those already changed.  The embeddings, the
norms and the head, which turns small differences into another token, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from apply_service.engine.weights.joint import join_projections
from apply_service.engine.weights.linear import Fp8Linear, can_be, in_eight_bits, is_eight_bit
from apply_service.engine.weights.rows import Format
from apply_service.errors import ModelNotLoadable

Weights = Literal["own", "fp8", "int8"]
"""`own`: as the model has them."""
LEAST_SHARE = 0.5
"""Of the layers' weights that must become smaller: below, the format is not what was asked for."""


def bring(
    model: Any,
    weights: Weights,
    device: torch.device,
    *,
    join: bool | None = None,
    fill: Callable[[nn.Module], None] | None = None,
) -> Any:
    """`model` on `device`, changed in place.  `join`: multiply projections of one input as one (None: on CUDA).

    `fill` gives what lies on the meta device in a layer, and at last in the model, weights on `device`; without it they
    are moved there.

    Raises:
        ModelNotLoadable: most of its weights are not in linear layers (of sizes) that the format knows.
    """
    refuse_unknown_layers(model, weights)
    fill = fill or partial(_move, device=device)
    join = device.type == "cuda" if join is None else join
    with torch.no_grad():
        for layer in layers_of(model):
            fill(layer)
            if join:
                join_projections(layer)
            if weights != "own":
                shrink(layer, weights)
        fill(model)
    return model


def _move(module: nn.Module, device: torch.device) -> None:
    module.to(device)


def layers_of(model: Any) -> list[nn.Module]:
    """The decoder layers: the members of the longest list of modules."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len) if lists else [model.base_model]


def shrink(layer: nn.Module, number_format: Format) -> None:
    """Put the linear layers within `layer` in 8 bits, in place; those whose sizes don't allow it stay."""
    for module in list(layer.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and can_be(child, number_format):
                setattr(module, name, in_eight_bits(child, number_format))


def refuse_unknown_layers(model: Any, weights: Weights) -> None:
    """
    Raises:
        ModelNotLoadable: see `bring`.
    """
    if weights != "own" and _known_share(model, weights) < LEAST_SHARE:
        raise ModelNotLoadable(
            f"most of its layers' weights are not in linear layers of sizes that {weights} knows",
            value=f"{_known_share(model, weights):.0%} are",
            limit=f"{LEAST_SHARE:.0%}",
            remedy="use weights auto or bf16 (mixtures of experts keep theirs in tensors of their own)",
        )


def knows_layers(model: Any, weights: Weights) -> bool:
    """Whether the format makes most of the layers' weights smaller (or leaves them as they are)."""
    return weights == "own" or _known_share(model, weights) >= LEAST_SHARE


def _known_share(model: Any, number_format: Format) -> float:
    total = sum(parameter.numel() for layer in layers_of(model) for parameter in layer.parameters())
    return sum(linear.weight.numel() for linear in _linears(model) if can_be(linear, number_format)) / max(1, total)


def weight_bytes(model: Any, weights: Weights) -> int:
    """Bytes of the weights once they are brought to a device; `model` may be on the meta device."""
    whole = sum(_bytes(parameter) for parameter in model.parameters())
    if weights == "own":
        return whole
    small = [linear for linear in _linears(model) if can_be(linear, weights)]
    saved = sum(_bytes(linear.weight) - linear.weight.numel() - 4 * linear.out_features for linear in small)
    return whole - saved


def bytes_read(model: Any) -> int:
    """Bytes of weights that every pass reads: all but an embedding that is no head as well, of which a pass reads a row
    a token."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    whole = sum(_bytes(parameter) for parameter in model.parameters())
    return whole if embedding is head else whole - _bytes(embedding)


def multiplied_parameters(model: Any) -> int:
    """Weights that every row of a pass is multiplied with, head included: two operations each."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    whole = sum(parameter.numel() for parameter in model.parameters())
    return int(whole if embedding is head else whole - embedding.numel())


def format_of(model: Any) -> str:
    """The number format of the layers' weights: fp8, int8, or the model's own type."""
    found = {m.number_format for m in model.modules() if is_eight_bit(m)}
    if found:
        return str(found.pop())
    return str(next(model.parameters()).dtype).removeprefix("torch.")


def fp8_ways(model: Any) -> dict[str, str]:
    """By size of matrix (columns x outputs), whether CUDA scales its fp8 products within or after them."""
    layers = (module for module in model.modules() if isinstance(module, Fp8Linear) and module.way is not None)
    return {f"{layer.values.shape[1]}x{layer.values.shape[0]}": str(layer.way) for layer in layers}


def _linears(model: Any) -> Iterator[nn.Linear]:
    for layer in layers_of(model):
        yield from (module for module in layer.modules() if type(module) is nn.Linear)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.itemsize
