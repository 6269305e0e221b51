"""Brings a model to its device layer by layer: changes number formats, joins projections and fuses norms.

At any time at most one layer is on the device in its old format.  The embeddings, the norms and the head keep their
format.  In the head, even a small difference can lead to another token.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import nn

from apply_service.engine.eight_bit import EightBitLinear, Format, can_be
from apply_service.errors import MissingDependency, ModelNotLoadable

Weights = Literal["own", "fp8", "int8"]
"""`own`: the weights keep the type that the model has."""
TIMED_ROWS = 64
"""The number of rows of the window with which number formats are compared."""
LEAST_GAIN = 1.2
"""`auto` takes bfloat16, which is coarser than float32, only if bfloat16 is at least this many times as fast."""
LEAST_TIMED, MOST_TIMED = 2**20, 2**25
"""Matrices with fewer weights than the first number are not timed.  Of matrices with more than the second, only a part
is timed."""
N_TIMED, TIMED_S = 8, 0.2
LEAST_SHARE = 0.5
"""A format must make at least this share of the layers' weights smaller.  Otherwise the model is refused."""


def refuse_format(weights: Weights, device: torch.device) -> None:
    """Raise MissingDependency if the device can't compute with this format."""
    # GPUs from Hopper on can multiply fp8 matrices with one scale per row.
    if weights == "fp8" and device.type == "cuda" and torch.cuda.get_device_capability(device) < (9, 0):
        raise MissingDependency(
            "this device can't compute with fp8 weights",
            value=str(device),
            limit="CUDA devices of compute capability 9.0 and up; emulated on the CPU",
            remedy="use --weights int8",
        )


def dtype_of(dtype: str, device: torch.device, matrix: tuple[int, int] | None = None) -> torch.dtype:
    """Return the type of all weights that are not in 8 bits.

    `auto` is float32 on a CPU, and bfloat16 elsewhere.  With a `matrix` size (inputs, outputs), it is bfloat16 on a CPU
    too, if that is clearly faster for such a matrix.
    """
    if dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
    if device.type != "cpu":
        return torch.bfloat16
    return torch.float32 if matrix is None or bfloat16_gain(*matrix) < LEAST_GAIN else torch.bfloat16


@torch.inference_mode()
def bfloat16_gain(n_in: int, n_out: int) -> float:
    """Return the speed-up of bfloat16 over float32 on this CPU, for a window times a matrix of this size.

    The result is 0 if the CPU has no instructions for bfloat16, or if the matrix is so small that products take little
    of the time.  The measurement takes under a second.
    """
    n_out = min(n_out, MOST_TIMED // n_in)
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported() or n_in * n_out < LEAST_TIMED:
        return 0.0
    times = list[float]()
    for dtype in (torch.float32, torch.bfloat16):
        layer = nn.Linear(n_in, n_out, bias=False, device="meta", dtype=dtype).to_empty(device="cpu")
        nn.init.constant_(layer.weight, 0.01)
        multiply = PackedLinear(layer) if dtype is torch.bfloat16 else layer
        rows = torch.full((TIMED_ROWS, n_in), 0.5, dtype=dtype)
        times.append(fastest(partial(multiply, rows), least=2, most=N_TIMED, budget_s=TIMED_S))
    return times[0] / times[1]


def fastest(run: Callable[[], object], *, least: int, most: int, budget_s: float) -> float:
    """Return the seconds of the fastest run, because other work on the machine can only make a run slower.

    There are at least `least` runs.  More follow, up to `most`, until all together have taken `budget_s`.
    """
    seconds = list[float]()
    while len(seconds) < least or (len(seconds) < most and sum(seconds) < budget_s):
        started_s = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started_s)
    return min(seconds)


