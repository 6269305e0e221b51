"""The first piece of `benchmarks.bench_gpu`: is it right at all?  Kernels against oracles at fresh random inputs, and
drafted decoding against undrafted on a model's own choices, none of them known beforehand.  Run group by group.

Each check says what it found, what it allows, and whether that holds; one that can't run here says why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from apply_service.engine.weights.choice import WeightsSetting
from apply_service.engine.weights.linear import in_eight_bits, quantise_activations
from apply_service.engine.weights.rows import Format, quantise_rows
from apply_service.errors import ApplyError
from benchmarks.bench_gpu_attention import check_attention, dtypes_on
from benchmarks.bench_gpu_check import Check
from benchmarks.bench_gpu_decoding import check_decoding
from benchmarks.bench_gpu_pieces import failure_of
from benchmarks.engine_runs import wait_for_device

MATRICES = ((8_192, 10_240), (8_192, 57_344), (28_672, 8_192), (3_584, 18_944))
"""Columns and rows of joined queries, keys and values of 70B, joined gate and up, its down projection; gate of 7B."""
TINY_MATRICES = ((96, 64), (256, 320))
ROW_COUNTS = (1, 3, 17, 64, 256, 300)
ARITHMETIC = {"fp8": 0.05, "int8": 0.01}
"""Largest error of a result's norm against exact sums over the very numbers in 8 bits: rounding to bfloat16, and in fp8
Hopper's fast accumulation, which keeps some 14 bits: over 28,672 columns what it cuts off may grow to percents."""
ROUNDING = {"fp8": 0.075, "int8": 0.015}
"""The same against float32: besides that two roundings to 3 bits of fraction (4%), or one to 127 steps."""
LEAST_GROUP_S = 90.0
"""With less than this left no group of checks is begun."""
LOST = "its process did not come back: it broke, or it took too long"


Group = Callable[[], Iterable[Check]]


def groups_of(device: torch.device, shape: str, *, seed: int) -> Mapping[str, Group]:
    """All checks; `shape` is decoded with."""
    groups: dict[str, Group] = {}
    for dtype in dtypes_on(device):
        groups[f"attention kernel, {dtype}"] = lambda dtype=dtype: [check_attention(device, dtype, seed=seed)]  # type: ignore[misc]
    for number_format in ("fp8", "int8"):
        groups[f"{number_format} matrices"] = partial(check_matrices, device, number_format, seed=seed)
    groups["fp8 rows"] = lambda: [check_rows(device, seed=seed)]
    formats: tuple[WeightsSetting, ...] = ("bf16", "fp8") if device.type == "cuda" else ("auto", "fp8")
    for weights in formats:
        name = f"decoding, {shape} {weights}"
        groups[name] = partial(check_decoding, name, shape, device, weights, seed=seed)
    return groups


def run_checks(
    device: torch.device,
    shape: str,
    found: dict[str, Any],
    stop_s: float,
    *,
    seed: int,
    save: Callable[[], None],
    log: Callable[[str], None],
) -> bool:
    """Go on with the checks in `found`, group by group, until `stop_s`; whether all are done.

    A group that an earlier process began and did not end is told as failed and not tried again.

    Raises:
        Exception: the device is broken by a group, which is told; another process can go on with the others.
    """
    states: dict[str, str] = found.setdefault("groups", {})
    found.setdefault("checks", [])
    for name, run in groups_of(device, shape, seed=seed).items():
        if states.get(name) == "done":
            continue
        if time.monotonic() > stop_s - LEAST_GROUP_S:
            return False
        is_lost = name in states
        states[name] = "begun"
        save()
        for check in [Check(name, False, note=LOST)] if is_lost else _guarded(name, run, found["failures"]):
            log(f"{check.name}: {'ok' if check.is_ok else check.note or check.worst}")
            found["checks"].append(check.as_json())
        states[name] = "done"
        save()
        wait_for_device()
    return True


