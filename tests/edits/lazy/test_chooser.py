"""The chooser's numbers, worked out on paper with a tiny model; the fitted kinds are held against scikit-learn in
`tests/training/test_fit_chooser.py`."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from apply_service.edits.lazy import chooser
from apply_service.edits.lazy.chooser import ALONE, beside_rivals, evidence, load, parse
from apply_service.errors import ModelNotLoadable

TINY: dict[str, Any] = {
    "version": 1,
    "features": ["matched", "deleted"],
    "score": {"inputs": ["matched", "deleted:rivals"], "start": 0.5, "weights": [2.0, -1.0], "trees": []},
    "confidence": {
        "inputs": ["score", "margin", "n_readings", "deleted"],
        "start": -1.0,
        "weights": [1.0, 0.0, 0.0, 0.0],
        "trees": [[3, 1.0, 0.25, [2, 2.0, -0.5, -4.0]]],
    },
    "calibration": [[-2.0, 0.0, 2.0], [0.1, 0.5, 0.9]],
    "elsewhere": 0.5,
    "thresholds": {"apply": 0.97, "refuse": 0.5},
    "provenance": {},
}
GOOD, BAD = {"matched": 1.0, "deleted": 1.0}, {"matched": 0.0, "deleted": 5.0}


def changed(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(TINY) | changes


def with_part(part: str, **changes: Any) -> dict[str, Any]:
    return changed(**{part: TINY[part] | changes})


def test_scores_add_up() -> None:
    # deleted:rivals is 1 - 5 for the first, 5 - 1 for the second
    assert parse(TINY).rank([GOOD, BAD]) == [0.5 + 2.0 + 4.0, 0.5 + 0.0 - 4.0]
    assert parse(TINY).rank([GOOD]) == [2.5]


def test_features_stand_beside_the_mean_of_the_others() -> None:
    three = beside_rivals([{"x": 1.0}, {"x": 2.0}, {"x": 6.0}])
    assert [values["x:rivals"] for values in three] == [1.0 - 4.0, 2.0 - 3.5, 6.0 - 1.5]
    assert beside_rivals([{"x": 7.0}]) == [{"x": 7.0, "x:rivals": 0.0}]


def test_the_evidence_is_of_the_best_reading() -> None:
    assert evidence([BAD, GOOD], [-3.5, 6.0]) == {
        "matched": 1.0, "deleted": 1.0, "matched:rivals": 1.0, "deleted:rivals": -4.0,
        "score": 6.0, "margin": 9.5, "n_readings": 2.0,
    }  # fmt: skip
    assert evidence([GOOD], [2.5])["margin"] == ALONE
    assert evidence([GOOD, BAD], [60.0, 0.0])["margin"] == ALONE


@pytest.mark.parametrize(
    ("reading", "n", "log_odds"),
    [
        ({"matched": 0.0, "deleted": 1.0}, 1, 0.5 - 1.0 + 0.25),
        ({"matched": 0.0, "deleted": 2.0}, 2, 0.5 - 1.0 - 0.5),
        ({"matched": 0.0, "deleted": 2.0}, 3, 0.5 - 1.0 - 4.0),
    ],
)
def test_a_tree_goes_left_up_to_its_limit(reading: dict[str, float], n: int, log_odds: float) -> None:
    model = parse(TINY)
    scores = [0.5] * n
    assert model.confidence.of(evidence([reading] * n, scores)) == log_odds
    level = 0.1 if log_odds < -2 else 0.5 + 0.2 * log_odds
    assert model.probability([reading] * n, scores) == pytest.approx(level, abs=1e-12)


def test_without_points_the_log_odds_are_calibrated() -> None:
    model = parse(changed(calibration=[[], []], confidence=TINY["confidence"] | {"trees": []}))
    reading = {"matched": 0.0, "deleted": 1.0}
    assert model.probability([reading], [3.0]) == pytest.approx(1 / (1 + math.exp(-2.0)), abs=1e-15)
    assert model.probability([reading], [-2000.0]) == 0.0


def test_the_others_share_what_the_best_leaves() -> None:
    model = parse(changed(confidence=TINY["confidence"] | {"weights": [0.0] * 4, "trees": []}))
    chances = model.probabilities([GOOD, BAD, BAD], [3.0, 2.0, 1.0])
    left = (1 - 0.3) * 0.5 / (math.exp(-1) + math.exp(-2))
    assert chances == pytest.approx([0.3, left * math.exp(-1), left * math.exp(-2)])
    assert model.probabilities([GOOD], [3.0]) == [pytest.approx(0.3)]


def test_no_reading_is_likelier_than_the_chosen_one() -> None:
    unsure = parse(changed(calibration=[[0.0], [0.1]], elsewhere=1.0))
    assert unsure.probabilities([BAD, GOOD], [1.0, 2.0]) == [0.1, 0.1]


def test_other_features_are_an_error() -> None:
    for features in ({"matched": 1.0}, GOOD | {"new": 0.0}):
        with pytest.raises(ValueError, match="other features"):
            parse(TINY).rank([features])


@pytest.mark.parametrize(
    "values",
    [
        changed(version=2),
        changed(more=1),
        {name: value for name, value in TINY.items() if name != "elsewhere"},
        changed(features=["matched"]),
        with_part("score", inputs=["matched", "margin"]),
        with_part("score", weights=[1.0]),
        with_part("score", weights=[1.0, math.nan]),
        with_part("score", start="x"),
        with_part("confidence", trees=[[4, 1.0, 0.0, 1.0]]),
        with_part("confidence", trees=[[0, math.inf, 0.0, 1.0]]),
        with_part("confidence", trees=[[0, 1.0, 0.0]]),
        changed(calibration=[[0.0, 1.0], [0.9, 0.1]]),
        changed(calibration=[[0.0], [0.5, 0.6]]),
        changed(calibration=[[0.0], [1.5]]),
        changed(elsewhere=-0.1),
        changed(thresholds={"apply": 0.9}),
        changed(thresholds={"apply": 0.9, "refuse": 0.5, "other": 0.1}),
    ],
    ids=str,
)
def test_a_broken_file_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse(values)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the model is looked for."""
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    load.cache_clear()
    yield tmp_path
    load.cache_clear()


def test_the_shipped_file_is_read_once(folder: Path) -> None:
    (folder / chooser.MODEL_FILE).write_text(json.dumps(TINY), encoding="utf-8")
    model = load(frozenset({"deleted", "matched"}))
    assert model.thresholds == (0.97, 0.5)
    assert load(frozenset({"deleted", "matched"})) is model
    assert load().features == ("matched", "deleted")


@pytest.mark.parametrize(
    ("text", "features", "told"),
    [
        (None, None, "can't be used"),
        ("{", None, "can't be used"),
        ("[]", None, "can't be used"),
        (json.dumps(TINY), {"matched"}, r"\['deleted'\]"),
        (json.dumps(TINY), {"matched", "deleted", "new"}, r"\['new'\]"),
    ],
)
def test_a_file_that_does_not_fit_is_an_error(
    folder: Path, text: str | None, features: set[str] | None, told: str
) -> None:
    if text is not None:
        (folder / chooser.MODEL_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(ModelNotLoadable, match=told) as caught:
        load(None if features is None else frozenset(features))
    assert caught.value.remedy
