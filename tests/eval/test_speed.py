"""Speed, percentiles and money, by hand."""

from __future__ import annotations

import pytest

from apply_eval.statistics import mean, median, paired_ratios, percentile
from apply_eval.summary import share_by_source


def test_ratios_pair_samples_that_both_have() -> None:
    assert paired_ratios({"a": 10.0, "b": 30.0, "c": 1.0}, {"b": 10.0, "a": 5.0}) == [2.0, 3.0]
    assert paired_ratios({"a": 10.0}, {"a": 0.0}) == []


def test_percentiles_interpolate() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([0.0, 100.0], 0.95) == pytest.approx(95.0)
    assert percentile([], 0.5) is None
    assert median([]) is None
    assert mean([]) is None


def test_origin_shares_leave_the_rest_to_the_target() -> None:
    shares = share_by_source([{"predicted": 60, "original": 10}, {"predicted": 20}], 100)
    assert shares == {"predicted": 0.8, "original": 0.1, "target": pytest.approx(0.1)}
    assert share_by_source([], 0) == {}
