"""Which number formats of the weights a device can have, and what the setting `weights` means there."""

from __future__ import annotations

from typing import Literal

import torch

from apply_service.engine.weights.conversion import Weights
from apply_service.errors import MissingDependency, SettingsError

WeightsSetting = Literal["auto", "bf16", "fp8", "int8"]
FP8_CAPABILITY = (9, 0)
"""CUDA devices from which on matrices in fp8 take a scale for every row (Hopper)."""


def candidates(setting: WeightsSetting, device: torch.device) -> tuple[Weights, ...]:
    """The formats to try, best first: the model's own, and with `auto` on CUDA the first smaller one that fits.

    Raises:
        MissingDependency: the device has no such format.
    """
    if setting == "bf16":
        return ("own",)
    if setting == "auto":
        if device.type != "cuda":
            return ("own",)
        return ("own", "fp8", "int8") if has_fp8(device) else ("own", "int8")
    if setting == "fp8" and not (device.type == "cpu" or has_fp8(device)):
        raise MissingDependency(
            "the device has no fp8 arithmetic with a scale for every row",
            value=str(device),
            limit="CUDA devices of compute capability 9.0 and up; emulated on the CPU",
            remedy="use --weights int8",
        )
    return (setting,)


def has_fp8(device: torch.device) -> bool:
    """Whether matrices in fp8 with row-wise scales run there."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= FP8_CAPABILITY


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
