"""The first piece of `benchmarks.gpu`: is it right at all?  Kernels against oracles at fresh random inputs, and drafted
decoding against undrafted on a model's own choices, none of them known beforehand.  Run group by group.

Each check says what it found, what it allows, and whether that holds; one that can't run here says why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from apply_service.engine.eight_bit import LEAST_SCALE, LIMITS, EightBitLinear, Format, ScaledRows, quantise_rows
from apply_service.errors import ApplyError
from benchmarks.decoding.contenders import wait_for_device
from benchmarks.gpu.pieces import failure_of

MATRICES = ((8_192, 10_240), (8_192, 57_344), (28_672, 8_192), (3_584, 18_944))
"""Columns and rows of joined queries, keys and values of 70B, joined gate and up, its down projection; gate of 7B."""
TINY_MATRICES = ((96, 64), (256, 320))
ROW_COUNTS = (1, 3, 17, 64, 256, 300)
ROUNDING = {"fp8": 0.075, "int8": 0.015}
"""Largest error of a result's norm against float32: rounding of weights and activations to 3 bits of fraction (4%) or
one to 127 steps, rounding to bfloat16, and in fp8 Hopper's fast accumulation, which keeps some 14 bits."""
LEAST_GROUP_S = 90.0
"""With less than this left no group of checks is begun."""
LOST = "its process did not come back: it broke, or it took too long"


class Check(NamedTuple):
    """`worst` is compared with `limit`; `n` things were looked at.  `is_ok` None: it could not run, `note` says why."""

    name: str
    is_ok: bool | None
    worst: float | None = None
    limit: float | None = None
    n: int = 0
    note: str = ""


Group = Callable[[], Iterable[Check]]


def run_checks(
    groups: Mapping[str, Group],
    found: dict[str, Any],
    stop_s: float,
    *,
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
    for name, run in groups.items():
        if states.get(name) == "done":
            continue
        if time.monotonic() > stop_s - LEAST_GROUP_S:
            return False
        is_lost = name in states
        states[name] = "begun"
        save()
        for check in [Check(name, False, note=LOST)] if is_lost else _guarded(name, run, found["failures"]):
            log(f"{check.name}: {'ok' if check.is_ok else check.note or check.worst}")
            found["checks"].append(check._asdict())
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


def worst_of(name: str, errors: Iterable[tuple[float, str]], limit: float, n: int) -> Check:
    """The largest error decides, and the note says where it was; NaN is worse than anything."""
    error, where = max(errors, key=lambda one: (math.isnan(one[0]), one[0]))
    return Check(name, error <= limit, error, limit, n, where)


# -- weights -----------------------------------------------------------------------------------------------------------
@torch.inference_mode()
def check_matrices(device: torch.device, number_format: Format, *, seed: int) -> Iterator[Check]:
    """Linear layers in 8 bits against float32."""
    generator = torch.Generator(device).manual_seed(seed)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    errors = []
    for n_in, n_out in MATRICES if device.type == "cuda" else TINY_MATRICES:
        linear = torch.nn.Linear(n_in, n_out, bias=False, device=device, dtype=dtype)
        linear.weight.normal_(0, 0.02, generator=generator)
        small: Any = EightBitLinear(linear, number_format)
        x = torch.randn(max(ROW_COUNTS), n_in, device=device, generator=generator).to(dtype)
        wanted = x.float() @ linear.weight.float().T
        for n in ROW_COUNTS:
            found = small(x[:n]).float()
            error = float((found - wanted[:n]).norm() / wanted[:n].norm())
            errors.append(
                (error, f"{n} rows of {n_in} times {n_out}, scales {getattr(small, 'way', None) or 'by row'}")
            )
    yield worst_of(f"{number_format} matrices against float32", errors, ROUNDING[number_format], len(errors))


@torch.inference_mode()
def check_rows(device: torch.device, *, seed: int) -> Iterator[Check]:
    """The kernel that makes fp8 rows of activations against the same in torch, in every bit."""
    generator = torch.Generator(device).manual_seed(seed)
    errors = []
    sizes = ((1, 8_192), (256, 28_672), (37, 3_584), (5, 100)) if device.type == "cuda" else ((7, 300),)
    for n_rows, n_columns in sizes:
        x = torch.randn(n_rows, n_columns, device=device, generator=generator).bfloat16()
        x[0, : n_columns // 2] *= 1e-4
        found = wanted = quantise_rows(x, "fp8")
        if x.is_cuda:
            from apply_service.engine.triton_kernels import quantise_rows_fp8

            found = ScaledRows(*quantise_rows_fp8(x, LIMITS["fp8"], LEAST_SCALE))
        pairs = ((found.values.float(), wanted.values.float()), (found.scales, wanted.scales))
        errors += [(float((a != b).float().mean()), f"{n_rows} rows of {n_columns}") for a, b in pairs]
    yield worst_of("fp8 rows: share of other bits than torch's", errors, 0.0, len(sizes))
