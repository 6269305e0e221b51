"""A LoRA adapter is part of the weights after loading: what it adds, what is refused, and that no draft changes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from apply_service.build import build_runtime
from apply_service.engine.loading import DOWN, PREFIX, UP, add_adapter
from apply_service.errors import ModelNotLoadable, SettingsError
from apply_service.pipeline import read_edit
from apply_service.registry import COPY_DRAFTERS
from apply_service.settings import Settings
from apply_service.target import in_process, open_decoding
from apply_service.types import ApplyRequest
from tests.decoding.alone import decode_alone
from tests.engine.tiny_models import save_tiny

RANK, ALPHA = 3, 6
LAYERS = ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("adapter") / "base")


def read(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()


def pairs(base: Path) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    found = {}
    for name in LAYERS:
        n_out, n_in = read(base).get_submodule(name).weight.shape
        found[PREFIX + name + DOWN] = 0.5 * torch.randn(RANK, n_in, generator=generator)
        found[PREFIX + name + UP] = 0.5 * torch.randn(n_out, RANK, generator=generator)
    return found


def write(folder: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    known = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": LAYERS}
    (folder / "adapter_config.json").write_text(json.dumps({**known, "base_model_name_or_path": "some/base", **config}))
    return folder


def test_the_product_of_each_pair_is_added(base: Path, tmp_path: Path) -> None:
    tensors = pairs(base)
    for folder, scale, more in (("plain", ALPHA / RANK, {}), ("rs", ALPHA / RANK**0.5, {"use_rslora": True})):
        before, model = read(base), read(base)
        add_adapter(model, write(tmp_path / folder, tensors, **more))
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                added = module.weight - before.get_submodule(name).weight
                up, down = (tensors.get(PREFIX + name + end) for end in (UP, DOWN))
                wanted = torch.zeros_like(added) if up is None or down is None else scale * up @ down
                assert torch.allclose(added, wanted, atol=1e-5), name


def test_it_is_what_peft_computes_beside_the_weights(base: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    folder, model = write(tmp_path / "adapter", pairs(base), task_type="CAUSAL_LM"), read(base)
    add_adapter(model, folder)
    beside = peft.PeftModel.from_pretrained(read(base), folder).eval()
    ids = torch.arange(40)[None] % 512
    with torch.inference_mode():
        found, wanted, plain = (one(ids).logits for one in (model, beside, read(base)))
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(found, plain, atol=1e-2)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_no_drafter_changes_what_an_adapted_model_writes(temperature: float, base: Path, tmp_path: Path) -> None:
    adapter = write(tmp_path / "adapter", pairs(base))
    settings = Settings(model=str(base), adapter=str(adapter), state_dir=str(tmp_path / "state"))
    request = ApplyRequest(
        "import os\n\n\ndef area(w, h):\n    return w * h\n", "def area(w, h):\n    return w + h\n", path="shapes.py"
    )
    request = replace(request, temperature=temperature, seed=3, max_tokens=48)
    job, outputs = read_edit(request, "python"), []
    for one, drafters in (
        (settings, ("none", *COPY_DRAFTERS, "prompt_lookup")),
        (replace(settings, adapter=None), ("none",)),
    ):
        target = in_process(build_runtime(one).load(str(base)))
        for drafter in drafters:
            with open_decoding(job, request, target, drafter) as decoding:
                for _ in decode_alone(decoding):
                    pass
            outputs.append(decoding.output_ids)
    *adapted, without = outputs
    assert all(output == adapted[0] for output in adapted)
    assert without != adapted[0]


def bad(base: Path) -> dict[str, tuple[str, dict[str, torch.Tensor], dict[str, Any]]]:
    """What is wrong -> a part of the message, tensors, and keys of the configuration."""
    tensors, kind = pairs(base), "not a plain LoRA"
    first, unknown = PREFIX + LAYERS[0] + UP, PREFIX + "model.layers.9.mlp.up_proj"
    return {
        "dora": (kind, tensors, {"use_dora": True}),
        "ranks": (kind, tensors, {"rank_pattern": {"q_proj": 8}}),
        "base changed": (kind, tensors, {"init_lora_weights": "pissa"}),
        "other kind": (kind, tensors, {"peft_type": "VERA"}),
        "later switch": (kind, tensors, {"a_switch_of_a_later_version": True}),
        "rank 0": ("can't be read", tensors, {"r": 0}),
        "half a pair": ("A and B matrices", {name: value for name, value in tensors.items() if name != first}, {}),
        "shape": ("another model", {**tensors, first: torch.zeros(5, RANK)}, {}),
        "layer": ("another model", {unknown + end: torch.zeros(RANK, RANK) for end in (UP, DOWN)}, {}),
    }


@pytest.mark.parametrize(
    "wrong",
    ["dora", "ranks", "base changed", "other kind", "later switch", "rank 0", "half a pair", "shape", "layer"],
)
def test_what_is_no_plain_adapter_of_this_model_is_refused(wrong: str, base: Path, tmp_path: Path) -> None:
    message, tensors, config = bad(base)[wrong]
    with pytest.raises(ModelNotLoadable, match=message) as caught:
        add_adapter(read(base), write(tmp_path / "adapter", tensors, **config))
    assert caught.value.remedy


def test_pickled_adapters_are_refused(base: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "adapter", pairs(base))
    (folder / "adapter_model.safetensors").unlink()
    torch.save(pairs(base), folder / "adapter_model.bin")
    with pytest.raises(ModelNotLoadable, match="can't be read"):
        add_adapter(read(base), folder)


@pytest.mark.parametrize("model", ["embedded", "remote:model"])
def test_a_model_that_is_not_loaded_here_takes_no_adapter(model: str) -> None:
    with pytest.raises(SettingsError, match="adapter"):
        Settings(model=model, adapter="somewhere")
