"""Ablations: a curve begins with the start, a random start is no copier, and what was run is not run again."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from apply_service.prompts.compact import Compact
from tests.training.edits import make_edits
from tests.training.test_train import stream_of
from training.ablations import VARIANTS, Variant, begun, run_variant
from training.evaluate import validation_cases
from training.initialisation import initialise
from training.model import Network, Shape
from training.optimizer import build_optimizers
from training.train import MODEL_DIR

COMPACT = Compact.from_directory(MODEL_DIR)


def test_a_curve_has_the_start_and_the_end(tmp_path: Path) -> None:
    cases = validation_cases(make_edits(10), COMPACT, n_cases=6, seed=0, max_lines=16)
    variant = Variant("small", options={"n_layers": 3, "bf16": False})
    curve = run_variant(variant, stream_of(tmp_path), cases, COMPACT, steps=2, scores=1)
    assert [row["step"] for row in curve] == [0, 2]
    assert curve[0]["merger"]["token_accuracy"] > 0.9
    assert curve[1]["loss"] > 0


def test_a_random_start_has_nothing_to_spare() -> None:
    network = Network(Shape(COMPACT.vocabulary.n_tokens, n_layers=3))
    initialise(network, COMPACT.vocabulary, seed=0, circuits=False)
    build_optimizers(network, lr=1e-3, has_circuits=False)
    assert all(parameter.requires_grad for parameter in network.parameters())
    other = Network(Shape(COMPACT.vocabulary.n_tokens, n_layers=3))
    initialise(other, COMPACT.vocabulary, seed=0)
    assert not torch.equal(network.model.embed_tokens.weight, other.model.embed_tokens.weight)


def test_results_of_the_same_plan_are_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "ablations.json"
    assert begun(path, steps=3, n_cases=2)["variants"] == {}
    path.write_text(json.dumps({"steps": 3, "n_cases": 2, "variants": {"base": {}}}))
    assert begun(path, steps=3, n_cases=2)["variants"] == {"base": {}}
    assert begun(path, steps=4, n_cases=2)["variants"] == {}


def test_every_variant_differs_from_the_recipe() -> None:
    base = VARIANTS["base"]
    assert all((one.mix, one.options) != (base.mix, base.options) for name, one in VARIANTS.items() if name != "base")
