"""Loading: what a user can name, what is refused, and that real files of real shapes load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    CodeGenConfig,
    CodeGenForCausalLM,
    CohereConfig,
    GraniteConfig,
    MambaConfig,
    PreTrainedConfig,
)

from apply_service.build import load_target
from apply_service.engine import loading
from apply_service.engine.loading import (
    COARSE_ROUNDING,
    ROUNDING,
    find_directory,
    load_model,
)
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ModelNotLoadable, ModelTooLarge, RemoteCodeRefused, UnknownModel, Unreachable
from apply_service.prompts.chat import Chat, FastApply
from apply_service.protocols import Prefill, SamplingParams, Window
from apply_service.settings import Settings
from tests.engine.tiny_models import SIZES, save_tiny, tiny_tokenizer

GROUPED = {name: value for name, value in SIZES.items() if name != "head_dim"}


def test_a_folder_loads_and_runs(tmp_path: Path) -> None:
    loaded = load_model(str(save_tiny(tmp_path / "tiny")))
    assert loaded.engine.determinism == "bitwise"
    assert loaded.engine.buckets[-1] == 256
    session = loaded.engine.open([5, 6, 7], 10)
    assert session is not None
    with session:
        assert loaded.engine.step([Prefill(session, 2)]) == [None]
        (answer,) = loaded.engine.step([Window(session, 7, [1, 2], SamplingParams())])
        assert answer is not None
        assert len(answer.choices) >= 1


def test_the_window_setting_sets_the_bucket(tmp_path: Path) -> None:
    assert load_model(str(save_tiny(tmp_path / "tiny")), window=31).engine.max_draft == 31


def test_a_models_record_names_format_and_windows(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "tiny")
    (directory / "apply_service.json").write_text(json.dumps({"prompt_format": "fastapply", "windows": "always"}))
    target = load_target(str(directory), Settings(model=str(directory)))
    assert isinstance(target.prompt_format, FastApply)
    assert target.windows == "always"
    (directory / "apply_service.json").write_text(json.dumps({"buckets": [8]}))
    with pytest.raises(ModelNotLoadable, match="unknown key"):
        load_model(str(directory))


@pytest.mark.parametrize("text", ["{", "[1]", '{"windows": "never"}'])
def test_a_damaged_record_is_not_loadable(tmp_path: Path, text: str) -> None:
    directory = save_tiny(tmp_path / "tiny")
    (directory / "apply_service.json").write_text(text)
    with pytest.raises(ModelNotLoadable):
        load_model(str(directory))


def test_an_unknown_prompt_format_is_not_loadable(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "tiny")
    (directory / "apply_service.json").write_text('{"prompt_format": "nope"}')
    with pytest.raises(ModelNotLoadable, match="prompt format"):
        load_target(str(directory), Settings())


def test_an_architecture_that_cannot_run_windows_is_not_loadable(tmp_path: Path) -> None:
    config = CodeGenConfig(n_embd=32, n_layer=1, n_head=2, n_positions=64, vocab_size=300, rotary_dim=8)
    CodeGenForCausalLM(config).save_pretrained(tmp_path / "codegen")
    tiny_tokenizer(vocab_size=300).save_pretrained(tmp_path / "codegen")
    with pytest.raises(ModelNotLoadable):
        load_model(str(tmp_path / "codegen"))


def test_a_recurrent_model_is_refused(tmp_path: Path) -> None:
    config = MambaConfig(hidden_size=64, state_size=8, num_hidden_layers=2, vocab_size=512)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelNotLoadable, match="recurrent state"):
        load_model(str(tmp_path))


def test_prompt_formats_by_name(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "any")
    assert isinstance(load_target(str(directory), Settings()).prompt_format, Chat)


def test_a_model_without_a_tokenizer_is_not_loadable(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "any")
    for path in directory.glob("*token*"):
        path.unlink()
    with pytest.raises(ModelNotLoadable, match="tokenizer") as caught:
        load_target(str(directory), Settings())
    assert caught.value.remedy


def test_an_unknown_name_without_a_network_says_what_to_do_by_hand() -> None:
    with pytest.raises(Unreachable, match="nobody/no-such-model") as caught:
        load_model("nobody/no-such-model")
    assert "by hand" in caught.value.remedy.lower()


def test_too_little_memory_is_told_before_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apply_service.engine.loading.free_bytes", lambda _device: 1e5)
    directory = save_tiny(tmp_path / "tiny")
    n_weights = sum(weight.numel() for weight in AutoModelForCausalLM.from_pretrained(directory).parameters())
    for dtype, n_bytes in (("float32", 4), ("bfloat16", 2)):
        with pytest.raises(ModelTooLarge) as caught:
            load_model(str(directory), dtype=dtype)
        assert str(caught.value.value).startswith(f"{n_bytes * n_weights} bytes needed")
        assert "--dtype bfloat16" in caught.value.remedy


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "tiny")
    (directory / "model.safetensors").unlink()
    torch.save({}, directory / "pytorch_model.bin")
    with pytest.raises(ModelNotLoadable):
        load_model(str(directory))


def test_code_of_a_model_is_not_run(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "tiny")
    config = json.loads((directory / "config.json").read_text())
    config["model_type"] = "made_up"
    config["auto_map"] = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "code.py").write_text("raise SystemExit('this ran')\n")
    with pytest.raises(RemoteCodeRefused):
        load_model(str(directory))


def test_a_damaged_folder_is_not_loadable(tmp_path: Path) -> None:
    directory = save_tiny(tmp_path / "tiny")
    (directory / "config.json").write_text("{")
    with pytest.raises(ModelNotLoadable):
        load_model(str(directory))


@pytest.mark.parametrize(
    "config", [GraniteConfig(**SIZES, logits_scaling=8.0), CohereConfig(**GROUPED, logit_scale=0.06)]
)
def test_scaled_logits_are_the_librarys(tmp_path: Path, config: PreTrainedConfig) -> None:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert load_model(str(tmp_path)).engine.name == str(tmp_path)


def test_a_model_with_other_logits_than_the_librarys_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = TorchEngine.head
    monkeypatch.setattr(TorchEngine, "head", lambda engine, hidden: 1.1 * head(engine, hidden))
    with pytest.raises(ModelNotLoadable, match="differ from the transformers library") as caught:
        load_model(str(save_tiny(tmp_path / "tiny")))
    assert caught.value.limit == ROUNDING


@pytest.mark.parametrize("own", [0.0, 0.5])
def test_in_coarse_numbers_as_much_is_allowed_as_the_library_differs_from_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: float
) -> None:
    """Qwen2.5-Coder-1.5B in bfloat16: ours and `sdpa` both differ from `eager` by 0.72."""
    head, library = TorchEngine.head, loading._library_logits

    def shifted(logits: torch.Tensor, n_deviations: float) -> torch.Tensor:
        logits[..., 0] += n_deviations * logits.float().std().to(logits.dtype)
        return logits

    monkeypatch.setattr(TorchEngine, "head", lambda engine, hidden: shifted(head(engine, hidden), 0.8))
    monkeypatch.setattr(
        loading,
        "_library_logits",
        lambda model, ids, attention: shifted(library(model, ids, attention), own if attention == "sdpa" else 0.0),
    )
    directory = str(save_tiny(tmp_path / "tiny"))
    if own:
        assert load_model(directory, dtype="bfloat16").number_format == "bfloat16"
        return
    with pytest.raises(ModelNotLoadable, match="differ from the transformers library") as caught:
        load_model(directory, dtype="bfloat16")
    assert caught.value.limit == COARSE_ROUNDING


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-Coder-0.5B-Instruct", "qwen2.5-coder-0.5b"])
def test_a_folder_of_the_current_one_never_stands_in_for_the_hubs_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloned project may have such a folder."""
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("apply_service.models.hub.find", lambda _: None)
    with pytest.raises(UnknownModel) as error:
        find_directory(name, None, allow_remote_code=False)
    assert f"./{name}" in error.value.remedy
    assert find_directory(f"./{name}", None, allow_remote_code=False) == Path(name)
