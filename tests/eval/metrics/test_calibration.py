"""Verdict and confidence quality on answers counted by hand."""

from __future__ import annotations

import pytest

from apply_eval.metrics.calibration import Bin, alarm_quality, brier_score, calibration_error, ranking, reliability


def test_flags_as_an_alarm() -> None:
    #                          right, kept  right, flagged  wrong, flagged  wrong, silent
    quality = alarm_quality([False, False, True, True, True, False], [True, True, True, False, False, False])
    assert (quality.n_wrong, quality.n_wrong_flagged, quality.n_right, quality.n_right_flagged) == (3, 2, 3, 1)
    assert quality.recall == pytest.approx(2 / 3)
    assert quality.precision == pytest.approx(2 / 3)
    assert quality.false_alarms == pytest.approx(1 / 3)


def test_rates_of_nothing_are_unknown() -> None:
    assert alarm_quality([], []).recall is None
    assert alarm_quality([False], [True]).precision is None
    assert alarm_quality([True], [False]).false_alarms is None


def test_sequences_must_run_in_step() -> None:
    with pytest.raises(ValueError, match="shorter"):
        alarm_quality([True], [])


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