# -- bringing a model --------------------------------------------------------------------------------------------------
def bring(
    model: Any,
    weights: Weights,
    device: torch.device,
    *,
    join: bool | None = None,
    fill: Callable[[nn.Module], object] | None = None,
) -> Any:
    """Move `model` to `device`; it is changed in place.

    `join`: whether projections of the same input become one multiplication; if it is None, they do so only on CUDA.
    `fill` loads the weights of a module that is on the meta device.  It is called for each layer, and at last for the
    whole model.  Without `fill`, the modules are moved to `device`.

    Raises:
        ModelNotLoadable: most weights are not in linear layers, or have sizes that the format does not support.
    """
    if (share := known_share(model, weights)) < LEAST_SHARE:
        raise ModelNotLoadable(
            f"only some linear layers can be stored as {weights}, and most of this model's weights are elsewhere",
            value=f"{share:.0%} supported",
            limit=f"{LEAST_SHARE:.0%}",
            remedy="use --weights own",
        )
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
    """Return the decoder layers: the members of the longest list of modules."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len) if lists else [model.base_model]


def known_share(model: Any, weights: Weights) -> float:
    """Return the share of the layers' weights that the format makes smaller; 1 for `own`."""
    if weights == "own":
        return 1.0
    total = sum(parameter.numel() for layer in layers_of(model) for parameter in layer.parameters())
    return sum(linear.weight.numel() for linear in _shrinking(model, weights)) / max(1, total)


def _shrinking(model: Any, number_format: Format) -> Iterator[nn.Linear]:
    """Yield the linear layers that the format makes smaller."""
    for layer in layers_of(model):
        yield from (one for one in layer.modules() if type(one) is nn.Linear and can_be(one, number_format))


# -- counts ------------------------------------------------------------------------------------------------------------
def weight_bytes(model: Any, weights: Weights) -> int:
    """Return the bytes that the weights will take on a device.  `model` may be on the meta device."""
    whole = sum(parameter.nbytes for parameter in model.parameters())
    small = [] if weights == "own" else list(_shrinking(model, weights))
    return int(whole) - sum(one.weight.nbytes - one.weight.numel() - 4 * one.out_features for one in small)


def fp8_ways(model: Any) -> dict[str, str]:
    """Return the way in which CUDA applies the fp8 scales (`within` the product or `after` it), by matrix size (columns
    x outputs)."""
    layers = [module for module in model.modules() if isinstance(module, EightBitLinear)]
    return {f"{one.values.shape[1]}x{len(one.values)}": one.way for one in layers if one.way is not None}


# -- projections of the same input -------------------------------------------------------------------------------------
JOINED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Groups of projections.  Published architectures call each group in this order, with the same input."""


class JoinedProjections(nn.Module):
    """Multiplies once for a group of projections, and keeps each part of the product until `take` fetches it."""

    def __init__(self, linear: nn.Module, sizes: Sequence[int]) -> None:
        super().__init__()
        self.linear = linear
        self.sizes = list(sizes)
        self._input: torch.Tensor | None = None
        self._parts: list[torch.Tensor | None] = []

    def take(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """Return the part of projection `index` in the product with `x`."""
        if self._input is not x or self._parts[index] is None:
            self._input, self._parts = x, list(self.linear(x).split(self.sizes, dim=-1))
        part, self._parts[index] = self._parts[index], None
        if all(one is None for one in self._parts):
            self._input = None
        return cast(torch.Tensor, part)


class Projection(nn.Module):
    """One projection of a group.  The first one owns the joined module."""

    def __init__(self, joined: JoinedProjections, index: int) -> None:
        super().__init__()
        if index == 0:
            self.joined = joined
        self._shared = (joined,)  # in a tuple, so that only the first projection registers it
        self._index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._shared[0].take(x, self._index)


@torch.no_grad()
def join_projections(parent: nn.Module) -> None:
    """Join the projections that have the same input, in place: queries, keys and values; gate and up.

    A matrix with few outputs keeps few of a GPU's processors busy.  So the projections of keys and values, if not
    joined, take about as long as a matrix several times their size.  The modules keep their names and places.  A group
    is left alone if its members differ in input size, type or use of a bias.
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


