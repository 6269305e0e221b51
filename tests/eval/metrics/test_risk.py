"""Risk and coverage of answers made by hand, worked out on paper."""

from __future__ import annotations

import random

import pytest

from apply_eval.metrics.calibration import Bin, deciles
from apply_eval.metrics.intervals import wilson
from apply_eval.metrics.risk import (
    MAX_POINTS,
    Judged,
    at_threshold,
    calibration_figures,
    coverage_interval,
    risk_curve,
    risk_figures,
    widest,
)

SAMPLES = [
    Judged(0.9, True), Judged(0.9, True), Judged(0.8, False), Judged(0.7, True), Judged(0.2, False),
    Judged(None, False),
]  # fmt: skip


def test_the_curve_has_a_point_for_each_probability() -> None:
    assert risk_curve(SAMPLES[::-1]) == [
        (0.9, 2, 0, 2 / 6, 0.0),
        (0.8, 3, 1, 3 / 6, 1 / 3),
        (0.7, 4, 1, 4 / 6, 1 / 4),
        (0.2, 5, 2, 5 / 6, 2 / 5),
    ]


def test_weights_count_in_shares_alone() -> None:
    points = risk_curve([Judged(0.9, True, 3.0), Judged(0.5, False, 1.0)])
    assert points == [(0.9, 1, 0, 0.75, 0.0), (0.5, 2, 1, 1.0, 0.25)]


def test_the_widest_point_may_lie_beyond_a_worse_one() -> None:
    assert widest(risk_curve(SAMPLES), 0.25) == (0.7, 4, 1, 4 / 6, 1 / 4)
    assert widest(risk_curve(SAMPLES), 0.01) == (0.9, 2, 0, 2 / 6, 0.0)
    assert widest(risk_curve([Judged(0.9, False), Judged(0.5, True)]), 0.1) is None


def test_who_flags_everything_or_answers_nothing_covers_nothing() -> None:
    for samples in ([Judged(None, False)] * 5, [Judged(0.1, True)] * 5):
        found = at_threshold(samples, 0.9)
        assert (found["n_applied"], found["coverage"], found["n_wrong"], found["wrong"]) == (0, 0.0, 0, None)
    assert at_threshold([Judged(0.1, True)] * 5, 0.9)["right_below"] == 1.0
    assert risk_figures([Judged(None, False)] * 5, threshold=0.9, seed=0)["coverage_at"]["0.01"]["coverage"] == 0.0


def test_what_a_threshold_does() -> None:
    found = at_threshold(SAMPLES, 0.8)
    assert found == {
        "threshold": 0.8,
        "n_applied": 3,
        "coverage": 0.5,
        "coverage_interval": list(wilson(3, 6)),
        "n_wrong": 1,
        "wrong": 1 / 3,
        "wrong_interval": list(wilson(1, 3)),
        "n_right_below": 1,
        "right_below": 1 / 3,
        "right_below_interval": list(wilson(1, 3)),
    }


def test_the_interval_holds_the_coverage_and_shrinks_with_samples() -> None:
    rng = random.Random(5)
    samples = [Judged(p := rng.random() ** 0.2, rng.random() < p) for _ in range(3000)]
    point = widest(risk_curve(samples), 0.1)
    few, many = (coverage_interval(samples[:n], 0.1, seed=1) for n in (150, 3000))
    assert point is not None
    assert few is not None
    assert many is not None
    assert many.low <= point.coverage <= many.high
    assert many.high - many.low < few.high - few.low
    assert coverage_interval(samples, 0.1, seed=1) == many


def test_ties_are_drawn_together() -> None:
    tied = [Judged(0.9, True)] * 30 + [Judged(0.9, False)] * 30
    assert coverage_interval(tied, 0.1, seed=0) == (0.0, 0.0)


def test_figures_are_short_and_end_where_the_curve_does() -> None:
    samples = [Judged(i / 1000, True) for i in range(1000)]
    found = risk_figures(samples, threshold=0.5, seed=0)
    assert len(found["curve"]) <= MAX_POINTS
    assert found["curve"][-1] == [0.0, 1000, 0, 1.0, 0.0]
    assert found["coverage_at"]["0.01"]["coverage"] == 1.0
    assert found["at_threshold"]["n_applied"] == 500


def test_deciles_hold_equally_many_and_keep_ties_together() -> None:
    found = deciles([i / 20 for i in range(20)], [i >= 10 for i in range(20)])
    assert len(found) == 10
    assert found[0] == Bin(0.0, 0.05, 2, 0.025, 0.0)
    assert found[9].exact_match == 1.0
    assert [bin.n for bin in deciles([0.5] * 19 + [0.9], [True] * 20)] == [19, 1]
    assert deciles([], []) == []


def test_calibration_is_of_answers_with_a_probability() -> None:
    found = calibration_figures(SAMPLES)
    assert found["n"] == 5
    assert found["ranking"] == pytest.approx(5 / 6)
    assert len(found["deciles"]) == 4
    assert sum(row[2] for row in found["deciles"]) == 5
