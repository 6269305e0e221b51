"""The self-test at start: made once, cheaply; times are corrected by what is served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from apply_service.engine import self_test, torch_local
from apply_service.engine.loading import LoadedModel, load_model
from apply_service.engine.self_test import run_self_test
from apply_service.engine.self_test_store import SelfTestStore
from apply_service.engine.torch_local import DEFAULT_BUCKETS, TorchEngine, stopwatch
from apply_service.protocols import SamplingParams, Window
from tests.engine.test_torch_local import opened
from tests.engine.tiny_models import save_tiny, tiny_model

HUGE_S = 1e6


def started_again(tmp_path: Path, **changes: Any) -> tuple[LoadedModel, dict[str, Any]]:
    """A second start, after a record of the first one was changed; and what is on record then."""
    store, name = SelfTestStore(tmp_path / "tests"), str(save_tiny(tmp_path / "tiny"))
    load_model(name, self_tests=store)
    (record,) = (tmp_path / "tests").iterdir()
    record.write_text(json.dumps({**json.loads(record.read_text()), **changes}))
    return load_model(name, self_tests=store), json.loads(record.read_text())


def test_bits_are_compared_once(tmp_path: Path) -> None:
    flipped = {str(bucket): 0.125 for bucket in DEFAULT_BUCKETS}
    loaded, record = started_again(tmp_path, query_grain=12, flipped_choices=flipped)
    assert loaded.engine.query_grain == 12  # type: ignore[union-attr]
    assert loaded.self_test is not None
    assert loaded.self_test.divergence == 0.125
    assert record["query_grain"] == 12


def test_a_machine_that_was_busy_once_is_not_so_for_ever(tmp_path: Path) -> None:
    buckets = (4, 64, 256)
    busy = {str(bucket): HUGE_S * bucket for bucket in buckets}
    loaded, record = started_again(tmp_path, buckets=buckets, pass_times=busy)
    assert set(loaded.engine.pass_times) == set(buckets)
    assert max(loaded.engine.pass_times.values()) < HUGE_S
    assert {int(key): value for key, value in record["pass_times"].items()} == loaded.engine.pass_times


def test_one_that_is_busy_now_keeps_the_times_it_had(tmp_path: Path) -> None:
    times = {"4": 1e-9, "64": 2e-9, "256": 3e-9}
    loaded, record = started_again(tmp_path, buckets=(4, 64, 256), pass_times=times)
    assert loaded.engine.pass_times == {4: 1e-9, 64: 2e-9, 256: 3e-9}
    assert record["pass_times"] == times


def test_a_second_start_of_a_large_model_runs_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apply_service.engine.self_test_store.RETIMED_WEIGHTS", 0)
    times = {str(bucket): HUGE_S * bucket for bucket in DEFAULT_BUCKETS}
    monkeypatch.setattr("apply_service.engine.self_test_store.run_self_test", counted := Counted(run_self_test))
    loaded, _ = started_again(tmp_path, pass_times=times)
    assert counted.n_calls == 1
    assert loaded.engine.pass_times[4] == 4 * HUGE_S


class Counted:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.n_calls = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.n_calls += 1
        return self.function(*args, **kwargs)


def engine_of(pass_times: dict[int, float]) -> TorchEngine:
    return TorchEngine(tiny_model("llama"), name="tiny", buckets=(4, 64), pass_times=pass_times)


def test_a_large_model_learns_its_times_from_what_it_serves() -> None:
    engine = engine_of({4: HUGE_S, 64: 2 * HUGE_S})
    session = opened(engine, [1, 2, 3], 10)
    assert engine.pass_times[4] == HUGE_S, "a pass that reads a prompt has no head"
    engine.step([Window(session, 3, [4, 5], SamplingParams())])
    assert engine.pass_times[4] < 100
    assert engine.pass_times[64] <= 16 * engine.pass_times[4], "never more than as many small passes"


def test_slower_passes_teach_nothing() -> None:
    engine = engine_of({4: 1e-9, 64: 2e-9})
    engine.step([Window(opened(engine, [1, 2, 3], 10), 3, [4, 5], SamplingParams())])
    assert engine.pass_times == {4: 1e-9, 64: 2e-9}


def test_a_first_start_costs_less_than_three_passes_of_the_largest_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "CHEAP_S", 0.0)
    engine = TorchEngine(tiny_model("llama"), name="tiny")
    n_rows = list[int]()
    run = engine.run
    monkeypatch.setattr(engine, "run", lambda parts, n, **options: n_rows.append(n) or run(parts, n, **options))
    assert set(run_self_test(engine).differing_rows) == set(DEFAULT_BUCKETS)
    assert sum(n_rows) < 3 * DEFAULT_BUCKETS[-1]
    engine.check_integrity()


@pytest.mark.parametrize("buckets", [(1,), (2,), (1, 4), (3, 8), (4, 12, 16), (512, 1024)])
def test_every_bucket_is_timed_and_no_session_stays_open(buckets: tuple[int, ...]) -> None:
    engine = TorchEngine(tiny_model("llama"), name="tiny", buckets=buckets)
    found = run_self_test(engine)
    assert set(found.differing_rows) == set(buckets)
    assert min(found.pass_times.values()) > 0
    engine.check_integrity()


def test_a_model_of_few_positions_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    monkeypatch.setattr(model.config, "max_position_embeddings", 64)
    found = run_self_test(TorchEngine(model, name="tiny", kv_cache_bytes=2**24))
    assert set(found.differing_rows) == set(DEFAULT_BUCKETS)


def test_what_others_take_of_a_cpu_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = SimpleNamespace(perf_counter=lambda: 100.0, process_time=lambda: 7.0)
    monkeypatch.setattr(torch_local, "time", clocks)
    on_cpu, elsewhere = stopwatch(torch.device("cpu")), stopwatch(torch.device("meta"))
    clocks.perf_counter, clocks.process_time = lambda: 103.0, lambda: 8.0
    assert (on_cpu(), elsewhere()) == (1.0, 3.0)
    clocks.process_time = lambda: 19.0  # several threads ran at once
    assert on_cpu() == 3.0
