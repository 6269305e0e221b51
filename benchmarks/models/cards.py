"""Which model fits which graphics card: the engine's own plan of memory for each, without a card or weights.

python -m benchmarks.models.cards
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import torch

from apply_eval.replay import ReplayShape, find_shape, model_of_shape
from apply_service.engine.memory import plan_memory
from apply_service.engine.weights import Weights
from benchmarks.report import RESULTS, write_result

CARDS_GIB = (6, 8, 12, 16, 24, 48, 80)
TAKEN_GIB = 0.6
"""What driver and context take of a card before anything is loaded."""
FORMATS: tuple[Weights, ...] = ("own", "fp8", "int8")
KV_CACHE_BYTES = 2**30
"""The default of `kv_cache_mb`; at least one full context is taken."""
N_ROWS = 512

_SMALL = find_shape("replay:qwen2.5-coder-1.5b")
# Qwen3 has no biases of attention, and norms of queries and keys that weigh next to nothing: counted as a llama.
_QWEN3 = replace(_SMALL, family="llama", n_heads=16, n_kv_heads=8, published_params=None)
SHAPES: dict[str, ReplayShape] = {
    "qwen2.5-coder-0.5b": replace(
        _SMALL, d_model=896, d_ff=4864, n_layers=24, n_heads=14, d_head=64, published_params=None
    ),
    "fastapply-1.5b, qwen2.5-coder-1.5b": _SMALL,
    "osmosis-apply-1.7b": replace(_QWEN3, d_model=2048, d_ff=6144, n_layers=28, context=40_960),
    "aixapply-4b": replace(_QWEN3, d_model=2560, d_ff=9728, n_layers=36, n_heads=32),
    "fastapply-7b, qwen2.5-coder-7b": find_shape("replay:qwen2.5-coder-7b"),
}
"""Context: tokens of one sequence, as the published configurations have it, or 32,768 where that is less."""


def main() -> int:
    models = {}
    for name, shape in SHAPES.items():
        with torch.device("meta"):
            model = model_of_shape(shape, torch.bfloat16)
        n_params = sum(weight.numel() for weight in model.parameters())
        room: dict[str, Any] = {"kv_cache_bytes": KV_CACHE_BYTES, "n_rows": N_ROWS}
        plans = {}
        for kind in FORMATS:
            plan = plan_memory(model, kind, torch.device("cuda"), free=0.0, **room)
            fits = [gib for gib in CARDS_GIB if replace(plan, free=(gib - TAKEN_GIB) * 2**30).fits]
            parts = {"weights": plan.weights, "kv_cache": plan.kv_cache, "needed": plan.needed}
            plans[kind] = {**parts, "smallest_card_gib": min(fits, default=None)}
        models[name] = {"n_params": n_params, "context": shape.context, "plans": plans}
    about = {"kind": "model_cards", "cards_gib": CARDS_GIB, "taken_gib": TAKEN_GIB, "n_rows": N_ROWS}
    write_result(RESULTS / "models-cards.json", {**about, "models": models})
    return 0


if __name__ == "__main__":
    sys.exit(main())
