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
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apply_eval.datasets import EditRecord, write_records
from apply_eval.errors import DataError
from apply_service.edits.lazy.chooser import beside_rivals, parse
from apply_service.types import Reading
from tests.training.choices import NAMES, make_choices, make_reading, make_record
from training.chooser_fit import (
    Outcome,
    Recipe,
    Sample,
    boosted,
    by_line,
    by_steps,
    cross_validate,
    fit_boosted,
    fit_choosers,
    fit_pairs,
    folds_of,
    linear,
    samples_of,
    score_all,
    scores_out_of_fold,
)
from training.chooser_report import describe_group, lines, pick_recipe, pick_threshold
from training.fit_chooser import main

SIMPLE = Recipe("pairs", "linear", "line")
CHOICES = make_choices(240)


def rows_and_targets(n: int = 300) -> tuple[list[dict[str, float]], list[bool], list[float]]:
    rng = random.Random(3)
    rows = [{name: rng.gauss(i, 1 + i) for i, name in enumerate(NAMES)} for _ in range(n)]
    targets = [row["matched"] + rng.gauss(0, 1) > 0.2 * row["deleted"] for row in rows]
    return rows, targets, [rng.choice([0.2, 1.0]) for _ in rows]


def matrix(rows: list[dict[str, float]]) -> Any:
    return np.array([[row[name] for name in NAMES] for row in rows])


# -- the same numbers as scikit-learn ----------------------------------------------------------------------------------
def test_linear_sums_are_those_of_scikit_learn() -> None:
    rows, targets, weights = rows_and_targets()
    found = linear(rows, NAMES, targets, weights)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=2000))
    theirs.fit(matrix(rows), targets, logisticregression__sample_weight=weights)
    assert [found.of(row) for row in rows] == pytest.approx(list(theirs.decision_function(matrix(rows))), abs=1e-9)


def test_boosted_sums_are_those_of_scikit_learn() -> None:
    rows, targets, weights = rows_and_targets()
    found = boosted(rows, NAMES, targets, weights)
    theirs = HistGradientBoostingClassifier(
        max_iter=300, max_leaf_nodes=16, learning_rate=0.05, min_samples_leaf=20, l2_regularization=1.0,
        max_features=0.3, early_stopping=False, random_state=0,
    ).fit(matrix(rows), targets, sample_weight=weights)  # fmt: skip
    unseen, _, _ = rows_and_targets(77)
    assert [found.of(row) for row in unseen] == pytest.approx(list(theirs.decision_function(matrix(unseen))), abs=1e-9)


def test_calibrations_are_those_of_scikit_learn() -> None:
    samples = samples_of(CHOICES, score_all(CHOICES, fit_pairs(CHOICES, NAMES)))
    log_odds = [sample.values["score"] for sample in samples]
    right = [sample.is_right for sample in samples]
    plain = fit_choosers(CHOICES, NAMES, [SIMPLE], n_folds=3)[SIMPLE]
    steps = by_steps(plain.confidence, log_odds, samples)
    edge = 0.5 / (len(samples) + 1)
    theirs = IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip").fit(log_odds, right)
    at = np.linspace(-5, 5, 101)
    assert np.interp(at, *steps.points) == pytest.approx(theirs.predict(at), abs=1e-9)
    line = by_line(plain.confidence, log_odds, samples)
    platt = LogisticRegression(C=1e6, max_iter=2000).fit(np.reshape(log_odds, (-1, 1)), right)
    before, after = (part.of(samples[0].values) for part in (plain.confidence, line.confidence))
    assert after == pytest.approx(platt.decision_function([[before]])[0], abs=1e-9)


# -- what is learnt ----------------------------------------------------------------------------------------------------
def test_pairs_learn_what_tells_right_from_wrong() -> None:
    found = fit_pairs(CHOICES, NAMES)
    weights = dict(zip(found.inputs, found.weights, strict=True))
    assert weights["matched"] > 0.5
    assert weights["deleted"] < -0.2
    assert abs(weights["noise"]) < 0.5


def test_trees_see_rivals() -> None:
    found = fit_boosted(CHOICES, NAMES)
    assert "matched:rivals" in found.inputs
    good, bad = {"matched": 2.0, "deleted": 0.0, "noise": 0.5}, {"matched": -1.0, "deleted": 4.0, "noise": 0.5}
    scores = [found.of(row) for row in beside_rivals([bad, good])]
    assert scores[1] > scores[0]


def test_light_edits_hardly_count() -> None:
    light = [
        choice._replace(weight=0.001, right=tuple(not is_right for is_right in choice.right)) for choice in CHOICES
    ]
    alone, beside = fit_pairs(CHOICES, NAMES), fit_pairs([*CHOICES, *light], NAMES)
    assert beside.weights == pytest.approx(alone.weights, rel=0.05, abs=0.02)


# -- folds -------------------------------------------------------------------------------------------------------------
def test_no_repository_is_on_both_sides() -> None:
    seen: list[int] = []
    for fitted, held_out in folds_of(CHOICES, 4):
        assert not {CHOICES[i].repo for i in fitted} & {CHOICES[i].repo for i in held_out}
        seen += held_out
    assert sorted(seen) == list(range(len(CHOICES)))


