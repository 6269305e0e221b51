"""The plan of a device's memory, and what is said where a model does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from apply_eval.replay import find_shape, load_replay, make_model, model_of_shape
from apply_service.engine.loading import load_model
from apply_service.engine.memory import MemoryPlan, free_bytes, plan_memory, refuse_plan
from apply_service.errors import ModelTooLarge
from tests.engine.tiny_models import save_tiny, tiny_model

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card with 10 GB free."""
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _device: (10_000_000_000, 16_000_000_000))


def plan(weights: int, kv_cache: int = 0, **values: object) -> MemoryPlan:
    return MemoryPlan("own", weights, kv_cache, 0, 0, 100.0, **values)  # type: ignore[arg-type]


def test_a_plan_counts_weights_slots_a_pass_and_graphs() -> None:
    model = tiny_model("qwen2", dtype=torch.bfloat16)
    found = plan_memory(model, "own", CUDA, kv_cache_bytes=0, n_rows=256)
    assert found.weights == 2 * sum(p.numel() for p in model.parameters())
    assert found.kv_cache == 2048 * (2 * 2 * 2 * 16 * 2)  # tokens x (keys and values, layers, heads, width, bytes)
    assert found.activations >= 256 * 512 * 4
    assert found.graphs > 0
    sdpa = plan_memory(model, "own", CUDA, kv_cache_bytes=0, n_rows=256, attention="sdpa")
    assert found.activations - sdpa.activations == 4 * 256 * 6 * (16 + 2) * 4  # stretches, rows, heads, width and two
    assert found.free == 10e9
    assert plan_memory(model, "own", CUDA, kv_cache_bytes=0, n_rows=256, cuda_graphs="off").graphs == 0
    assert plan_memory(model, "own", CUDA, kv_cache_bytes=2**30, n_rows=256).kv_cache == 2**30


def test_on_the_cpu_what_is_there_or_comes_page_by_page_does_not_count() -> None:
    found = plan_memory(tiny_model("qwen2"), "own", CPU, kv_cache_bytes=2**40, n_rows=4)
    assert found.weights == found.kv_cache == found.graphs == 0


def test_a_little_is_left() -> None:
    refuse_plan(plan(90), "x")
    assert not plan(98).fits


def test_a_refusal_names_needed_and_free_bytes_and_the_ways_out() -> None:
    with pytest.raises(ModelTooLarge) as refused:
        refuse_plan(plan(400, 200), "giant")
    assert str(refused.value.value).startswith("600 bytes needed")
    assert str(refused.value.limit).startswith("100 bytes free")
    for word in ("--weights fp8 or int8", "--kv-cache-mb", "smaller model"):
        assert word in refused.value.remedy
    assert "giant" in refused.value.message
    assert refused.value.code == "model_too_large"


def test_a_shape_of_70b_fits_one_h200_in_fp8_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """143,771 MiB as the driver tells, of which 1 GiB is its own; 64 edits of 2,048 tokens beside it."""
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _device: ((143_771 - 1024) * 2**20, 143_771 * 2**20))
    shape = find_shape("replay:llama-3-70b")
    with torch.device("meta"):
        model = model_of_shape(shape, torch.bfloat16)
    room = {"kv_cache_bytes": 44 * 2**30, "n_rows": 256}
    own, fp8 = (plan_memory(model, kind, CUDA, **room) for kind in ("own", "fp8"))  # type: ignore[arg-type]
    assert not own.fits
    assert fp8.fits
    assert own.weights == pytest.approx(141.1e9, rel=0.001)
    assert fp8.weights == pytest.approx(70.6e9 + 2 * 128_256 * 8_192, rel=0.01)  # embedding and head in 16 bits


def test_a_shape_that_does_not_fit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apply_service.engine.memory.free_bytes", lambda _device: 1e9)
    with pytest.raises(ModelTooLarge) as refused:
        make_model(find_shape("replay:llama-3-70b"), CPU, "bfloat16")
    assert "141." in str(refused.value.value)
    assert "1.0 GB" in str(refused.value.limit)


def test_free_memory_is_a_number_of_bytes() -> None:
    assert free_bytes(CPU) > 1e6
    assert free_bytes(CUDA) == 10e9


@pytest.mark.parametrize("weights", ["fp8", "int8"])
def test_models_load_in_the_format_asked_for_and_tell_their_plan(tmp_path: Path, weights: str) -> None:
    loaded = load_model(str(save_tiny(tmp_path / "tiny")), device="cpu", weights=weights)  # type: ignore[arg-type]
    assert loaded.memory is not None
    assert loaded.memory.weights_format == weights
    assert loaded.engine.determinism == "bitwise"
    replayed = load_replay("replay:tiny-2m", device="cpu", weights=weights, window=7)  # type: ignore[arg-type]
    assert replayed.memory is not None
    assert replayed.memory.as_dict()["weights_format"] == weights
