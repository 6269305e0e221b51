"""The command `engine`: the lines that start other engines, and the memory that a model takes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.commands.engine import LINES, STARTS, memory_of

Captured = pytest.CaptureFixture[bytes]


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))


@pytest.mark.parametrize(("engine", "drafter"), [(name, drafter) for name in LINES for drafter in LINES[name]])
def test_every_line_names_the_model_and_what_it_needs(capsysbinary: Captured, engine: str, drafter: str) -> None:
    words = ["engine", engine, "--model", "my model", "--drafter", drafter, "--draft", "a head", "--json"]
    assert main(words) == 0
    answer = json.loads(capsysbinary.readouterr().out)
    line = LINES[engine][drafter]
    words = shlex.split(answer["command"].removeprefix(line.variables))
    assert words[: len(STARTS[engine])] == ["my model" if word == "MODEL" else word for word in STARTS[engine]]
    assert ("a head" in answer["command"] + answer["file"]) == line.needs_draft
    assert "DRAFT" not in answer["command"] + answer["file"]
    if "--speculative-config" in words:
        assert json.loads(words[-1])["num_speculative_tokens"] > 0


def test_a_drafter_that_the_engine_lacks_is_refused_with_those_it_has(capsysbinary: Captured) -> None:
    assert main(["engine", "sglang", "--model", "m", "--drafter", "suffix"]) == 2
    assert b"prompt_lookup, draft_model, eagle3, mtp" in capsysbinary.readouterr().err


def test_a_head_without_files_is_refused(capsysbinary: Captured) -> None:
    assert main(["engine", "vllm", "--model", "m", "--drafter", "eagle3"]) == 2
    assert b"--draft" in capsysbinary.readouterr().err


def test_memory_is_files_keys_and_values(tmp_path: Path) -> None:
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 100_000}))
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    assert memory_of(tmp_path) == {
        "weights": 1000, "kv_cache": 2 * 2 * 2 * 16 * 2 * 32_768, "context": 32_768, "smallest_card_gib": 6,
    }  # fmt: skip
    told = memory_of(tmp_path, 10)
    assert told is not None
    assert told["kv_cache"] == 2 * 2 * 2 * 16 * 2 * 10


def test_memory_has_the_draft_model_in_it(tmp_path: Path, capsysbinary: Captured) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    words = ["engine", "vllm", "--model", str(tmp_path), "--draft", str(tmp_path), "--json", "--drafter"]
    for drafter, n_bytes in (("draft_model", 2000), ("suffix", 1000)):
        assert main([*words, drafter]) == 0
        assert json.loads(capsysbinary.readouterr().out)["memory"]["weights"] == n_bytes


def test_what_an_engine_cannot_run_is_refused(tmp_path: Path, capsysbinary: Captured) -> None:
    assert main(["engine", "llama.cpp", "--model", str(tmp_path)]) == 2
    assert b"GGUF" in capsysbinary.readouterr().err
    assert main(["engine", "vllm", "--model", "m", "--context", "0"]) == 2
    assert b"--context" in capsysbinary.readouterr().err


@pytest.mark.parametrize("config", ["{", "[]", '{"num_attention_heads": 4, "num_hidden_layers": 2}'])
def test_what_a_folder_does_not_tell_is_not_claimed(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert memory_of(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    told = memory_of(tmp_path)
    assert told is not None
    assert (told["weights"], told["kv_cache"]) == (1000, None)


def test_a_gguf_file_tells_its_size_alone(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(bytes(10))
    told = memory_of(tmp_path / "m.gguf")
    assert told is not None
    assert (told["weights"], told["kv_cache"]) == (10, None)
