"""The attention kernel inside whole engines, against PyTorch's attention in float32: every group size, odd lengths,
empty and full caches, sessions packed."""

from __future__ import annotations

import math
import random
from typing import Any, cast

import numpy as np
import torch

from apply_service.engine.attention import register
from apply_service.engine.session import TorchSession
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import Part, Prefill, SamplingParams, Window
from benchmarks.bench_gpu_check import Check

GROUPS = (1, 2, 3, 4, 5, 6, 7, 8)
CONTEXT = 2_048
POOL_BYTES = 2**26
ALLOWED = 1.5
"""Errors of the kernel over those of PyTorch's own attention in the same number format, both against float32."""
LEAST_ERROR = 2e-3
"""Errors below this are as good as none."""


def dtypes_on(device: torch.device) -> tuple[torch.dtype, ...]:
    """Number formats to check there."""
    return (torch.bfloat16, torch.float32) if device.type == "cuda" else (torch.float32,)


def check_attention(device: torch.device, dtype: torch.dtype, *, seed: int) -> Check:
    """The check of one number format; raises MissingDependency where the kernel can't run."""
    rng = random.Random(seed)
    ratios, n = [], 0
    for group in GROUPS if device.type == "cuda" else (3,):
        model = _model(group, device, dtype)
        exact = _model(group, device, torch.float32)
        exact.load_state_dict({name: value.float() for name, value in model.state_dict().items()})
        plan = _plan(rng, device)
        wanted = _keys_and_values(TorchEngine(exact, name="oracle", **_options("sdpa")), plan)
        usual = max(_errors(_keys_and_values(TorchEngine(model, name="sdpa", **_options("sdpa")), plan), wanted))
        found = _errors(_keys_and_values(TorchEngine(model, name="kernel", **_options("triton")), plan), wanted)
        worst = found.index(max(found, key=_badness))
        length = sum(map(len, plan[worst // 2]))
        told = f"group {group}, session of {length} tokens: {found[worst]:.2g} against {usual:.2g}"
        ratios.append((found[worst] / max(usual, LEAST_ERROR), told))
        n += len(plan)
    ratio, told = max(ratios, key=lambda one: _badness(one[0]))
    name = f"attention kernel, {str(dtype).removeprefix('torch.')}: error over that of PyTorch's, both against float32"
    return Check(name, ratio <= ALLOWED, ratio, ALLOWED, n, told)


def _badness(error: float) -> tuple[bool, float]:
    """NaN is worse than anything."""
    return math.isnan(error), error


def _options(attention: str) -> dict[str, Any]:
    return {"buckets": (64, 256), "kv_cache_bytes": POOL_BYTES, "attention": attention, "cuda_graphs": "off"}


def _model(group: int, device: torch.device, dtype: torch.dtype) -> Any:
    """Two layers of random weights so large that attention decides what comes out."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64 * group,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2 * group,
        num_key_value_heads=2,
        head_dim=128 if device.type == "cuda" else 16,
        max_position_embeddings=CONTEXT,
        initializer_range=0.1,
    )
    torch.manual_seed(group)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=register())
    return model.to(device).eval()


Plan = list[tuple[list[int], list[int]]]
"""For every session its prompt and the tokens of its windows."""


def _plan(rng: random.Random, device: torch.device) -> Plan:
    """Sessions that begin with nothing in the cache, end with it full, or have any odd length between."""
    longest = CONTEXT if device.type == "cuda" else 90
    lengths = [
        (1, 5),
        (2, 1),
        (longest - 40, 40),
        *((rng.randrange(3, longest - 60), rng.randint(1, 60)) for _ in range(3)),
    ]
    return [([rng.randrange(512) for _ in range(n)], [rng.randrange(512) for _ in range(m)]) for n, m in lengths]


def _keys_and_values(engine: TorchEngine, plan: Plan) -> list[torch.Tensor]:
    """Of the last layer, which has read what attention made in the one before: of every session, float32 on the CPU."""
    sessions = [cast(TorchSession, engine.open(prompt, len(new))) for prompt, new in plan]
    while reading := [session for session in sessions if session.n_pending]:
        share = max(1, engine.buckets[-1] // len(reading))
        engine.step([Prefill(session, min(session.n_pending, share)) for session in reading])
    windows: list[Part] = [_window(session, new) for session, (_, new) in zip(sessions, plan, strict=True)]
    for first in range(0, len(windows), 3):
        engine.step(windows[first : first + 3])
    layer = (engine.pool.keys[-1], engine.pool.values[-1])
    found = [
        pool[:, session.slots.start : session.slots.start + session.length].float().cpu().clone()
        for session in sessions
        for pool in layer
    ]
    for session in sessions:
        session.close()
    return found


def _window(session: TorchSession, new: list[int]) -> Window:
    """A window that is accepted whole: masks leave one token at every place."""
    allowed = [np.array([token]) for token in [*new[1:], 0]]
    return Window(session, new[0], new[1:], SamplingParams(), allowed)


def _errors(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[float]:
    return [float((a - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True)]
