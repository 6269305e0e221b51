"""Thresholds for merges taken as scored: nearly all right ones pass, and the count of it is honest."""

from __future__ import annotations

import math

import pytest

from apply_service.calibration import Thresholds
from training.calibration_rows import AnswerRow
from training.calibration_thresholds import effects, pick_thresholds


def rows_of(strategy: str, chances: list[float], *, is_right: bool = True) -> list[AnswerRow]:
    return [
        AnswerRow(f"0-{i}", "fit", "a/b", "python", 9, is_right, strategy=strategy, logprob=math.log(chance))
        for i, chance in enumerate(chances)
    ]


def test_one_right_merge_in_a_hundred_may_fail() -> None:
    chances = [0.001, 0.02, *[0.3] * 198]
    found = pick_thresholds(rows_of("confirmed", chances) + rows_of("lattice", [0.5] * 150))
    assert found.confirm == 0.3
    assert found.choose == 0.5
    assert pick_thresholds(rows_of("confirmed", [0.001, 0.012345, *[0.3] * 98])).confirm == 0.012


def test_wrong_merges_and_other_strategies_have_no_say() -> None:
    rows = rows_of("confirmed", [0.4] * 100) + rows_of("confirmed", [1e-9] * 50, is_right=False)
    assert pick_thresholds(rows + rows_of("model", [1e-9] * 500)) == Thresholds(0.4, 0.0, None)


def test_too_few_to_spare_any_set_no_threshold() -> None:
    assert pick_thresholds(rows_of("confirmed", [0.4] * 99)).confirm == 0.0


def test_a_choice_in_windows_counts_as_one() -> None:
    assert pick_thresholds(rows_of("windowed", [0.25] * 100)).choose == 0.25


@pytest.mark.parametrize(("limit", "n_right", "n_wrong"), [(0.0, 3, 2), (0.2, 2, 1), (0.9, 0, 0)])
def test_effects_count_who_reaches_the_threshold(limit: float, n_right: int, n_wrong: int) -> None:
    rows = rows_of("confirmed", [0.1, 0.2, 0.5]) + rows_of("confirmed", [0.1, 0.8], is_right=False)
    found = effects(rows, Thresholds(limit, 0.0, 0.0))["confirm"]
    assert (found["n_right"], found["n_wrong"]) == (3, 2)
    assert (found["n_right_reach"], found["n_wrong_reach"]) == (n_right, n_wrong)
