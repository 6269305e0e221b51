"""The norms of a model, computed by a kernel of ours where the device has it and it gives what the library gives."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

NAMES = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
"""Modules whose `weight` and `variance_epsilon` say all."""
TOLERANCE = 2e-2
"""Of the largest value: two roundings in bfloat16."""

Normalise = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


def fuse_norms(model: Any, normalise: Normalise | None = None) -> int:
    """Have the norms of `model` computed in one step each; how many are.  None are on a device without kernels, of
    kinds that are not known, and where the results differ from the library's.  `normalise` stands in for the kernel in
    tests."""
    norms = [module for module in model.modules() if type(module).__name__ in NAMES]
    try:
        normalise = normalise or _kernel(next(model.parameters()).device)
        if normalise is None or not all(_agrees(norm, normalise) for norm in _one_of_each_width(norms)):
            return 0
    except Exception:  # a broken driver or compiler raises anything; then the library's own way stays
        return 0
    for norm in norms:
        norm.forward = partial(_forward, norm, normalise)
    return len(norms)


def n_fused(model: Any) -> int:
    """How many norms of `model` are computed in one step each."""
    return sum(isinstance(module.__dict__.get("forward"), partial) for module in model.modules())


def _kernel(device: torch.device) -> Normalise | None:
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    found: Normalise = importlib.import_module("apply_service.engine.triton_norm").normalise
    return found


def _forward(norm: Any, normalise: Normalise, hidden_states: torch.Tensor) -> torch.Tensor:
    """Of what is not in the weights' own type, the library's: who trains or mixes types has reasons."""
    if hidden_states.dtype != norm.weight.dtype or torch.is_grad_enabled():
        return type(norm).forward(norm, hidden_states)  # type: ignore[no-any-return]
    return normalise(hidden_states, norm.weight, norm.variance_epsilon)


def _one_of_each_width(norms: list[Any]) -> list[Any]:
    return list({len(norm.weight): norm for norm in norms}.values())


@torch.inference_mode()
def _agrees(norm: Any, normalise: Normalise) -> bool:
    generator = torch.Generator(norm.weight.device).manual_seed(0)
    drawn = torch.randn((3, len(norm.weight)), generator=generator, device=norm.weight.device)
    x = drawn.to(norm.weight.dtype)
    wanted, found = type(norm).forward(norm, x).float(), normalise(x, norm.weight, norm.variance_epsilon).float()
    return bool((found - wanted).abs().max() <= TOLERANCE * wanted.abs().max())
