"""An engine on the Triton kernels, under their interpreter: the whole path, recorded passes included, decodes what an
engine on PyTorch's attention decodes."""

from __future__ import annotations

import os

import pytest

from apply_service.drafting.drafter import NoDraft
from apply_service.engine.passes import Passes
from apply_service.engine.self_test import check_device_parts
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import Drafter, SamplingParams
from tests.adversarial import RandomDraft
from tests.engine.test_graphs import CPU, record
from tests.engine.test_torch_local import N_VOCAB, decode, ids_of
from tests.engine.tiny_models import tiny_model

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="TRITON_INTERPRET is not 1")

LIMIT = 8


@pytest.mark.parametrize("family", ["qwen2", "gemma2"])
def test_kernels_decode_what_pytorchs_attention_decodes(family: str) -> None:
    """Gemma 2 has sliding windows and capped scores."""
    model, prompt = tiny_model(family), ids_of(29)
    wanted = decode(TorchEngine(model, name="s", buckets=(8, 32)), NoDraft(), prompt, SamplingParams(), LIMIT)
    engine = TorchEngine(model, name="t", buckets=(8, 32), attention="triton")
    assert (engine.attention, engine.has_graphs) == ("triton", False)
    engine.passes = Passes(CPU, record)
    drafters: list[Drafter] = [NoDraft(), RandomDraft(N_VOCAB, seed=1, answer=wanted.output_ids)]
    for drafter in drafters:
        found = decode(engine, drafter, prompt, SamplingParams(), LIMIT)
        assert found.output_ids == wanted.output_ids, type(drafter).__name__


def test_the_check_at_start_passes() -> None:
    check_device_parts(TorchEngine(tiny_model("llama"), name="l", buckets=(8, 32), attention="triton"))
