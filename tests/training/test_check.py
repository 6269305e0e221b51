"""The check of a run: what a turn is, and that whoever learnt nothing fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apply_service.prompts.compact import Compact
from apply_service.types import LineOp
from tests.training.edits import make_edits
from training.check import GROUP, LEAST_GAIN, LEAST_TURNS, Checked, check, verdict
from training.evaluate import UNTRAINED, make_eval_case, validation_cases
from training.train import MODEL_DIR

COMPACT = Compact.from_directory(MODEL_DIR)
CONTROL = Checked(n_cases=9, n_turns=90, decisions=0.6, turns=LEAST_TURNS - 0.3)


def test_a_turn_is_a_decision_other_than_to_keep_on_keeping() -> None:
    original, update = ["a", "b", "c", "d", "e"], ["X", "d"]
    ops = [
        LineOp("keep", 0, None, "a"),
        LineOp("keep", 1, None, "b"),
        LineOp("drop", 2, None, "c"),
        LineOp("take", None, 0, "X"),
        LineOp("both", 3, 1, "d"),
        LineOp("keep", 4, None, "e"),
    ]
    prompt = COMPACT.encode_listing(original, update, None)
    case = make_eval_case(COMPACT, group=GROUP, prompt=prompt, truth=ops, original=original, update=update, hinted=())
    assert case is not None
    output = case.ids[case.n_prompt :].tolist()
    kinds = [COMPACT.vocabulary.kind_of(output[at]) for at in sorted(case.turns)]
    assert kinds == ["drop", "take", "both", "keep"]
    allowed = [case.allowed[at] for at in case.turns]
    assert all(mask is not None and len(mask) > 1 for mask in allowed)


def test_the_untrained_control_fails() -> None:
    cases = validation_cases(make_edits(20), COMPACT, n_cases=24, seed=0, groups=(GROUP,))
    assert {case.group for case in cases} == {GROUP}
    control = check(UNTRAINED, COMPACT, cases)
    assert control.n_turns > 10
    assert verdict(control, control)


@pytest.mark.parametrize(
    ("turns", "control", "passes"),
    [
        (LEAST_TURNS + 0.01, LEAST_TURNS - 0.3, True),
        (LEAST_TURNS - 0.01, LEAST_TURNS - 0.3, False),
        (LEAST_TURNS + 0.01, LEAST_TURNS, False),
        (LEAST_TURNS + LEAST_GAIN + 0.01, LEAST_TURNS, True),
    ],
)
def test_a_run_passes_that_is_right_often_enough_and_well_above_the_control(
    turns: float, control: float, passes: bool
) -> None:
    reasons = verdict(replace(CONTROL, turns=turns), replace(CONTROL, turns=control))
    assert (reasons == []) == passes


def test_nothing_to_check_is_no_pass() -> None:
    assert verdict(Checked(0, 0, 0.0, 0.0), CONTROL)
