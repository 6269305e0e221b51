"""A model brought to its device layer by layer: number format of the linear layers, projections and norms joined.

At no time is more than one layer on the device in its old format beside those already changed.  The embeddings, the
norms and the head, which turns small differences into another token, stay as they are.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import nn

from apply_service.engine.eight_bit import EightBitLinear, Format, can_be
from apply_service.errors import MissingDependency, ModelNotLoadable, SettingsError

WeightsSetting = Literal["auto", "bf16", "fp8", "int8"]
Weights = Literal["own", "fp8", "int8"]
"""`own`: as the model has them."""
LEAST_SHARE = 0.5
"""Of the layers' weights that must become smaller: below, the format is not what was asked for."""


# -- what the setting means --------------------------------------------------------------------------------------------
def candidates(setting: WeightsSetting, device: torch.device) -> tuple[Weights, ...]:
    """The formats to try, best first: the model's own, and with `auto` on CUDA the first smaller one that fits.

    Raises:
        MissingDependency: the device has no such format.
    """
    # From Hopper on, matrices in fp8 take a scale for every row.
    has_fp8 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
    if setting == "bf16" or (setting == "auto" and device.type != "cuda"):
        return ("own",)
    if setting == "auto":
        return ("own", "fp8", "int8") if has_fp8 else ("own", "int8")
    if setting == "fp8" and not (device.type == "cpu" or has_fp8):
        raise MissingDependency(
            "the device has no fp8 arithmetic with a scale for every row",
            value=str(device),
            limit="CUDA devices of compute capability 9.0 and up; emulated on the CPU",
            remedy="use --weights int8",
        )
    return (setting,)


def dtype_of(setting: WeightsSetting, dtype: str, device: torch.device) -> torch.dtype:
    """The type of all that is not in 8 bits.  `dtype` auto: float32 on the CPU, bfloat16 elsewhere.

    Raises:
        SettingsError: `weights` and `dtype` contradict each other.
    """
    if setting == "bf16" and dtype not in ("auto", "bfloat16"):
        raise SettingsError("weights bf16 are of dtype bfloat16", value=dtype, remedy="leave dtype or weights out")
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" and setting != "bf16" else torch.bfloat16
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]


# -- bringing a model --------------------------------------------------------------------------------------------------
def bring(
    model: Any,
    weights: Weights,
    device: torch.device,
    *,
    join: bool | None = None,
    fill: Callable[[nn.Module], object] | None = None,
) -> Any:
    """`model` on `device`, changed in place.  `join`: multiply projections of one input as one (None: on CUDA).

    `fill` gives weights on `device` to what lies on the meta device in a layer, and at last in the model; without it
    they are moved there.

    Raises:
        ModelNotLoadable: most of its weights are not in linear layers (of sizes) that the format knows.
    """
    refuse_unknown_layers(model, weights)
    fill = fill or partial(nn.Module.to, device=device)
    with torch.no_grad():
        for layer in layers_of(model):
            fill(layer)
            if device.type == "cuda" if join is None else join:
                join_projections(layer)
            if weights == "own":
                continue
            for module in list(layer.modules()):
                for name, child in list(module.named_children()):
                    if type(child) is nn.Linear and can_be(child, weights):
                        setattr(module, name, EightBitLinear(child, weights))
        fill(model)
    return model


def layers_of(model: Any) -> list[nn.Module]:
    """The decoder layers: the members of the longest list of modules."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len) if lists else [model.base_model]


def refuse_unknown_layers(model: Any, weights: Weights) -> None:
    """
    Raises:
        ModelNotLoadable: see `bring`.
    """
    if (share := known_share(model, weights)) < LEAST_SHARE:
        raise ModelNotLoadable(
            f"most of its layers' weights are not in linear layers of sizes that {weights} knows",
            value=f"{share:.0%} are",
            limit=f"{LEAST_SHARE:.0%}",
            remedy="use weights auto or bf16 (mixtures of experts keep theirs in tensors of their own)",
        )


def known_share(model: Any, weights: Weights) -> float:
    """The share of the layers' weights that the format makes smaller; 1 where they stay as they are."""
    if weights == "own":
        return 1.0
    total = sum(parameter.numel() for layer in layers_of(model) for parameter in layer.parameters())
    return sum(linear.weight.numel() for linear in _shrinking(model, weights)) / max(1, total)


def _shrinking(model: Any, number_format: Format) -> Iterator[nn.Linear]:
    """The linear layers that become smaller."""
    for layer in layers_of(model):
        yield from (one for one in layer.modules() if type(one) is nn.Linear and can_be(one, number_format))


# -- counts ------------------------------------------------------------------------------------------------------------
def weight_bytes(model: Any, weights: Weights) -> int:
    """Bytes of the weights once they are brought to a device; `model` may be on the meta device."""
    whole = sum(parameter.nbytes for parameter in model.parameters())
    small = [] if weights == "own" else list(_shrinking(model, weights))
    return int(whole) - sum(one.weight.nbytes - one.weight.numel() - 4 * one.out_features for one in small)


