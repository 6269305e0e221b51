"""Counts the memory that a model needs on a device, before the model is moved there.

A plan is an upper bound for weights, slots of keys and values, the activations of a pass, and captured passes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from apply_service.engine.attention import TileShape
from apply_service.engine.kv_cache import KVShape
from apply_service.engine.passes import power_of_two
from apply_service.engine.weights import Weights, weight_bytes
from apply_service.errors import ModelTooLarge

GRAPH_BYTES = 2**30
"""The memory for captured passes: state of the driver, and the logits of the largest bucket, which all passes share."""
WORKSPACE_BYTES = 2**29
"""The memory for workspaces of the matrix library, code of the kernels, and fragmentation."""
FITTING = 0.97
"""The share of the free bytes that a plan may use."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The bytes that a model needs on a device, and the bytes that are `free` now (infinite if the system doesn't
    say)."""

    weights_format: Weights
    weights: int
    kv_cache: int
    activations: int
    graphs: int
    free: float

    @property
    def needed(self) -> int:
        return self.weights + self.kv_cache + self.activations + self.graphs

    @property
    def fits(self) -> bool:
        return self.needed <= FITTING * self.free

    def as_dict(self) -> dict[str, float | str | None]:
        """Return the values for results and `doctor`."""
        free = None if self.free == float("inf") else self.free
        return asdict(self) | {"needed": self.needed, "free": free}


def plan_memory(
    model: Any,
    weights: Weights,
    device: torch.device,
    *,
    kv_cache_bytes: int,
    n_rows: int,
    cuda_graphs: str = "auto",
    attention: str = "auto",
    free: float | None = None,
    **_options: Any,
) -> MemoryPlan:
    """Return the plan of an engine with at most `n_rows` rows in a pass.  `model` is on the meta device, or still on
    the CPU.  If `free` is None, the device is asked.  Other options of the engine take no memory.

    There are slots for at least one full context.  On the CPU, two things do not count: weights that are already there,
    and slots, because the pages of slots take memory only when they are first touched.
    """
    config = model.config.get_text_config()
    dtype, where = next(model.parameters()).dtype, next(model.parameters()).device
    shape = KVShape.of(config, dtype, device)
    is_cuda = device.type == "cuda"
    # At most, a row of a pass holds its logits, two copies of the logits in float32, and the states of one layer.  The
    # feed-forward has the widest states.  These include a product in float32 if fp8 is scaled afterwards.
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    row_bytes = config.vocab_size * (dtype.itemsize + 8) + 8 * (config.hidden_size + inner) * dtype.itemsize
    if is_cuda and attention != "sdpa":
        # For a row of the longest sequence, the kernel keeps a partial sum of every split of positions.
        n_splits = power_of_two(TileShape().n_splits(config.max_position_embeddings))
        row_bytes += n_splits * config.num_attention_heads * (shape.head_dim + 2) * 4
    slot = shape.bytes_per_slot
    return MemoryPlan(
        weights_format=weights,
        weights=0 if where.type == device.type == "cpu" else weight_bytes(model, weights),
        kv_cache=0 if device.type == "cpu" else max(kv_cache_bytes // slot, config.max_position_embeddings) * slot,
        activations=int(n_rows * row_bytes) + (WORKSPACE_BYTES if is_cuda else 0),
        graphs=GRAPH_BYTES if is_cuda and cuda_graphs != "off" else 0,
        free=free_bytes(device) if free is None else free,
    )


def refuse_plan(plan: MemoryPlan, name: str) -> None:
    """Raise ModelTooLarge if the plan does not fit.  The error names the needed and the free bytes, and ways to need
    fewer bytes."""
    if plan.fits:
        return
    parts = {
        f"weights ({plan.weights_format})": plan.weights,
        "keys and values": plan.kv_cache,
        "a pass": plan.activations,
        "graphs": plan.graphs,
    }
    ways = [
        ("smaller weights (--weights fp8 or int8)", plan.weights if plan.weights_format == "own" else 0),
        ("a smaller KV cache (--kv-cache-mb; one full context at least)", plan.kv_cache),
        ("no CUDA graphs (--cuda-graphs off)", plan.graphs),
    ]
    named = [way for way, size in sorted(ways, key=lambda way: -way[1]) if size]
    listed = ", ".join(f"{label} {_gb(size)}" for label, size in parts.items() if size)
    message = f"{name} does not fit into the device's free memory: {listed}"
    remedy = "; ".join([*named, "free memory on the device, or use a smaller model or a larger device"])
    raise _too_large(message, plan.needed, plan.free, remedy)


def refuse_too_large(name: str, needed: float, free: float, *, what: str = "memory") -> None:
    """Raise ModelTooLarge if weights of `needed` bytes do not fit into the `free` bytes of `what`."""
    if needed > FITTING * free:
        remedy = f"free {what}, use a smaller model" + (", or --dtype bfloat16" if what == "memory" else "")
        raise _too_large(f"the weights of {name} do not fit into the free {what}", needed, free, remedy)


def _too_large(message: str, needed: float, free: float, remedy: str) -> ModelTooLarge:
    value = f"{needed:.0f} bytes needed ({_gb(needed)})"
    limit = f"{free:.0f} bytes free ({_gb(free)}), of which {FITTING:.0%} may be used"
    return ModelTooLarge(message, value=value, limit=limit, remedy=remedy)


def n_stored_weights(directory: Path) -> int:
    """Return the number of weights in the safetensors files of a folder.  Reads only their headers.  Raises
    SafetensorError or OSError if a file is damaged."""
    total = 0
    for path in directory.glob("*.safetensors"):
        with safe_open(path, "numpy") as file:
            total += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return total


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def free_bytes(device: torch.device) -> float:
    """Return the bytes of memory that are free on a device now; infinite if the system doesn't say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").split("\n")
    except OSError:
        return float("inf")
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable")), None)
    return float("inf") if found is None else 1024.0 * float(found)
