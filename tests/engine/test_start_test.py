"""The self-test at start: bits are compared once, times again and again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from apply_service.engine import self_test
from apply_service.engine.loading import LoadedModel, load_model
from apply_service.engine.self_test import time_passes
from apply_service.engine.self_test_store import SelfTestStore
from apply_service.engine.torch_local import DEFAULT_BUCKETS, TorchEngine, stopwatch
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


def test_every_bucket_is_timed_and_no_session_stays_open() -> None:
    engine = TorchEngine(tiny_model("llama"), name="tiny", buckets=(1, 4, 32))
    times = time_passes(engine)
    assert set(times) == {1, 4, 32}
    assert min(times.values()) > 0
    engine.check_integrity()


def test_what_others_take_of_a_cpu_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = SimpleNamespace(perf_counter=lambda: 100.0, process_time=lambda: 7.0)
    monkeypatch.setattr(self_test, "time", clocks)
    on_cpu, elsewhere = stopwatch(torch.device("cpu")), stopwatch(torch.device("meta"))
    clocks.perf_counter, clocks.process_time = lambda: 103.0, lambda: 8.0
    assert (on_cpu(), elsewhere()) == (1.0, 3.0)
    clocks.process_time = lambda: 19.0  # several threads ran at once
    assert on_cpu() == 3.0
