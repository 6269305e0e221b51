"""Intervals, calibration, risk and coverage, worked out by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from apply_eval.statistics import (
    MAX_POINTS,
    Bin,
    Judged,
    at_threshold,
    bootstrap,
    brier_score,
    calibration_error,
    calibration_figures,
    chance_of_as_many,
    clopper_pearson,
    coverage_interval,
    deciles,
    is_flagged,
    is_silent_error,
    mean_interval,
    median_interval,
    ranking,
    ratio_interval,
    reliability,
    risk_curve,
    risk_figures,
    share_interval,
    widest,
    wilson,
)


def test_the_mean_of_a_normal_sample() -> None:
    values = np.random.default_rng(1).normal(10.0, 2.0, 400).tolist()
    interval = mean_interval(values, seed=0)
    assert interval is not None
    half = 1.96 * np.std(values) / 20
    assert interval.low == pytest.approx(np.mean(values) - half, abs=0.05)
    assert interval.high == pytest.approx(np.mean(values) + half, abs=0.05)


def test_coverage_is_about_what_it_says() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for trial in range(200):
        found = mean_interval(rng.exponential(1.0, 60).tolist(), seed=trial)
        assert found is not None
        hits += found.low <= 1.0 <= found.high
    assert 0.87 <= hits / 200 <= 0.99


def test_shares_inside_and_at_the_ends() -> None:
    inside = share_interval([True] * 90 + [False] * 10, seed=0)
    assert inside is not None
    assert inside.low == pytest.approx(0.84, abs=0.02)
    assert inside.high == pytest.approx(0.96, abs=0.02)
    none, all_ = share_interval([False] * 403, seed=0), share_interval([True] * 403, seed=0)
    assert none is not None
    assert all_ is not None
    assert none.low == 0.0
    assert none.high == pytest.approx(0.0094, abs=0.0002)  # 1.96^2 / (403 + 1.96^2)
    assert all_.high == 1.0
    assert all_.low == pytest.approx(1 - 0.0094, abs=0.0002)


def test_wilson_by_hand() -> None:
    low, high = wilson(5, 10)
    assert (low, high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))


def test_quantiles_and_ratios() -> None:
    values = [float(i) for i in range(101)]
    median = median_interval(values, seed=0)
    assert median is not None
    assert median.low < 50 < median.high
    ratio = ratio_interval([(1.0, 2.0)] * 50, seed=0)
    assert ratio == (0.5, 0.5)
    weighted = ratio_interval([(1.0, 1.0), (0.0, 9.0)] * 30, seed=0)
    assert weighted is not None
    assert weighted.low < 0.1 < weighted.high


def test_samples_without_anything_below_the_line_do_not_count() -> None:
    assert ratio_interval([(0.0, 0.0), (1.0, 2.0), (1.0, 2.0)], seed=0) == (0.5, 0.5)


def test_one_sample_says_nothing_of_its_spread() -> None:
    assert mean_interval([], seed=0) is None
    assert mean_interval([3.0], seed=0) is None
    assert median_interval([3.0], seed=0) is None
    assert share_interval([], seed=0) is None
    assert share_interval([True], seed=0) == wilson(1, 1)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [1.0, 5.0, 2.0, 8.0, 3.0]
    assert mean_interval(values, seed=3) == mean_interval(values, seed=3)
    assert mean_interval(values, seed=3) != mean_interval(values, seed=4)


def test_large_samples_are_drawn_in_pieces() -> None:
    found = bootstrap([0.0, 1.0] * 10_000, lambda drawn: drawn.mean(axis=1), seed=0)
    assert found is not None
    assert found.low == pytest.approx(0.493, abs=0.002)


def test_bins() -> None:
    bins = reliability([0.05, 0.92, 0.95, 1.0], [False, True, False, True])
    assert bins == [
        Bin(0.0, 0.1, 1, 0.05, 0.0),
        Bin(0.9, 1.0, 3, pytest.approx((0.92 + 0.95 + 1.0) / 3), pytest.approx(2 / 3)),
    ]


def test_calibration_error() -> None:
    perfect = reliability([0.75] * 4, [True, True, True, False])
    assert calibration_error(perfect) == pytest.approx(0.0)
    boastful = reliability([0.95] * 4, [True, False, False, False])
    assert calibration_error(boastful) == pytest.approx(0.7)
    mixed = reliability([0.95, 0.95, 0.25, 0.25], [True, True, True, False])
    assert calibration_error(mixed) == pytest.approx((0.05 * 2 + 0.25 * 2) / 4)
    assert calibration_error([]) is None


def test_brier_score() -> None:
    assert brier_score([1.0, 0.0], [True, False]) == 0.0
    assert brier_score([0.5, 0.5], [True, False]) == 0.25
    assert brier_score([0.9, 0.9], [True, False]) == pytest.approx((0.01 + 0.81) / 2)
    assert brier_score([], []) is None


def test_ranking() -> None:
    assert ranking([0.9, 0.8, 0.1], [True, True, False]) == 1.0
    assert ranking([0.1, 0.9], [True, False]) == 0.0
    assert ranking([0.5, 0.5], [True, False]) == 0.5
    assert ranking([0.9, 0.3, 0.5], [True, True, False]) == 0.5
    assert ranking([0.9], [True]) is None


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
        "n_grave": 1,
        "wrong": 1 / 3,
        "wrong_interval": list(wilson(1, 3)),
        "n_right_below": 1,
        "right_below": 1 / 3,
        "right_below_interval": list(wilson(1, 3)),
    }


def test_errors_in_blanks_and_comments_are_not_grave() -> None:
    samples = [Judged(0.9, False, is_slight=True), Judged(0.9, False), Judged(0.1, False, is_slight=True)]
    found = at_threshold(samples, 0.8)
    assert (found["n_wrong"], found["n_grave"]) == (2, 1)


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


@pytest.mark.parametrize(
    ("findings", "confidence", "flagged"),
    [
        ((), None, False),
        ((), 0.9, False),
        ((), 0.5, False),
        ((), 0.49, True),
        (("syntax",), 0.99, True),
        (("fallback",), None, True),
    ],
)
def test_flags(findings: tuple[str, ...], confidence: float | None, flagged: bool) -> None:
    assert is_flagged(findings, confidence, 0.5) is flagged


def test_silent_errors_are_wrong_and_not_flagged() -> None:
    assert is_silent_error(is_exact=False, flagged=False)
    assert not is_silent_error(is_exact=False, flagged=True)
    assert not is_silent_error(is_exact=True, flagged=False)
    assert not is_silent_error(is_exact=True, flagged=True)


def test_the_chance_of_as_many_is_the_binomial_s() -> None:
    assert chance_of_as_many(3, 3, 1 / 3) == pytest.approx(1 / 27)
    assert chance_of_as_many(1, 4, 0.5) == pytest.approx(15 / 16)
    assert chance_of_as_many(0, 0, 0.2) == 1.0
    assert chance_of_as_many(1500, 3000, 0.5) == pytest.approx(0.5073, abs=1e-4)


@pytest.mark.parametrize(
    ("n_hits", "n", "low", "high"),
    [(0, 10, 0.0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1.0), (0, 1, 0.0, 0.975), (3, 20, 0.0321, 0.3789)],
)
def test_the_exact_interval(n_hits: int, n: int, low: float, high: float) -> None:
    assert clopper_pearson(n_hits, n) == pytest.approx((low, high), abs=1e-4)
