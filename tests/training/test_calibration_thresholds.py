"""Thresholds for merges taken as scored: nearly all right ones pass, and the count of it is honest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from apply_service.engine.record import Thresholds
from training.calibration_rows import AnswerRow
from training.calibration_thresholds import compare, doubted, effects, kinds, pick_thresholds


def rows_of(
    certainty: str, chances: list[float], *, is_right: bool = True, strategy: str = "confirmed"
) -> list[AnswerRow]:
    return [
        AnswerRow(
            *(f"0-{i}", "fit", "a/b", "python", 9, is_right),
            strategy=strategy,
            certainty=certainty,
            logprob=math.log(chance),
        )
        for i, chance in enumerate(chances)
    ]


def test_one_right_merge_in_a_hundred_may_fail() -> None:
    chances = [0.001, 0.02, *[0.3] * 198]
    found = pick_thresholds(rows_of("certain", chances) + rows_of("likely", [0.5] * 150))
    assert found.confirm == 0.3
    assert found.choose == 0.5
    assert pick_thresholds(rows_of("certain", [0.001, 0.012345, *[0.3] * 98])).confirm == 0.012


def test_wrong_merges_and_other_strategies_have_no_say() -> None:
    rows = rows_of("certain", [0.4] * 100) + rows_of("certain", [1e-9] * 50, is_right=False)
    assert pick_thresholds(rows + rows_of("certain", [1e-9] * 500, strategy="model")) == Thresholds(0.4, 0.0)


def test_too_few_to_spare_any_set_no_threshold() -> None:
    assert pick_thresholds(rows_of("certain", [0.4] * 99)).confirm == 0.0


@pytest.mark.parametrize(("limit", "n_right", "n_wrong"), [(0.0, 3, 2), (0.2, 2, 1), (0.9, 0, 0)])
def test_effects_count_who_reaches_the_threshold(limit: float, n_right: int, n_wrong: int) -> None:
    rows = rows_of("certain", [0.1, 0.2, 0.5]) + rows_of("certain", [0.1, 0.8], is_right=False)
    found = effects(rows, Thresholds(limit, 0.0))["confirm"]
    assert (found["n_right"], found["n_wrong"]) == (3, 2)
    assert (found["n_right_reach"], found["n_wrong_reach"]) == (n_right, n_wrong)


def test_what_a_target_would_have_written_otherwise_is_doubted() -> None:
    rows = rows_of("certain", [0.49, 0.5]) + rows_of("likely", [0.1]) + rows_of("likely", [0.1], strategy="model")
    assert [(row.certainty, round(math.exp(row.logprob or 0.0), 2)) for row in doubted(rows)] == [
        ("certain", 0.49),
        ("likely", 0.1),
    ]


def pairs(*rights: tuple[bool, bool]) -> tuple[list[AnswerRow], list[AnswerRow]]:
    """Merges and what the target wrote in their place: whether each is right."""
    return side_of([right for right, _ in rights]), side_of([right for _, right in rights])


def side_of(rights: list[bool]) -> list[AnswerRow]:
    return [
        AnswerRow(f"0-{i}", "fit", "a/b", None, 9, is_right, strategy="confirmed", logprob=-2.0)
        for i, is_right in enumerate(rights)
    ]


def test_who_is_right_is_counted_edit_by_edit() -> None:
    merges, decided = pairs((True, True), (True, False), (True, False), (False, True), (False, False))
    expected = {"n": 5, "both_right": 1, "merge_right": 2, "target_right": 1, "both_wrong": 1}
    assert compare(merges, list(reversed(decided))) == expected
    assert compare(merges[1:], decided[:2]) == {**dict.fromkeys(expected, 0), "n": 1, "merge_right": 1}


def test_what_a_target_may_decide_is_counted_by_kind() -> None:
    """A merge that it does not doubt it would write as well; of a guess it wrote the text itself."""

    def row(n: int, certainty: str, *, merge: bool, answer: bool) -> AnswerRow:
        known = {"strategy": "confirmed", "certainty": certainty, "logprob": -0.1, "is_merge_right": merge}
        return AnswerRow(f"0-{n}", "fit", "a/b", None, 9, answer, **known)  # type: ignore[arg-type]

    likely = [row(n, "likely", merge=n % 2 == 0, answer=n % 2 == 0) for n in range(20)]
    better = [replace(one, is_right=True) for one in likely if not one.is_merge_right]
    guesses = [row(100 + n, "guess", merge=False, answer=n < 2) for n in range(10)]
    refused = AnswerRow("0-200", "fit", "a/b", None, 9, error="needs_more_context")
    found = kinds([*likely, *guesses, refused], better)
    assert {kind: (c.n, c.merge_right, c.target_right, c.decides) for kind, c in found.items()} == {
        "likely": (20, 10, 20, True),
        "guess": (10, 0, 2, False),
    }
