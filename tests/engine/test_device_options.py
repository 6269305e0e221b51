"""What passes run on: better ways where they work, and a broken one is found before it is used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from apply_service.engine import loading
from apply_service.engine import self_test as self_test_store
from apply_service.engine.attention import find_kernels
from apply_service.engine.passes import Passes, PassOutput
from apply_service.engine.self_test import (
    SelfTest,
    attention_error,
    buckets_on,
    check_device_parts,
    find_options,
    find_self_test,
    replay_error,
)
from apply_service.engine.torch_local import DEFAULT_BUCKETS, TorchEngine
from apply_service.errors import EngineFailure, MissingDependency
from tests.engine.plain_kernels import PLAIN
from tests.engine.test_graphs import CPU, record
from tests.engine.tiny_models import tiny_model

FOUND = SelfTest((4, 8), 4, {4: 0.0, 8: 0.0}, {4: 0.0, 8: 0.0})


def engine_with(kernels: Any = PLAIN) -> TorchEngine:
    return TorchEngine(tiny_model("qwen2"), name="q", buckets=(8, 32), kernels=kernels)


def test_a_kernel_that_is_right_passes() -> None:
    engine = engine_with()
    assert engine.kernels is not None
    assert attention_error(engine.kernels, engine) < 1e-5
    check_device_parts(engine)


def test_a_kernel_that_is_wrong_is_found() -> None:
    """It leaves out the last key."""

    def short(query: Any, keys: Any, values: Any, places: Any, tile: Any, **options: Any) -> torch.Tensor:
        places = places._replace(positions=(places.positions - 1).clamp(min=0))
        return PLAIN.attend_slots(query, keys, values, places, tile, **options)

    with pytest.raises(EngineFailure, match="attention kernel"):
        check_device_parts(engine_with(replace(PLAIN, attend_slots=short)))


def test_a_replay_that_is_right_passes() -> None:
    engine = engine_with()
    engine.passes = Passes(CPU, record)
    assert replay_error(engine) == 0.0
    assert engine.has_graphs, "left as it was"


def test_a_replay_that_does_nothing_is_found() -> None:
    def stuck(compute: Callable[[], PassOutput]) -> tuple[PassOutput, Callable[[], None]]:
        return compute(), lambda: None

    engine = engine_with()
    engine.passes = Passes(CPU, stuck)
    with pytest.raises(EngineFailure, match="CUDA graph"):
        check_device_parts(engine)


def test_ways_that_fail_are_left_for_plainer_ones(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[dict[str, Any]] = []

    def make(model: object, **options: Any) -> dict[str, Any]:
        tried.append({key: options.get(key) for key in ("attention", "cuda_graphs")})
        return options

    def test(options: dict[str, Any]) -> SelfTest:
        if options.get("attention") != "sdpa":
            raise RuntimeError("no such instruction")
        return FOUND

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(self_test_store, "TorchEngine", make)
    monkeypatch.setattr(self_test_store, "run_self_test", test)
    with caplog.at_level(logging.INFO):
        found = find_self_test(tiny_model("llama"), "m", (4, 8), None, {"attention": "auto", "cuda_graphs": "auto"})
    assert [tuple(way.values()) for way in tried] == [("auto", "auto"), ("auto", "off"), ("sdpa", "off")]
    assert found.notes[0] == "attention auto, graphs auto: RuntimeError: no such instruction"
    assert "m: attention sdpa, CUDA graphs off" in caplog.text
    with pytest.raises(RuntimeError):
        find_options(tiny_model("llama"), "m", (4, 8), {"attention": "triton", "cuda_graphs": "auto"})


def test_an_engine_runs_as_its_self_test_did(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def make(_model: Any, **options: Any) -> Any:
        seen.update(options)

    for found, graphs in ((FOUND, "off"), (replace(FOUND, attention="triton", has_graphs=True), "on")):
        monkeypatch.setattr(loading, "find_self_test", lambda *_, found=found: found)
        room, asked = {"kv_cache_bytes": 1}, {"attention": "auto", "known": None}
        loading.make_ready(
            tiny_model("llama"), "m", room, asked, window=None, self_tests=None, engine_type=cast(Any, make)
        )
        assert seen == room | {"name": "m", "known": None} | {
            "buckets": found.buckets,
            "determinism": found.determinism,
            "query_grain": found.query_grain,
            "pass_times": found.pass_times,
            "attention": found.attention,
            "cuda_graphs": graphs,
        }


def test_a_kernel_asked_for_by_name_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(MissingDependency, match="can't run here"):
        find_kernels("triton", CPU)
    assert find_kernels("sdpa", CPU) == (None, "attention is set to sdpa")
    kernels, why = find_kernels("auto", CPU)
    assert kernels is None
    assert why


def test_the_cpu_keeps_its_row_counts() -> None:
    assert buckets_on(tiny_model("llama")) == DEFAULT_BUCKETS
