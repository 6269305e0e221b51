"""Paired differences: what is a regression, what is noise, what can't be compared."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from apply_eval.compare import Difference, compare_rows, exact_in_one, refuse_other_samples
from apply_eval.errors import DataError
from apply_eval.rows import RunRow
from tests.eval.rows import facts, missing, right, wrong

N = 100
A = [right(f"s{i}", "d") for i in range(N)]


def differences(b: list[RunRow], a: list[RunRow] = A, *, is_same_machine: bool = True) -> dict[str, Difference]:
    found = compare_rows(a, b, threshold=0.5, is_same_machine=is_same_machine)
    return {difference.field: difference for difference in found}


def worse(found: dict[str, Difference]) -> set[str]:
    return {field for field, difference in found.items() if difference.is_regression}


def test_a_run_against_itself_has_no_difference() -> None:
    found = differences(A)
    assert not worse(found)
    assert found["exact_match"].change == 0.0
    assert found["exact_match"].interval == (0.0, 0.0)
    assert found["tok_s"].change == found["passes"].change == 1.0
    assert all(difference.n_pairs == N for difference in found.values())


def test_lost_answers_are_a_regression() -> None:
    b = [wrong(f"s{i}", "d") if i < 10 else right(f"s{i}", "d") for i in range(N)]
    found = differences(b)
    assert worse(found) == {"exact_match", "silent_errors"}
    assert found["exact_match"].change == pytest.approx(-0.1)
    assert found["exact_match"].interval is not None
    assert found["exact_match"].interval.high < 0
    assert exact_in_one(A, b) == ([f"s{i}" for i in range(10)], [])


def test_wrong_answers_that_are_flagged_are_not_silent() -> None:
    b = [wrong(f"s{i}", "d", findings=("syntax",)) if i < 10 else right(f"s{i}", "d") for i in range(N)]
    assert worse(differences(b)) == {"exact_match"}


def test_gained_answers_are_none() -> None:
    a = [wrong(f"s{i}", "d") if i < 10 else right(f"s{i}", "d") for i in range(N)]
    found = differences(A, a=a)
    assert not worse(found)
    assert found["exact_match"].change == pytest.approx(0.1)


def test_one_lost_and_one_gained_is_noise() -> None:
    a = [wrong("s0", "d"), *A[1:]]
    b = [A[0], wrong("s1", "d"), *A[2:]]
    assert not worse(differences(b, a=a))


def test_slower_beyond_the_limit_is_a_regression() -> None:
    rng = random.Random(3)
    b = [replace(row, tok_s=1000 * rng.uniform(0.8, 0.9), latency_s=0.5 * rng.uniform(1.1, 1.2)) for row in A]
    assert worse(differences(b)) == {"tok_s", "latency_s"}


def test_speeds_of_other_machines_are_not_judged() -> None:
    b = [replace(row, tok_s=10.0, latency_s=50.0) for row in A]
    found = differences(b, is_same_machine=False)
    assert not worse(found)
    assert found["tok_s"].change == pytest.approx(0.01)


def test_more_passes_are_a_regression_on_any_machine() -> None:
    b = [replace(row, passes=5) for row in A]
    found = differences(b, is_same_machine=False)
    assert worse(found) == {"passes"}
    assert found["passes"].change == pytest.approx(1.25)


def test_samples_that_one_run_misses_are_left_out() -> None:
    b = [missing("s0", "d"), *A[1:50]]
    assert differences(b)["exact_match"].n_pairs == 49
    with pytest.raises(DataError, match="no scored sample in common"):
        differences([missing("s0", "d")])


def test_samples_must_be_the_same_texts() -> None:
    refuse_other_samples({"a": facts("a")}, {"a": facts("a"), "b": facts("b")})
    with pytest.raises(DataError, match="different texts"):
        refuse_other_samples({"a": facts("a")}, {"a": facts("a", update="other")})
    with pytest.raises(DataError, match="no sample in common"):
        refuse_other_samples({"a": facts("a")}, {"b": facts("b")})
