"""The shipped model directory: complete, small, and a plain Llama."""

from __future__ import annotations

import json
import re

import pytest

from apply_service.prompts.compact import Compact
from training.corpus import is_excluded
from training.export import RECORD, config_of
from training.model import Shape
from training.train import MODEL_DIR

WEIGHTS = MODEL_DIR / "model.safetensors"


@pytest.mark.skipif(not WEIGHTS.exists(), reason="no weights are shipped yet")
def test_the_shipped_model_is_small_and_loads() -> None:
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    assert WEIGHTS.stat().st_size < 12_000_000
    model = AutoModelForCausalLM.from_pretrained(MODEL_DIR)
    assert isinstance(model, LlamaForCausalLM)
    assert model.config.max_position_embeddings >= 4096
    assert model.config.vocab_size == Compact.from_directory(MODEL_DIR).vocabulary.n_tokens


@pytest.mark.skipif(not WEIGHTS.exists(), reason="no weights are shipped yet")
def test_the_shipped_config_is_what_export_writes() -> None:
    config = json.loads((MODEL_DIR / "config.json").read_text())
    vocabulary = Compact.from_directory(MODEL_DIR).vocabulary
    assert config == config_of(Shape(vocabulary.n_tokens, n_layers=config["num_hidden_layers"]), vocabulary)
    record = json.loads((MODEL_DIR / "apply_service.json").read_text())
    assert record.pop("counts").keys() == {"certain", "likely", "guess"}, "made by calibration"
    assert record == RECORD


def test_the_shipped_model_was_trained_on_no_evaluation_repository() -> None:
    card = (MODEL_DIR / "README.md").read_text()
    sources = re.findall(r"([\w.-]+/[\w.-]+) \(\d+\)", card.partition("## Sources")[2])
    assert len(sources) > 40
    assert [repo for repo in sources if is_excluded(repo)] == []
    held_out = re.search(r"windows of\s+(.*) were held out", card)
    assert held_out is not None
    assert not set(held_out[1].split(", ")) & set(sources)