def _guarded(name: str, run: Group, failures: list[dict[str, Any]]) -> Iterator[Check]:
    """What cannot run here is told; what breaks is a failed check, and the others go on."""
    try:
        yield from run()
    except ApplyError as error:
        yield Check(name, None, note=f"{error.code}: {error.message}")
    except Exception as error:  # a check is there to find them
        failures.append(failure_of(error, name))
        yield Check(name, False, note=f"{type(error).__name__}: {str(error)[:300]}")


# -- weights -----------------------------------------------------------------------------------------------------------
@torch.inference_mode()
def check_matrices(device: torch.device, number_format: Format, *, seed: int) -> list[Check]:
    """Linear layers in 8 bits against float32, and against exact sums over the same 8-bit numbers; and whether a row is
    the same in every bit whatever number of rows goes with it, which is told and not demanded."""
    generator = torch.Generator(device).manual_seed(seed)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    rounding, arithmetic, differing = [(0.0, "")], [(0.0, "")], list[str]()
    n = 0
    for n_in, n_out in MATRICES if device.type == "cuda" else TINY_MATRICES:
        linear = torch.nn.Linear(n_in, n_out, bias=False, device=device, dtype=dtype)
        linear.weight.normal_(0, 0.02, generator=generator)
        small = in_eight_bits(linear, number_format)
        x = torch.randn(max(ROW_COUNTS), n_in, device=device, generator=generator).to(dtype)
        alone = small(x[:1])
        for n_rows in ROW_COUNTS:
            found = small(x[:n_rows]).float()
            where = f"{n_rows} rows of {n_in} times {n_out}{_way(small)}"
            rounding.append((_error(found, x[:n_rows].float() @ linear.weight.float().T), where))
            arithmetic.append((_error(found, _exact(x[:n_rows], small, number_format)), where))
            differing += [] if torch.equal(found[:1], alone.float()) else [where]
            n += 1
    name = f"{number_format} matrices"
    told = "; ".join(["told only", *differing])
    return [
        _worst(f"{name} against float32", rounding, ROUNDING[number_format]),
        _worst(f"{name} against exact sums of the same numbers", arithmetic, ARITHMETIC[number_format]),
        Check(f"{name}: row counts whose first row has other bits", True, float(len(differing)), None, n, told),
    ]


def _way(small: Any) -> str:
    return f", scales {small.way}" if getattr(small, "way", None) else ""


def _worst(name: str, errors: Sequence[tuple[float, str]], limit: float) -> Check:
    """NaN is worse than anything."""
    error, where = max(errors, key=lambda one: (math.isnan(one[0]), one[0]))
    return Check(name, error <= limit, error, limit, len(errors) - 1, where)


def _exact(x: torch.Tensor, small: Any, number_format: Format) -> torch.Tensor:
    """Sums in float32 of the very products that the layer adds."""
    weights: torch.Tensor = small.values.float()
    scales: torch.Tensor = small.scales.T
    if number_format == "int8":
        return x.float() @ weights.T * scales
    rows = quantise_rows(x, "fp8")
    return rows.values.float() @ weights.T * rows.scales * scales


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def check_rows(device: torch.device, *, seed: int) -> Check:
    """The kernel that makes fp8 rows of activations against the same in torch, in every bit."""
    generator = torch.Generator(device).manual_seed(seed)
    worst = 0.0
    sizes = ((1, 8_192), (256, 28_672), (37, 3_584), (5, 100)) if device.type == "cuda" else ((7, 300),)
    for n_rows, n_columns in sizes:
        x = torch.randn(n_rows, n_columns, device=device, generator=generator).bfloat16()
        x[0, : n_columns // 2] *= 1e-4
        found, wanted = quantise_activations(x), quantise_rows(x, "fp8")
        worst = max(worst, float((found.values.float() != wanted.values.float()).float().mean()))
        worst = max(worst, float((found.scales != wanted.scales).float().mean()))
    return Check("fp8 rows: share of other bits than torch's", worst == 0, worst, 0.0, len(sizes))
