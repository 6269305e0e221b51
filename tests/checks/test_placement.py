"""A guess about the place is told, whoever decided; what is surer, or has no place, is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apply_service.checks.placement import find_guess
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineOp, Prediction, Verdict

OPS = (LineOp("keep", 0, None, "a = 1"), LineOp("take", None, 0, "b = 2"))
JOB = EditJob("a = 1", "b = 2", "", "a.py", "python", Prediction(OPS, ("b = 2",), Certainty.GUESS, ("no anchor",)))


def sure(certainty: Certainty) -> EditJob:
    return replace(JOB, prediction=replace(JOB.prediction, certainty=certainty))


def test_a_guess_is_a_warning_with_its_reasons() -> None:
    assert find_guess(JOB) == Verdict("placement", "warning", "where the edit belongs is a guess: no anchor")


def test_a_guess_without_reasons_still_says_something() -> None:
    found = find_guess(replace(JOB, prediction=replace(JOB.prediction, reasons=())))
    assert found is not None
    assert found.message == "where the edit belongs is a guess: it shows no line of the file"


@pytest.mark.parametrize(
    "job",
    [
        sure(Certainty.LIKELY),
        sure(Certainty.CERTAIN),
        replace(JOB, prediction=replace(JOB.prediction, determined=True)),
        replace(JOB, update=" \n", instruction="add b"),
    ],
)
def test_what_is_surer_or_has_no_place_is_no_guess(job: EditJob) -> None:
    assert find_guess(job) is None
