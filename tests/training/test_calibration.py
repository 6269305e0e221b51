"""Calibrating: which edits, what a row counts as right, maps that rise, and figures against counts by hand."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from apply_eval.statistics import Judged, alarms, bins_between, least_quiet
from apply_service.engine.record import CALIBRATION_FILE, Calibration, ProbabilityMap, Signals, hash_weights
from apply_service.target import Runtime, Target
from apply_service.types import Certainty, Hunk
from tests.doubles import make_result
from tests.training.edits import make_edits
from training.calibrate import EDGES, THRESHOLDS, describe, fit, forget_stale, scores
from training.calibration_data import CalibrationEdit, draw_edits, held_out_edits
from training.calibration_fit import CANDIDATES, MIN_STEP, Counted, fit_logistic, fit_steps, out_of_fold
from training.calibration_rows import AnswerRow, HunkRow, collect, hunk_rows, read_rows
from training.corpus import Edit, split_by_repository

SURE = Signals(True, Certainty.CERTAIN, 0, True)
UNSURE = Signals(True, Certainty.LIKELY, 2, True)
ODDS = ProbabilityMap(0.0, {"log_odds": 1.0})


def counted(odds: float, right: bool, signals: Signals = SURE, group: str = "") -> Counted:
    return Counted(-math.log1p(math.exp(-odds)), signals, right, group)


def drawn(n: int = 400) -> list[Counted]:
    """Sure answers are right in 19 of 20 cases, unsure ones in every second; the target's probability tells little."""
    rng = random.Random(3)
    made = []
    for i in range(n):
        signals, chance = (SURE, 0.95) if i % 2 else (UNSURE, 0.5)
        right = rng.random() < chance
        made.append(counted(rng.gauss(3 if right else 2, 2), right, signals, str(i // 2)))
    return made


# -- edits -------------------------------------------------------------------------------------------------------------
def test_only_what_training_leaves_out_is_answered(tmp_path: Path) -> None:
    edits = [replace(edit, repo=f"some/repo{i}") for i, edit in enumerate(make_edits(60))]
    path = tmp_path / "w.jsonl"
    rows = [{name: getattr(e, name) for name in ("repo", "path", "language", "before", "after")} for e in edits]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trained, _ = split_by_repository(edits)
    found = held_out_edits(path)
    assert 0 < len(found) < len(edits)
    assert not {edit.repo for edit in found} & {edit.repo for edit in trained}


def test_the_draw_is_a_function_of_the_seed_and_files_have_one_side() -> None:
    edits = make_edits(12)
    first = list(draw_edits(edits, n_sketches=2, max_lines=100, seed=1))
    assert first == list(draw_edits(edits, n_sketches=2, max_lines=100, seed=1))
    assert first != list(draw_edits(edits, n_sketches=2, max_lines=100, seed=2))
    assert len({made.id for made in first}) == len(first) > len(edits)
    sides = {(made.edit.repo, made.edit.path): made.side for made in first}
    assert all(sides[made.edit.repo, made.edit.path] == made.side for made in first)


def test_long_files_are_left_out() -> None:
    edits = make_edits(6)
    longest = max(edit.before.count("\n") for edit in edits)
    assert all(
        m.edit.before.count("\n") < longest for m in draw_edits(edits, n_sketches=1, max_lines=longest - 1, seed=0)
    )


# -- rows --------------------------------------------------------------------------------------------------------------
def test_a_hunk_is_wrong_where_the_wanted_text_differs_in_it() -> None:
    hunks = (Hunk(1, 2, 1, 2, 0, 1, 0.5), Hunk(5, 5, 5, 6, 1, 2, None))
    result = make_result("a\nB\nc\nd\ne\nnew\nf\n", hunks=hunks)
    assert hunk_rows(result, "a\nB\nc\nd\ne\nnew\nf\n") == (HunkRow(math.log(0.5), True), HunkRow(None, True))
    assert [h.is_right for h in hunk_rows(result, "a\nX\nc\nd\ne\nnew\nf\n")] == [False, True]
    assert [h.is_right for h in hunk_rows(result, "a\nB\nc\nd\ne\nf\n")] == [True, False]
    assert [h.is_right for h in hunk_rows(result, "a\nB\nc\nX\ne\nnew\nf\n")] == [True, True]


def test_a_stopped_collection_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    edit = Edit("some/where", "a.py", "python", "def f():\n    return 1\n", "def f():\n    return 2\n")
    update = "<<<<<<< SEARCH\n    return 1\n=======\n    return 2\n>>>>>>> REPLACE\n"
    edits = [CalibrationEdit(f"0-{i}", "fit", edit, update) for i in range(4)]
    told: list[int] = []
    first = collect(edits, Runtime(load=no_model), path, limit=2, tell=told.append)
    with path.open("a") as file:
        file.write('{"id": "0-')  # a kill in the middle of a line
    rows = collect(edits, Runtime(load=no_model), path, limit=3, tell=told.append)
    assert [row.id for row in rows] == ["0-0", "0-1", "0-2"]
    assert rows[:2] == first
    assert told == [1, 2, 3]
    assert all(row.is_right and row.strategy == "exact" and row.logprob is None for row in rows)
    assert read_rows(path) == rows


def test_a_refusal_is_a_row(tmp_path: Path) -> None:
    edit = Edit("some/where", "a.py", "python", "a = 1\n", "a = 2\n")
    made = CalibrationEdit("0-0", "fit", edit, " ")
    (row,) = collect([made], Runtime(load=no_model), tmp_path / "rows.jsonl", limit=9, tell=lambda _: None)
    assert (row.error, row.is_right, row.logprob) == ("empty_update", False, None)


def no_model(name: str) -> Target:
    raise AssertionError(f"{name} was asked")


# -- maps --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CANDIDATES)
def test_a_fitted_map_rises_with_the_probability(name: str) -> None:
    found = CANDIDATES[name](drawn())
    for signals in (SURE, UNSURE):
        chances = [found(counted(odds / 4, True).logprob, signals) for odds in range(-60, 60)]
        assert chances == sorted(chances)
        assert all(0 < chance < 1 for chance in chances)


def test_signals_part_right_from_wrong() -> None:
    found = CANDIDATES["signals, logistic"](drawn())
    assert found(-0.1, SURE) == pytest.approx(0.95, abs=0.05)
    assert found(-0.1, UNSURE) == pytest.approx(0.5, abs=0.08)


def test_a_probability_that_misleads_is_left_out() -> None:
    samples = [counted(odds, odds < 0) for odds in (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0)] * 20
    found = fit_logistic(samples, ["log_odds"])
    assert found.weights == {}
    assert found(-0.1, SURE) == pytest.approx(0.5)


def test_steps_are_the_shares_counted() -> None:
    low = [counted(-1.0, i < 10) for i in range(40)]
    high = [counted(2.0, i < 36) for i in range(40)]
    found = fit_steps(low + high, ODDS)
    assert found.points == ((-1.0, round(10.5 / 41, 4)), (2.0, round(36.5 / 41, 4)))


def test_steps_that_would_fall_are_pooled() -> None:
    first = [counted(-1.0, i < 30) for i in range(40)]
    second = [counted(1.0, i < 10) for i in range(40)]
    found = fit_steps(first + second, ODDS)
    assert found.points == ((0.0, round(40.5 / 81, 4)),)


def test_no_step_stands_on_a_handful() -> None:
    samples = [counted(float(i), i > 20) for i in range(MIN_STEP * 2 + 7)]
    assert 1 <= len(fit_steps(samples, ODDS).points) <= 2


def test_a_sample_is_judged_by_a_map_that_did_not_see_its_group() -> None:
    samples = [counted(1.0, True, group="a")] * 40 + [counted(1.0, False, group=str(i)) for i in range(400)]
    confidences = out_of_fold(samples, CANDIDATES["probability, logistic"])
    assert max(confidences[:40]) < 0.05
    assert max(confidences[40:]) > 0.08


# -- figures -----------------------------------------------------------------------------------------------------------
JUDGED = [
    Judged(0.99, True), Judged(0.99, False), Judged(0.6, True), Judged(0.55, False),
    Judged(0.2, False, has_findings=True),
]  # fmt: skip


def test_figures_by_hand() -> None:
    found = scores(JUDGED)
    assert (found["n"], found["n_right"]) == (5, 2)
    assert found["brier"] == pytest.approx((0.01**2 + 0.99**2 + 0.4**2 + 0.55**2 + 0.2**2) / 5)
    assert found["auc"] == pytest.approx((0.5 + 1 + 1 + 0 + 1 + 1) / 6)
    rows = bins_between(JUDGED, EDGES)
    assert [(row["low"], row["high"], row["n"], row["right"]) for row in rows] == [
        (0.0, 0.5, 1, 0.0),
        (0.5, 0.7, 2, 0.5),
        (0.98, 1.0, 2, 0.5),
    ]
    assert all(row["interval"][0] <= row["right"] <= row["interval"][1] for row in rows)


def test_alarms_by_hand() -> None:
    found = alarms(JUDGED, 0.6)
    assert found["flagged"] == pytest.approx(2 / 5)
    assert found["silent_errors"] == pytest.approx(1 / 5)
    assert found["false_alarms"] == 0
    assert alarms(JUDGED, 0.1)["silent_errors"] == pytest.approx(2 / 5)  # one of the three has a finding


def test_the_threshold_is_the_lowest_that_keeps_the_share() -> None:
    assert least_quiet(JUDGED, THRESHOLDS, silent=0.2) == 0.6
    assert least_quiet(JUDGED, THRESHOLDS, silent=0.5) == 0.5
    assert least_quiet([Judged(1.0, False)], THRESHOLDS, silent=0.0) == 0.98


# -- the whole ---------------------------------------------------------------------------------------------------------
def make_rows(n: int = 160) -> list[AnswerRow]:
    rng = random.Random(5)
    rows = []
    for i in range(n):
        certainty, chance = ("certain", 0.98) if i % 2 else ("likely", 0.7)
        right = rng.random() < chance
        logprob = -rng.random() / (2 if right else 1)
        row = AnswerRow(f"0-{i}", "fit" if i % 3 else "report", "some/where", "python", 20, right)
        row = replace(row, strategy="model", certainty=certainty, agreement=True, n_reasons=1 - i % 2, logprob=logprob)
        rows.append(replace(row, hunks=(HunkRow(logprob, right), HunkRow(None, right))))
    return rows


def test_the_report_is_of_the_half_that_nothing_was_fitted_to() -> None:
    rows = make_rows()
    calibration, chosen = fit(rows, "hash")
    found = describe(rows, [], calibration, chosen)
    kept = [row for row in rows if row.side == "report"]
    assert found["sides"]["report"]["n"] == len(kept) == found["answer"]["after"]["n"]
    assert found["hunk"]["before"]["n"] == len(kept)
    assert sum(row["n"] for row in found["answer"]["after"]["bins"]) == len(kept)
    assert found["answer"]["chosen"] in CANDIDATES
    assert found["threshold"]["value"] == calibration.threshold
    spoilt = [replace(row, is_right=not row.is_right) if row.side == "report" else row for row in rows]
    assert fit(spoilt, "hash") == (calibration, chosen)


def test_a_calibration_of_other_weights_makes_room(tmp_path: Path) -> None:
    path = tmp_path / CALIBRATION_FILE
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    path.write_text(json.dumps(Calibration(hash_weights(tmp_path), 0.5, ODDS, ODDS).as_json()))
    forget_stale(tmp_path)
    assert path.is_file()
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    forget_stale(tmp_path)
    assert not path.is_file()
