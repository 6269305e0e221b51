"""The map from a target's probability to the chance of being right: what it may be, and whose it is."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from apply_eval.statistics import CONFIDENCE_THRESHOLD
from apply_service.engine.record import (
    CALIBRATION_FILE,
    MAX_LOG_ODDS,
    Calibration,
    ModelRecord,
    ProbabilityMap,
    Signals,
    hash_weights,
    log_odds,
)
from apply_service.errors import ModelNotLoadable
from apply_service.models import embedded_directory
from apply_service.types import Certainty

SURE = Signals(True, Certainty.CERTAIN, 0, True)
DOUBTED = Signals(False, Certainty.GUESS, 3, False)
SIGNALS = [Signals(a, c, n, k) for a in (True, False, None) for c in Certainty for n in (0, 9) for k in (True, False)]
STEPS = ProbabilityMap(0.0, {"log_odds": 1.0}, ((-1.0, 0.2), (0.0, 0.6), (3.0, 0.9)))
WEIGHED = ProbabilityMap(-1.0, {"log_odds": 0.5, "agrees": 2.0, "certain": 1.0, "doubts": -0.5, "clean": 0.25})
REPORT = Path(__file__).parents[2] / "benchmarks" / "results" / "confidence.json"
EMPTY_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of nothing."""


def logprob_at(odds: float) -> float:
    return -math.log1p(math.exp(-odds))


def write(directory: Path, **changes: Any) -> Path:
    weights = directory / "model.safetensors"
    weights.write_bytes(b"weights")
    values = Calibration(hash_weights(directory), 0.8, WEIGHED, STEPS).as_json() | changes
    path = directory / CALIBRATION_FILE
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("odds", "chance"),
    [(-9.0, 0.2), (-1.0, 0.2), (-0.5, 0.4), (0.0, 0.6), (1.0, 0.7), (3.0, 0.9), (8.0, 0.9)],
)
def test_points_are_joined_by_lines_and_level_beyond(odds: float, chance: float) -> None:
    assert STEPS(logprob_at(odds), SURE) == pytest.approx(chance)


def test_weights_add_up_to_log_odds() -> None:
    assert WEIGHED(logprob_at(2.0), SURE) == pytest.approx(1 / (1 + math.exp(-(-1 + 1 + 2 + 1 + 0.25))))
    assert WEIGHED(logprob_at(2.0), DOUBTED) == pytest.approx(1 / (1 + math.exp(-(-1 + 1 - 1.5))))


@pytest.mark.parametrize("probability_map", [STEPS, WEIGHED])
@pytest.mark.parametrize("signals", SIGNALS)
def test_more_probability_is_never_less_confidence(probability_map: ProbabilityMap, signals: Signals) -> None:
    rng = random.Random(7)
    logprobs = sorted([-800.0, -0.0, 0.0, *(-math.exp(rng.uniform(-30, 6)) for _ in range(300))])
    chances = [probability_map(logprob, signals) for logprob in logprobs]
    assert chances == sorted(chances)
    assert all(0 <= chance <= 1 for chance in chances)


def test_log_odds_end_where_floats_tell_nothing() -> None:
    assert log_odds(0.0) == MAX_LOG_ODDS
    assert log_odds(-1e-30) == MAX_LOG_ODDS
    assert log_odds(-1e4) == -MAX_LOG_ODDS
    assert log_odds(math.log(0.5)) == pytest.approx(0.0)


@pytest.mark.parametrize(
    "values",
    [
        {"weights": {"log_odds": -0.1}},
        {"weights": {"luck": 1.0}},
        {"weights": {"agrees": math.inf}},
        {"intercept": math.nan},
        {"points": [[0.0, 0.5], [1.0, 0.4]]},
        {"points": [[1.0, 0.5], [1.0, 0.6]]},
        {"points": [[0.0, 1.5]]},
        {"points": [[0.0]]},
        {"extra": 1},
    ],
)
def test_no_map_that_falls_or_is_none(values: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ProbabilityMap.from_json({"intercept": 0.0, "weights": {}, "points": [], **values})


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    write(tmp_path)
    found = Calibration.read(tmp_path)
    assert found == Calibration(hash_weights(tmp_path), 0.8, WEIGHED, STEPS)
    assert ModelRecord.read(tmp_path).calibration == found


def test_a_hunk_is_no_less_sure_than_its_answer(tmp_path: Path) -> None:
    write(tmp_path)
    found = Calibration.read(tmp_path)
    assert found is not None
    assert found.of_hunk(logprob_at(0.0), SURE, answer=0.3) == pytest.approx(0.6)
    assert found.of_hunk(logprob_at(0.0), SURE, answer=0.7) == 0.7


def test_a_model_without_one_has_none(tmp_path: Path) -> None:
    assert Calibration.read(tmp_path) is None
    assert ModelRecord.read(tmp_path).calibration is None


def test_other_weights_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ModelNotLoadable, match="other weights") as caught:
        ModelRecord.read(tmp_path)
    assert caught.value.value != caught.value.limit == hash_weights(tmp_path)
    assert "training.calibrate" in caught.value.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1},
        {"threshold": 2},
        {"threshold": None},
        {"answer": None},
        {"hunk": []},
        {"more": 1},
        {"thresholds": {"confirm": 0.1}},
        {"thresholds": {"confirm": 1.1, "choose": 0.1, "margin": 0.0}},
        {"thresholds": {"confirm": 0.1, "choose": 0.1, "margin": -1.0}},
    ],
)
def test_a_bad_file_is_a_typed_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ModelNotLoadable, match="can't be read") as caught:
        Calibration.read(tmp_path)
    assert caught.value.value == str(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "\udcff"])
def test_no_json_object_is_a_typed_error(tmp_path: Path, text: str) -> None:
    write(tmp_path).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelNotLoadable, match="can't be read"):
        Calibration.read(tmp_path)


def test_the_hash_covers_every_file_of_weights(tmp_path: Path) -> None:
    assert hash_weights(tmp_path) == EMPTY_HASH
    (tmp_path / "b.safetensors").write_bytes(b"b")
    one = hash_weights(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"a")
    assert len({EMPTY_HASH, one, hash_weights(tmp_path)}) == 3


def test_the_embedded_model_is_calibrated_and_the_report_is_of_it() -> None:
    found = ModelRecord.read(embedded_directory()).calibration
    assert found is not None, "run: python -m training.calibrate"
    assert found.of_answer(-0.1, SURE) > 0.9 > found.of_answer(-0.1, DOUBTED)
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert report["weights_sha256"] == found.weights_sha256
    assert report["threshold"]["value"] == found.threshold == CONFIDENCE_THRESHOLD
