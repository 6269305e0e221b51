"""Intervals against what theory and hand calculation give."""

from __future__ import annotations

import numpy as np
import pytest

from apply_eval.metrics.intervals import (
    bootstrap,
    mean_interval,
    quantile_interval,
    ratio_interval,
    share_interval,
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
    median = quantile_interval(values, 0.5, seed=0)
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
    assert quantile_interval([3.0], 0.5, seed=0) is None
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