def fp8_ways(model: Any) -> dict[str, str]:
    """By size of matrix (columns x outputs), whether CUDA scales its fp8 products within or after them."""
    layers = [module for module in model.modules() if isinstance(module, EightBitLinear)]
    return {f"{one.values.shape[1]}x{len(one.values)}": one.way for one in layers if one.way is not None}


# -- projections of the same input -------------------------------------------------------------------------------------
JOINED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names that a published architecture calls in this order, each with the same input."""


class JoinedProjections(nn.Module):
    """Multiplies once for a group of projections; a part of the product is kept until it is taken."""

    def __init__(self, linear: nn.Module, sizes: Sequence[int]) -> None:
        super().__init__()
        self.linear = linear
        self.sizes = list(sizes)
        self._input: torch.Tensor | None = None
        self._parts: list[torch.Tensor | None] = []

    def take(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """The part of projection `index` in the product with `x`."""
        if self._input is not x or self._parts[index] is None:
            self._input, self._parts = x, list(self.linear(x).split(self.sizes, dim=-1))
        part, self._parts[index] = self._parts[index], None
        if all(one is None for one in self._parts):
            self._input = None
        return cast(torch.Tensor, part)


class Projection(nn.Module):
    """One projection of a group; the first owns what multiplies for all."""

    def __init__(self, joined: JoinedProjections, index: int) -> None:
        super().__init__()
        if index == 0:
            self.joined = joined
        self._shared = (joined,)  # in a tuple, so that it is no child of the others
        self._index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._shared[0].take(x, self._index)


@torch.no_grad()
def join_projections(parent: nn.Module) -> None:
    """Have the projections of one input multiplied as one, in place: queries, keys and values; gate and up.

    On a GPU a matrix of few outputs keeps few of its processors busy, so keys and values by themselves take about as
    long as a matrix several times their size.  The modules keep their names and places; groups that don't have the same
    input size, type and use of a bias are left alone.
    """
    for module in list(parent.modules()):
        for names in JOINED:
            linears = [one for name in names if type(one := getattr(module, name, None)) is nn.Linear]
            kinds = {(one.in_features, one.bias is None, one.weight.dtype) for one in linears}
            if len(linears) < len(names) or len(kinds) != 1:
                continue
            joined = nn.Linear(1, 1, bias=False, device="meta")
            joined.in_features, joined.out_features = linears[0].in_features, sum(one.out_features for one in linears)
            joined.weight = nn.Parameter(torch.cat([one.weight for one in linears]), requires_grad=False)
            if linears[0].bias is not None:
                joined.bias = nn.Parameter(torch.cat([one.bias for one in linears]), requires_grad=False)
            shared = JoinedProjections(joined, [one.out_features for one in linears])
            for index, name in enumerate(names):
                setattr(module, name, Projection(shared, index))


# -- norms -------------------------------------------------------------------------------------------------------------
NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
"""Modules whose `weight` and `variance_epsilon` say all."""
NORM_TOLERANCE = 2e-2
"""Of the largest value: two roundings in bfloat16."""

Normalise = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


@torch.inference_mode()
def fuse_norms(model: Any, normalise: Normalise | None = None) -> int:
    """Have the norms of `model` computed by one kernel each; how many are.

    None are on a device without kernels, of kinds that are not known, and where the results differ from the library's.
    `normalise` replaces the kernel in tests.
    """
    norms = [module for module in model.modules() if type(module).__name__ in NORMS]
    try:
        if normalise is None:
            if next(model.parameters()).device.type != "cuda" or importlib.util.find_spec("triton") is None:
                return 0
            normalise = cast(Normalise, importlib.import_module("apply_service.engine.triton_kernels").normalise)
        for norm in {len(norm.weight): norm for norm in norms}.values():  # one of each width
            generator = torch.Generator(norm.weight.device).manual_seed(0)
            drawn = torch.randn((3, len(norm.weight)), generator=generator, device=norm.weight.device)
            x = drawn.to(norm.weight.dtype)
            wanted = type(norm).forward(norm, x).float()
            found = normalise(x, norm.weight, norm.variance_epsilon).float()
            if not (found - wanted).abs().max() <= NORM_TOLERANCE * wanted.abs().max():
                return 0
    except Exception:  # a broken driver or compiler raises anything; then the library's own way stays
        return 0
    for norm in norms:
        norm.forward = partial(_forward, norm, normalise)
    return len(norms)


def n_fused(model: Any) -> int:
    """How many norms of `model` are computed by one kernel each."""
    return sum(isinstance(module.__dict__.get("forward"), partial) for module in model.modules())


def _forward(norm: Any, normalise: Normalise, hidden_states: torch.Tensor) -> torch.Tensor:
    """The library's own way where gradients are asked for, or the input is not of the weights' type."""
    if hidden_states.dtype != norm.weight.dtype or torch.is_grad_enabled():
        return type(norm).forward(norm, hidden_states)  # type: ignore[no-any-return]
    return normalise(hidden_states, norm.weight, norm.variance_epsilon)
