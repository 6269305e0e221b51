"""Fitting the chooser: its numbers against scikit-learn's own, honest folds, and the command from end to end."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from apply_eval.datasets import EditRecord, write_records
from apply_eval.errors import DataError
from apply_service.merge.rank.chooser import beside_rivals, parse
from apply_service.types import Reading
from tests.training.choices import NAMES, make_choices, make_reading, make_record
from training.chooser_fit import (
    SECOND,
    Outcome,
    boosted,
    calibration_of,
    fit_chooser,
    fit_first,
    folds_of,
    judge,
    scaled,
)
from training.chooser_report import describe_group, lines, pick_threshold
from training.fit_chooser import main

CHOICES = make_choices(240)


def rows_and_targets(n: int = 300) -> tuple[list[dict[str, float]], list[bool], list[float]]:
    rng = random.Random(3)
    rows = [{name: rng.gauss(i, 1 + i) for i, name in enumerate(NAMES)} for _ in range(n)]
    targets = [row["matched"] + rng.gauss(0, 1) > 0.2 * row["deleted"] for row in rows]
    return rows, targets, [rng.choice([0.2, 1.0]) for _ in rows]


def matrix(rows: list[dict[str, float]]) -> Any:
    return np.array([[row[name] for name in NAMES] for row in rows])


# -- the same numbers as scikit-learn ----------------------------------------------------------------------------------
def test_trees_are_those_of_scikit_learn() -> None:
    rows, targets, weights = rows_and_targets()
    found = boosted(rows, NAMES, targets, weights, SECOND)
    theirs = HistGradientBoostingClassifier(
        max_iter=200, max_leaf_nodes=8, learning_rate=0.05, min_samples_leaf=20, l2_regularization=1.0,
        max_features=0.3, early_stopping=False, random_state=0,
    ).fit(matrix(rows), targets, sample_weight=weights)  # fmt: skip
    unseen, _, _ = rows_and_targets(77)
    values = list(theirs.decision_function(matrix(unseen)))
    assert [found.of(row) for row in unseen] == pytest.approx(values, abs=1e-9)
    assert [scaled(found, 0.5, 2.0).of(row) for row in unseen] == pytest.approx([0.5 * x + 2.0 for x in values])


def test_the_calibration_is_that_of_scikit_learn() -> None:
    scores = [[reading["matched"] for reading in choice.features] for choice in CHOICES]
    best = [max(range(len(own)), key=own.__getitem__) for own in scores]
    right = [choice.right[at] for choice, at in zip(CHOICES, best, strict=True)]
    theirs = LogisticRegression(C=1e6, max_iter=2000).fit([[max(own)] for own in scores], right)
    assert calibration_of(CHOICES, scores) == pytest.approx((theirs.coef_[0, 0], theirs.intercept_[0]))


# -- what is learnt ----------------------------------------------------------------------------------------------------
def test_trees_see_rivals() -> None:
    found = fit_first(CHOICES, NAMES)
    assert "matched:rivals" in found.inputs
    good, bad = {"matched": 2.0, "deleted": 0.0, "noise": 0.5}, {"matched": -1.0, "deleted": 4.0, "noise": 0.5}
    scores = [found.of(row) for row in beside_rivals([bad, good])]
    assert scores[1] > scores[0]


def test_light_edits_hardly_count() -> None:
    light = [choice._replace(weight=1e-6, right=tuple(not is_right for is_right in choice.right)) for choice in CHOICES]
    alone, beside = (fit_chooser(choices, NAMES, 3)[0] for choices in (CHOICES, [*CHOICES, *light]))
    rows = [choice.features for choice in CHOICES[:40]]
    same = sum(np.argmax(alone.rank(row)) == np.argmax(beside.rank(row)) for row in rows)
    assert same >= 36


# -- folds -------------------------------------------------------------------------------------------------------------
def test_no_repository_is_on_both_sides() -> None:
    seen: list[int] = []
    for fitted, held_out in folds_of(CHOICES, 4):
        assert not {CHOICES[i].repo for i in fitted} & {CHOICES[i].repo for i in held_out}
        seen += held_out
    assert sorted(seen) == list(range(len(CHOICES)))


def test_outcomes_do_not_know_the_labels_of_their_repository() -> None:
    turned = [
        c._replace(right=tuple(not is_right for is_right in c.right)) if c.repo == "owner/repo0" else c for c in CHOICES
    ]
    plain, told = (fit_chooser(choices, NAMES, 6)[1] for choices in (CHOICES, turned))
    own = [i for i, choice in enumerate(CHOICES) if choice.repo == "owner/repo0"]
    right = [[sum(bool(found[i].is_right) for i in own) for found in (plain, told)]]
    assert right[0][0] > right[0][1] + len(own) // 4


def test_outcomes_are_in_order_and_honest() -> None:
    refused = CHOICES[0]._replace(features=(), right=())
    choices = [*CHOICES[:50], refused, *CHOICES[50:]]
    found = fit_chooser(choices, NAMES, 4)[1]
    assert [outcome.choice for outcome in found] == choices
    assert found[50] == Outcome(refused, None, None)
    shares = [outcome.probability for outcome in found if outcome.probability is not None]
    right = [outcome.is_right for outcome in found if outcome.probability is not None]
    assert sum(shares) / len(shares) == pytest.approx(sum(right) / len(right), abs=0.06)
    assert sum(right) > sum(choice.right[0] for choice in CHOICES) + 20


def test_the_chooser_of_pure_noise_is_not_trusted() -> None:
    rng = random.Random(1)
    noise = [
        choice._replace(features=tuple({name: rng.random() for name in NAMES} for _ in choice.features))
        for choice in CHOICES
        if len(choice.features) > 1
    ]
    found = fit_chooser(noise, NAMES, 4)[1]
    group = describe_group(found, pick_threshold(found, 0.01))
    assert group["applied"]["coverage"] < 0.1


# -- thresholds and choice ---------------------------------------------------------------------------------------------
def outcomes(*pairs: tuple[float | None, int | None]) -> list[Outcome]:
    return [Outcome(CHOICES[0], probability, place) for probability, place in pairs]


def test_the_threshold_applies_the_most_at_the_share_wrong() -> None:
    found = outcomes((0.9, 1), (0.8, 1), (0.7, 2), (0.6, 1), (0.1, None), (None, None))
    assert pick_threshold(found, 0.0) == 0.8
    assert pick_threshold(found, 0.25) == 0.6
    assert pick_threshold(outcomes((0.9, 2)), 0.01) == 1.0


def test_no_probability_exceeds_what_the_service_lets_it_be() -> None:
    chooser, _ = fit_chooser(CHOICES, NAMES, 3)
    known = next(choice for choice in CHOICES if choice.features)
    scores = chooser.rank(known.features)
    free = judge(known, chooser, scores)
    held = judge(known._replace(limits=(0.1,) * len(scores)), chooser, scores)
    assert free.probability is not None
    assert free.probability > 0.1
    assert held == free._replace(choice=held.choice, probability=0.1)


def test_groups_count_oracles_and_refusals() -> None:
    found = describe_group(outcomes((0.9, 1), (0.7, 3), (0.2, 1), (None, None)), 0.8)
    assert {k: one["n"] for k, one in found["oracle"].items()} == {"1": 2, "2": 2, "4": 3, "8": 3}
    assert (found["applied"]["n_applied"], found["applied"]["n_right_below"]) == (1, 1)
    assert found["refused"] == {"n_refused": 2, "n_right_refused": 1, "right_refused": 0.5}


# -- the command -------------------------------------------------------------------------------------------------------
def readings_of(record: EditRecord) -> list[tuple[Reading, float]]:
    """The right reading matches more, but where the edit is hard."""
    rng = random.Random(record.id)
    is_hard = rng.random() < 0.2
    found = [
        make_reading(new, matched=rng.gauss(2.0 * (new == "B" and not is_hard), 0.7), noise=rng.random())
        for new in ("B", "b2", "b3")
    ]
    rng.shuffle(found)
    return [(reading, 1.0) for reading in found]


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    """A set of hand-written edits and one of sketches."""
    repos = [f"owner/repo{i}" for i in range(6)]
    hand = [make_record(f"h{i}", repos[i % 6], split="fit") for i in range(120)]
    hand += [make_record("never", repos[0], split="check")]
    sketched = [make_record(f"s{i}", repos[i % 6]) for i in range(60)]
    write_records(tmp_path / "hand.jsonl", hand)
    write_records(tmp_path / "sketched.jsonl.xz", sketched)
    return ["--data", str(tmp_path / "hand.jsonl"), "--data", str(tmp_path / "sketched.jsonl.xz")]


def test_from_sets_to_numbers(data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, report = tmp_path / "chooser.json", tmp_path / "report.json"
    options = [*data, "--weight", "sketched.jsonl.xz=0.25", "--folds", "3", "--out", str(out), "--report", str(report)]
    assert main(options, readings_of=readings_of) == 0
    values = json.loads(out.read_text(encoding="utf-8"))
    chooser = parse(values)
    assert chooser.features == NAMES
    readings = [{"matched": 3.0, "deleted": 0.0, "noise": 0.0}, {"matched": 0.0, "deleted": 0.0, "noise": 0.0}]
    scores = chooser.rank(readings)
    assert chooser.probabilities(readings, scores)[0] > 0.8
    assert scores[0] > scores[1]
    sets = values["provenance"]["sets"]
    assert (sets["hand.jsonl"]["n_edits"], sets["sketched.jsonl.xz"]["weight"]) == (120, 0.25)
    assert values["provenance"]["versions"].keys() == {"python", "numpy", "scikit-learn"}
    assert str(tmp_path) not in out.read_text(encoding="utf-8")
    told = json.loads(report.read_text(encoding="utf-8"))
    assert told["out_of_fold"]["all"]["n"] == 180
    applied = told["out_of_fold"]["all"]["applied"]
    assert applied["threshold"] == chooser.thresholds.apply
    assert applied["wrong"] is None or applied["wrong"] <= 0.05
    printed = capsys.readouterr().out
    assert "\n".join(lines(told)) in printed
    assert "applied from" in printed


def test_the_same_data_give_the_same_numbers(data: list[str], tmp_path: Path) -> None:
    kept = []
    for name in ("one.json", "two.json"):
        main([*data, "--folds", "3", "--out", str(tmp_path / name)], readings_of=readings_of)
        kept.append(parse(json.loads((tmp_path / name).read_text(encoding="utf-8"))))
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("more", "told"),
    [(["--weight", "other=2"], "weight is given"), (["--data", "real_diffs_dev.jsonl"], "reported on")],
)
def test_bad_sets_are_refused(data: list[str], more: list[str], told: str) -> None:
    with pytest.raises(DataError, match=told):
        main([*data, *more], readings_of=readings_of)


@pytest.mark.parametrize("more", [["--weight", "hand=0"], ["--weight", "hand"], ["--folds", "1"], []])
def test_bad_options_stop_with_usage(more: list[str]) -> None:
    with pytest.raises(SystemExit):
        main([*(["--data", "x.jsonl"] if more else []), *more])