# -- bfloat16 on a CPU -------------------------------------------------------------------------------------------------
PIECE = 32
"""The rows of a piece.  On some CPUs, the library multiplies up to this many rows in one way, and more rows in other
ways, with other rounding."""


class PackedLinear(nn.Module):
    """A bfloat16 linear layer on a CPU.  The layer's weight is stored in the order in which oneDNN multiplies, so no
    call has to reorder the weight.  A pass of few rows takes half the time."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.bias = linear.bias
        self.piece: int | None = None
        """The number of rows that are multiplied at a time; None means all rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product [..., n_rows, out] for `x` [..., n_rows, in].  It is not differentiable."""
        rows = [x] if self.piece is None or x.shape[-2] <= self.piece else torch.split(x, self.piece, dim=-2)
        done = [torch.ops.mkldnn._linear_pointwise(one, self.weight, self.bias, "none", [], "") for one in rows]
        return done[0] if len(done) == 1 else torch.cat(done, dim=-2)


@torch.no_grad()
def pack_matrices(model: nn.Module) -> None:
    """Replace bfloat16 linear layers on a CPU by packed ones, in place, if the library can multiply packed matrices
    here."""
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and (child.weight.dtype, child.weight.device.type) == (torch.bfloat16, "cpu"):
                setattr(module, name, PackedLinear(child))


def multiply_in_pieces(model: nn.Module, n_rows: int | None) -> bool:
    """Let the packed layers multiply `n_rows` rows at a time (None means all), and tell whether there are such
    layers."""
    packed = [module for module in model.modules() if isinstance(module, PackedLinear)]
    for module in packed:
        module.piece = n_rows
    return bool(packed)


# -- norms -------------------------------------------------------------------------------------------------------------
NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
"""Norm classes whose only parameters are `weight` and `variance_epsilon`."""
NORM_TOLERANCE = 2e-2
"""The largest allowed difference, as a share of the largest value: two roundings in bfloat16."""

Normalise = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


@torch.inference_mode()
def fuse_norms(model: Any, normalise: Normalise | None = None) -> int:
    """Let each norm of `model` be computed by one kernel, and return the number of changed norms.

    Norms of classes that are not in `NORMS` are left alone.  No norm is changed if the device has no kernels, or if a
    result differs from the library's.  `normalise` replaces the kernel in tests.
    """
    norms = [module for module in model.modules() if type(module).__name__ in NORMS]
    try:
        if normalise is None:
            if next(model.parameters()).device.type != "cuda" or importlib.util.find_spec("triton") is None:
                return 0
            normalise = cast(Normalise, importlib.import_module("apply_service.engine.triton_kernels").normalise)
        for norm in {len(norm.weight): norm for norm in norms}.values():  # one norm of each width
            generator = torch.Generator(norm.weight.device).manual_seed(0)
            drawn = torch.randn((3, len(norm.weight)), generator=generator, device=norm.weight.device)
            x = drawn.to(norm.weight.dtype)
            wanted = type(norm).forward(norm, x).float()
            found = normalise(x, norm.weight, norm.variance_epsilon).float()
            if not (found - wanted).abs().max() <= NORM_TOLERANCE * wanted.abs().max():
                return 0
    except Exception:  # a broken driver or compiler can raise anything; keep the library's norms
        return 0
    for norm in norms:
        norm.forward = partial(_forward, norm, normalise)
    return len(norms)


def n_fused(model: Any) -> int:
    """Return the number of norms of `model` that one kernel computes."""
    return sum(getattr(vars(module).get("forward"), "func", None) is _forward for module in model.modules())


def _forward(norm: Any, normalise: Normalise, hidden_states: torch.Tensor) -> torch.Tensor:
    """Return the norm of `hidden_states`, from the kernel.  The library computes it if gradients are on, or if input
    and weights differ in type."""
    if hidden_states.dtype != norm.weight.dtype or torch.is_grad_enabled():
        return type(norm).forward(norm, hidden_states)  # type: ignore[no-any-return]
    return normalise(hidden_states, norm.weight, norm.variance_epsilon)
