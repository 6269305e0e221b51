"""Answers to put before the checks: an original, an edit with its true merge, and what some target made of it."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from apply_service.checks import run_checks
from apply_service.protocols import CheckInput
from apply_service.types import Certainty, LineOp, Prediction, Verdict


def predict(original: str, expected: str, update: str, certainty: Certainty = Certainty.CERTAIN) -> Prediction:
    """The prediction whose merge is `expected`: lines shown in the update are `both`, in rising order."""
    old, new, shown = original.split("\n"), expected.split("\n"), update.split("\n")
    ops: list[LineOp] = []
    position = 0

    def find(text: str) -> int | None:
        nonlocal position
        for index in range(position, len(shown)):
            if text.strip() and shown[index].strip() == text.strip():
                position = index + 1
                return index
        return None

    for step in LCSseq.opcodes(old, new):
        if step.tag == "equal":
            for number in range(step.src_start, step.src_end):
                index = find(old[number])
                ops.append(LineOp("keep" if index is None else "both", number, index, old[number]))
            continue
        ops.extend(LineOp("drop", number, None, old[number]) for number in range(step.src_start, step.src_end))
        ops.extend(LineOp("take", None, find(new[n]), new[n]) for n in range(step.dest_start, step.dest_end))
    return Prediction(tuple(ops), tuple(shown), certainty)


def answer(
    original: str,
    merged: str,
    *,
    update: str = "",
    expected: str | None = None,
    language: str | None = "python",
    certainty: Certainty = Certainty.CERTAIN,
) -> CheckInput:
    """What a check looks at.  `expected` is the predicted merge; left out, the target agrees with it."""
    prediction = predict(original, merged if expected is None else expected, update, certainty)
    return CheckInput(original, merged, update, prediction, language)


def findings(name: str, item: CheckInput) -> list[Verdict]:
    """What one check finds; empty where it passes."""
    return [verdict for verdict in run_checks(item, [name]) if not verdict.is_pass]


def severities(verdicts: Sequence[Verdict]) -> set[str]:
    return {verdict.severity for verdict in verdicts}