def test_scores_out_of_fold_do_not_know_the_labels_of_their_repository() -> None:
    turned = [
        c._replace(right=tuple(not is_right for is_right in c.right)) if c.repo == "owner/repo0" else c for c in CHOICES
    ]
    plain, told = (scores_out_of_fold(choices, NAMES, fit_pairs, 6) for choices in (CHOICES, turned))
    own = [i for i, choice in enumerate(CHOICES) if choice.repo == "owner/repo0"]
    others = [i for i in range(len(CHOICES)) if i not in own]
    assert [told[i] for i in own] == [plain[i] for i in own]
    assert [told[i] for i in others] != [plain[i] for i in others]


def test_outcomes_are_in_order_and_honest() -> None:
    refused = CHOICES[0]._replace(features=(), right=())
    choices = [*CHOICES[:50], refused, *CHOICES[50:]]
    found = cross_validate(choices, NAMES, [SIMPLE], n_folds=4)[SIMPLE]
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
    found = cross_validate(noise, NAMES, [SIMPLE], n_folds=4)[SIMPLE]
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


def test_the_least_log_loss_wins_and_the_simplest_of_equals() -> None:
    sure, unsure = outcomes((0.9, 1), (0.2, 2)), outcomes((0.6, 1), (0.5, 2))
    boosted_recipe = Recipe("boosted", "boosted", "steps")
    assert pick_recipe({SIMPLE: unsure, boosted_recipe: sure}) == boosted_recipe
    assert pick_recipe({SIMPLE: sure, boosted_recipe: sure}) == SIMPLE


def test_groups_count_oracles_and_refusals() -> None:
    found = describe_group(outcomes((0.9, 1), (0.7, 3), (0.2, 1), (None, None)), 0.8)
    assert {k: one["n"] for k, one in found["oracle"].items()} == {"1": 2, "2": 2, "4": 3, "8": 3}
    assert (found["applied"]["n_applied"], found["applied"]["n_right_below"]) == (1, 1)
    assert found["refused"] == {"n_refused": 2, "n_right_refused": 1, "right_refused": 0.5}


# -- the command -------------------------------------------------------------------------------------------------------
def readings_of(record: EditRecord) -> list[Reading]:
    """The right reading matches more, but where the edit is hard."""
    rng = random.Random(record.id)
    is_hard = rng.random() < 0.2
    found = [
        make_reading(new, matched=rng.gauss(2.0 * (new == "B" and not is_hard), 0.7), noise=rng.random())
        for new in ("B", "b2", "b3")
    ]
    rng.shuffle(found)
    return found


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
    assert main([*options, "--score", "pairs", "--confidence", "linear"], readings_of=readings_of) == 0
    values = json.loads(out.read_text(encoding="utf-8"))
    chooser = parse(values)
    assert chooser.features == NAMES
    readings = [{"matched": 3.0, "deleted": 0.0, "noise": 0.0}, {"matched": 0.0, "deleted": 0.0, "noise": 0.0}]
    scores = chooser.rank(readings)
    assert scores[0] > scores[1]
    assert chooser.probability(readings, scores) > 0.8
    sets = values["provenance"]["sets"]
    assert (sets["hand.jsonl"]["n_edits"], sets["sketched.jsonl.xz"]["weight"]) == (120, 0.25)
    assert values["provenance"]["versions"].keys() == {"python", "numpy", "scikit-learn"}
    assert str(tmp_path) not in out.read_text(encoding="utf-8")
    told = json.loads(report.read_text(encoding="utf-8"))
    assert list(told["recipes"]) == ["pairs linear line", "pairs linear steps"]
    assert told["chosen"]["all"]["n"] == 180
    applied = told["chosen"]["all"]["applied"]
    assert applied["threshold"] == chooser.thresholds.apply
    assert applied["wrong"] is None or applied["wrong"] <= 0.05
    printed = capsys.readouterr().out
    assert "\n".join(lines(told)) in printed
    assert "applied from" in printed


def test_the_same_data_give_the_same_numbers(data: list[str], tmp_path: Path) -> None:
    kept = []
    for name in ("one.json", "two.json"):
        only = ["--score", "boosted", "--confidence", "linear", "--calibration", "line"]
        main([*data, *only, "--folds", "3", "--out", str(tmp_path / name)], readings_of=readings_of)
        kept.append(parse(json.loads((tmp_path / name).read_text(encoding="utf-8"))))
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("more", "told"),
    [(["--weight", "other=2"], "weight is given"), (["--data", "real_diffs_dev.jsonl"], "reported on")],
)
def test_bad_sets_are_refused(data: list[str], more: list[str], told: str) -> None:
    with pytest.raises(DataError, match=told):
        main([*data, *more], readings_of=readings_of)


@pytest.mark.parametrize("more", [["--weight", "hand=0"], ["--weight", "hand"], ["--folds", "2"], []])
def test_bad_options_stop_with_usage(more: list[str]) -> None:
    with pytest.raises(SystemExit):
        main([*(["--data", "x.jsonl"] if more else []), *more])


def test_the_sample_is_the_best_by_score() -> None:
    choice = make_choices(1, seed=2)[0]._replace(features=({"x": 1.0}, {"x": 2.0}), right=(False, True))
    assert samples_of([choice], [[0.0, 1.0]])[0].is_right
    found = samples_of([choice, choice._replace(features=(), right=())], [[1.0, 0.0], []])
    assert found == [Sample(choice, found[0].values, False)]
    assert found[0].values["margin"] == 1.0
