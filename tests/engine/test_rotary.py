"""Models whose rotary frequencies depend on the length: no neighbour's length counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Phi3Config

from apply_service.engine.attention import register
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import SamplingParams, Window
from tests.engine.test_torch_local import ids_of, opened
from tests.engine.tiny_models import SIZES

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 8,
    "long_factor": [1.0 + i / 2 for i in range(8)],
    "original_max_position_embeddings": 64,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}


def config_of(family: str, rope: dict[str, Any], *, context: int = 1024) -> LlamaConfig | Phi3Config:
    sizes = {**SIZES, "max_position_embeddings": context, "rope_parameters": rope, "pad_token_id": 0}
    if family == "phi3":
        return Phi3Config(**sizes, original_max_position_embeddings=64)
    return LlamaConfig(**sizes)


def model_of(config: LlamaConfig | Phi3Config, attention: str | None = None) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention or register())
    return model.eval()


CASES = [("llama", LONGROPE), ("phi3", LONGROPE), ("llama", DYNAMIC)]


@pytest.mark.parametrize(
    ("family", "rope"), CASES, ids=lambda case: case if isinstance(case, str) else case["rope_type"]
)
def test_a_long_neighbour_changes_nothing(family: str, rope: dict[str, Any]) -> None:
    """The bug: beside a sequence over the original length, another read with other frequencies than alone."""
    engine = TorchEngine(model_of(config_of(family, rope)), name=family, buckets=(64,))
    ids = ids_of(20)
    found = []
    with torch.inference_mode():
        for n_beside in (5, 900, 5):
            session, neighbour = opened(engine, ids, 30), opened(engine, ids_of(n_beside, 1), 100)
            windows = [Window(one, 7, [8, 9], SamplingParams()) for one in (session, neighbour)]
            found.append(engine.logits(windows, 64)[0][:3].clone())
            session.close()
            neighbour.close()
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(("context", "n_ids"), [(1024, 100), (64, 50)])
@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_logits_are_those_of_the_plain_forward(family: str, context: int, n_ids: int) -> None:
    """Where long sequences may come, of a long one; where none may, of any."""
    config, ids = config_of(family, LONGROPE, context=context), ids_of(n_ids)
    with torch.inference_mode():
        wanted = model_of(config, "eager")(torch.tensor([ids])).logits[0]
        engine = TorchEngine(model_of(config), name=family, buckets=(4, 32))
        session = opened(engine, ids[: n_ids - 3], 14)
        logits, layout = engine.logits([Window(session, ids[-4], ids[-3:], SamplingParams())], 32)
    torch.testing.assert_close(logits[layout.windows[0].first :][:4], wanted[-4:], rtol=1e-3, atol=1e-4)
