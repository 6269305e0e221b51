"""GGUF files: every kind of number, the tokenizer and the template come out; what can't be read says why in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")
pytest.importorskip("transformers", minversion="5.23")

from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config  # noqa: E402

from apply_service.build import load_target  # noqa: E402
from apply_service.engine.gguf import unpacked  # noqa: E402
from apply_service.engine.loading import load_model  # noqa: E402
from apply_service.errors import ModelNotLoadable, ModelTooLarge  # noqa: E402
from apply_service.prompts.tokenizer import ChatTokenizer  # noqa: E402
from apply_service.settings import Settings  # noqa: E402
from tests.engine.tiny_gguf import save_gguf, stored_as  # noqa: E402
from tests.engine.tiny_models import SIZES, tiny_model, tiny_tokenizer  # noqa: E402

KINDS = gguf.GGMLQuantizationType
IDS = torch.arange(40)[None] % 300


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(IDS).logits
    return found


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_file_in_float32_gives_the_same_logits(tmp_path: Path, family: str) -> None:
    model = tiny_model(family, attention="sdpa")
    if family == "llama":  # llama.cpp's converter writes no biases of llama
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.data.zero_()
    folder = unpacked(save_gguf(tmp_path / "tiny.gguf", model), tmp_path / "unpacked")
    found = AutoModelForCausalLM.from_pretrained(folder)
    assert torch.equal(logits(found.eval()), logits(model))


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q4_K", "Q6_K"])
def test_every_kind_of_number_is_unpacked(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    wide = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64, "num_attention_heads": 4}
    config = Qwen2Config(**SIZES | wide | {"num_key_value_heads": 4, "num_hidden_layers": 1})
    model = AutoModelForCausalLM.from_config(config).eval()
    folder = unpacked(save_gguf(tmp_path / "tiny.gguf", model, KINDS[kind]), tmp_path / "unpacked")
    found = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert found.dtype == (torch.float16 if kind == "F16" else torch.bfloat16)
    name = "model.layers.0.mlp.down_proj.weight"
    wanted = gguf.dequantize(stored_as(model.state_dict()[name].numpy(), KINDS[kind]), KINDS[kind])
    assert torch.equal(found.state_dict()[name], torch.tensor(wanted).to(found.dtype))


def test_a_file_is_a_model_with_tokenizer_and_template(tmp_path: Path) -> None:
    path = save_gguf(tmp_path / "FastApply-tiny.gguf", tiny_model("qwen2", attention="sdpa"), KINDS.Q8_0)
    target = load_target(str(path), Settings(model=str(path), state_dir=str(tmp_path / "state")))
    assert target.name == str(path)
    assert target.prompt_format.name == "fastapply"
    assert target.info.determinism == "bitwise"
    (folder,) = (tmp_path / "state" / "models").iterdir()
    ours, real = ChatTokenizer(tiny_tokenizer()), ChatTokenizer(AutoTokenizer.from_pretrained(folder))
    chat = [{"role": "user", "content": "class Thing:\n\tvalue = 'é' <|im_end|><|im_start|>"}]
    assert real.encode_chat(chat) == ours.encode_chat(chat)
    assert real.end_id == ours.end_id


def test_a_file_is_unpacked_once(tmp_path: Path) -> None:
    path = save_gguf(tmp_path / "tiny.gguf", tiny_model("qwen2", attention="sdpa"))
    folder = unpacked(path, tmp_path / "unpacked")
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert unpacked(path, tmp_path / "unpacked") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert list((tmp_path / "unpacked").iterdir()) == [folder]


def test_what_is_no_gguf_is_told_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"PK\x03\x04 a pickle")
    with pytest.raises(ModelNotLoadable, match=r"PK\\x03\\x04.*GGUF"):
        load_model(str(tmp_path / "model.bin"))


def test_a_cut_file_is_not_loadable(tmp_path: Path) -> None:
    whole = save_gguf(tmp_path / "tiny.gguf", tiny_model("qwen2", attention="sdpa"))
    for n_bytes in (20, 5_000, whole.stat().st_size // 2):
        (tmp_path / "cut.gguf").write_bytes(whole.read_bytes()[:n_bytes])
        with pytest.raises(ModelNotLoadable):
            unpacked(tmp_path / "cut.gguf", tmp_path / "unpacked")


def test_an_unknown_quantisation_is_named(tmp_path: Path) -> None:
    path = save_gguf(tmp_path / "tiny.gguf", tiny_model("qwen2", attention="sdpa"), KINDS.Q8_0)
    data = path.read_bytes()
    at = data.index(b"blk.0.ffn_up.weight") + len(b"blk.0.ffn_up.weight") + 4 + 2 * 8  # name, dimensions
    assert data[at] == KINDS.Q8_0
    for number, said in ((24, r"I8 \(type 24\)"), (99, "99")):
        path.write_bytes(data[:at] + bytes([number]) + data[at + 1 :])
        with pytest.raises(ModelNotLoadable, match=said):
            unpacked(path, tmp_path / "unpacked")


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = save_gguf(tmp_path / "tiny.gguf", tiny_model("qwen2", attention="sdpa"))
    path.write_bytes(path.read_bytes().replace(b"qwen2", b"qwenX"))
    with pytest.raises(ModelNotLoadable, match="qwenX"):
        unpacked(path, tmp_path / "unpacked")


def test_too_little_memory_is_told_before_anything_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("qwen2", attention="sdpa")
    path = save_gguf(tmp_path / "tiny.gguf", model, KINDS.Q4_0)
    monkeypatch.setattr("apply_service.engine.gguf.free_bytes", lambda _device: 1e5)
    n_weights = [weight.numel() for weight in model.parameters()]
    with pytest.raises(ModelTooLarge) as caught:
        unpacked(path, tmp_path / "unpacked")
    assert str(caught.value.value).startswith(f"{2 * sum(n_weights) + 8 * max(n_weights)} bytes needed")
    assert str(caught.value.limit).startswith("100000 bytes free")
    assert not (tmp_path / "unpacked").exists()
