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

from apply_service.errors import ModelNotLoadable
from apply_service.merge.rank import chooser
from apply_service.merge.rank.chooser import ALONE, beside_rivals, best_two, load, parse

TINY: dict[str, Any] = {
    "version": 2,
    "features": ["matched", "deleted"],
    "first": {
        "inputs": ["matched", "deleted:rivals"],
        "start": 0.5,
        "trees": [[0, 0.5, 0.0, 2.0], [1, 0.0, 4.0, -1.0]],
    },
    "second": {
        "inputs": ["first", "lead", "n_readings", "deleted", "matched:other"],
        "start": -1.0,
        "trees": [[3, 1.0, 0.25, [2, 2.0, -0.5, -4.0]], [4, 0.0, 0.0, 3.0]],
    },
    "elsewhere": 0.5,
    "thresholds": {"apply": 0.97, "refuse": 0.5},
    "provenance": {},
}
GOOD, BAD = {"matched": 1.0, "deleted": 1.0}, {"matched": 0.0, "deleted": 5.0}


def changed(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(TINY) | changes


def with_part(part: str, **changes: Any) -> dict[str, Any]:
    return changed(**{part: TINY[part] | changes})


def test_trees_add_up_and_go_left_up_to_their_limit() -> None:
    first = parse(TINY).first
    assert first.of({"matched": 0.5, "deleted:rivals": 0.0}) == 0.5 + 0.0 + 4.0
    assert first.of({"matched": 0.6, "deleted:rivals": 0.1}) == 0.5 + 2.0 - 1.0


def test_the_second_look_has_the_last_word_on_the_best_two() -> None:
    # The first look: 6.5 and -0.5.  The second: -1 + 0.25 + 3 and -1 - 0.5.
    assert parse(TINY).rank([GOOD, BAD]) == [2.25, -1.5]
    # With a third reading, the worst at the first look, which keeps its distance of 0 to the second.
    assert parse(TINY).rank([BAD, GOOD, BAD]) == [-5.0, 2.25, -5.0]
    assert parse(TINY).rank([GOOD]) == [-0.75]


def test_the_second_look_can_turn_the_order() -> None:
    against = parse(with_part("second", trees=[[1, 0.0, 5.0, 0.0]]))
    assert against.rank([GOOD, BAD, BAD]) == [-1.0, 4.0, -1.0]


def test_features_stand_beside_the_mean_of_the_others() -> None:
    three = beside_rivals([{"x": 1.0}, {"x": 2.0}, {"x": 6.0}])
    assert [values["x:rivals"] for values in three] == [1.0 - 4.0, 2.0 - 3.5, 6.0 - 1.5]
    assert beside_rivals([{"x": 7.0}]) == [{"x": 7.0, "x:rivals": 0.0}]


def test_the_best_two_stand_beside_each_other() -> None:
    worst = {"matched": 0.0, "deleted": 9.0}
    found = best_two([BAD, worst, GOOD], [1.0, -2.0, 6.0])
    assert list(found) == [2, 0]
    assert found[2] == {
        "matched": 1.0, "deleted": 1.0, "matched:rivals": 1.0, "deleted:rivals": -6.0,
        "matched:other": 1.0, "deleted:other": -4.0, "first": 6.0, "lead": 5.0, "n_readings": 3.0,
    }  # fmt: skip
    assert (found[0]["matched:other"], found[0]["lead"]) == (-1.0, -5.0)
    (alone,) = best_two([GOOD], [2.5]).values()
    assert (alone["lead"], alone["matched:other"]) == (ALONE, 0.0)


def test_the_others_share_what_the_best_leaves() -> None:
    chances = parse(TINY).probabilities([BAD, BAD, GOOD], [-1.0, -2.0, 0.0])
    left = 0.5 * 0.5 / (math.exp(-1) + math.exp(-2))
    assert chances == pytest.approx([left * math.exp(-1), left * math.exp(-2), 0.5])
    assert parse(TINY).probabilities([GOOD], [3.0]) == [pytest.approx(1 / (1 + math.exp(-3.0)), abs=1e-15)]
    assert parse(TINY).probabilities([GOOD], [-2000.0]) == [0.0]


def test_no_reading_is_likelier_than_the_chosen_one() -> None:
    unsure = parse(changed(elsewhere=1.0))
    assert unsure.probabilities([BAD, GOOD], [-2.0, -2.0]) == pytest.approx([1 / (1 + math.exp(2.0))] * 2)


def test_white_space_that_nobody_sees_is_never_sure() -> None:
    reading = GOOD | {"invisible": 1.0}
    assert parse(TINY).probabilities([reading], [9.0]) == [chooser.UNSEEN_CHANCE]


def test_other_features_are_an_error() -> None:
    for features in ({"matched": 1.0}, GOOD | {"new": 0.0}):
        with pytest.raises(ValueError, match="other features"):
            parse(TINY).rank([features])


@pytest.mark.parametrize(
    "values",
    [
        changed(version=1),
        changed(more=1),
        {name: value for name, value in TINY.items() if name != "elsewhere"},
        changed(features=["matched"]),
        with_part("first", inputs=["matched", "lead"]),
        with_part("first", start=math.nan),
        with_part("first", start="x"),
        with_part("second", trees=[[5, 1.0, 0.0, 1.0]]),
        with_part("second", trees=[[0, math.inf, 0.0, 1.0]]),
        with_part("second", trees=[[0, 1.0, 0.0]]),
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
