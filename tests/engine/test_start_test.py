"""The self-test at start: made once, and cheaply."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apply_service.engine import self_test
from apply_service.engine.loading import LoadedModel, load_model
from apply_service.engine.self_test import run_self_test
from apply_service.engine.torch_local import DEFAULT_BUCKETS, TorchEngine
from tests.engine.tiny_models import save_tiny, tiny_model


def started_again(tmp_path: Path, **changes: Any) -> tuple[LoadedModel, dict[str, Any]]:
    """A second start, after a record of the first one was changed; and what is on record then."""
    folder, name = tmp_path / "tests", str(save_tiny(tmp_path / "tiny"))
    load_model(name, self_tests=folder)
    (record,) = folder.iterdir()
    record.write_text(json.dumps({**json.loads(record.read_text()), **changes}))
    return load_model(name, self_tests=folder), json.loads(record.read_text())


def test_bits_are_compared_once(tmp_path: Path) -> None:
    flipped = {str(bucket): 0.125 for bucket in DEFAULT_BUCKETS}
    loaded, record = started_again(tmp_path, query_grain=12, flipped_choices=flipped)
    assert loaded.engine.query_grain == 12  # type: ignore[union-attr]
    assert loaded.self_test is not None
    assert loaded.self_test.divergence == 0.125
    assert record["query_grain"] == 12


def test_a_second_start_tests_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apply_service.engine.self_test.run_self_test", counted := Counted(run_self_test))
    started_again(tmp_path)
    assert counted.n_calls == 1


def test_passes_are_timed_and_the_times_kept(tmp_path: Path) -> None:
    loaded, record = started_again(tmp_path)
    assert record["pass_times"].keys() == {str(bucket) for bucket in loaded.engine.buckets}
    assert loaded.engine.pass_times == {int(rows): seconds for rows, seconds in record["pass_times"].items()}
    assert 0 < record["plain_s"] < 10 * record["pass_times"][str(loaded.engine.buckets[-1])]
    assert min(record["pass_times"].values()) > 0


class Counted:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.n_calls = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.n_calls += 1
        return self.function(*args, **kwargs)


def test_a_first_start_costs_less_than_five_passes_of_the_largest_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model whose passes are so long that each is timed once."""
    monkeypatch.setattr(self_test, "TIMED_S", 0.0)
    engine = TorchEngine(tiny_model("llama"), name="tiny")
    n_rows = list[int]()
    run = engine.run
    monkeypatch.setattr(engine, "run", lambda parts, n, **options: n_rows.append(n) or run(parts, n, **options))
    assert set(run_self_test(engine).differing_rows) == set(DEFAULT_BUCKETS)
    assert sum(n_rows) < 5 * DEFAULT_BUCKETS[-1]
    engine.check_integrity()


@pytest.mark.parametrize("buckets", [(1,), (2,), (1, 4), (3, 8), (4, 12, 16), (512, 1024)])
def test_every_bucket_is_compared_and_no_session_stays_open(buckets: tuple[int, ...]) -> None:
    engine = TorchEngine(tiny_model("llama"), name="tiny", buckets=buckets)
    found = run_self_test(engine)
    assert set(found.differing_rows) == set(buckets)
    engine.check_integrity()


def test_a_model_of_few_positions_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    monkeypatch.setattr(model.config, "max_position_embeddings", 64)
    found = run_self_test(TorchEngine(model, name="tiny", kv_cache_bytes=2**24))
    assert set(found.differing_rows) == set(DEFAULT_BUCKETS)
