"""What happens to an answer that may be wrong.  All code that returns or writes an answer follows this policy.

The chooser of readings counts how often a merge like this one is right.  From the threshold `apply` on, the answer has
no doubt.  Below it, the verdict `doubt` says how sure the merge is, why it is not surer, and where the next reading
differs.  This is a warning, and `--in-place` does not write such an answer unless told to.  Below `refuse` the answer
is more likely wrong than right.  Then the verdict is an error, and a client that can't show verdicts gets it instead of
a file.
"""

from __future__ import annotations

from apply_service.edits.lazy.chooser import load
from apply_service.protocols import EditJob
from apply_service.types import DOUBT, Certainty, LineOp, Prediction, Verdict

MAX_RANGES = 3
"""The most places of another reading that a verdict names, and the most reasons."""


def chance_of(prediction: Prediction, merged: str) -> float | None:
    """The probability that `merged` is right, as the merger counted it.

    None if it was not measured, or if a target wrote a text that is no reading of the edit.
    """
    if prediction.probability is None:
        return None
    if merged == prediction.text:
        return prediction.probability
    return next((other.probability for other in prediction.readings if other.text == merged), None)


def find_doubt(job: EditJob, merged: str) -> Verdict | None:
    """The verdict on an answer that may be wrong.  None if it is sure, or if there is only an instruction."""
    prediction = job.prediction
    if prediction.determined or not job.update.strip():
        return None
    if prediction.probability is None:  # a format that gives reasons but no probability
        if prediction.certainty is Certainty.CERTAIN:
            return None
        reasons = "; ".join(prediction.reasons) or "it shows no line of the file"
        how = "likely, not certain" if prediction.certainty is Certainty.LIKELY else "a guess"
        return Verdict(DOUBT, "warning", f"where the edit belongs is {how}: {reasons}")
    chance = chance_of(prediction, merged)
    if chance is None:
        return Verdict(DOUBT, "warning", "the model wrote what is no reading of the edit")
    thresholds = load().thresholds
    if chance >= thresholds.apply:
        return None
    said = [in_words(chance), *prediction.reasons[:MAX_RANGES]]
    other = next((one for one in prediction.readings if one.text != merged), None)
    lines = sorted(line + 1 for line, _ in _changed(prediction.ops) ^ _changed(other.ops)) if other else []
    ranges: list[tuple[int, int]] = []
    for line in lines:
        if ranges and line <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], line)
        else:
            ranges.append((line, line))
    if ranges:
        shown = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges[:MAX_RANGES])
        said.append(f"another reading differs at line{'s' if len(lines) > 1 else ''} {shown} of the original")
    return Verdict(DOUBT, "warning" if chance >= thresholds.refuse else "error", "; ".join(said))


def in_words(chance: float) -> str:
    """The chance in words, such as `93% sure`; never 100% or 0%."""
    return f"{min(99, max(1, round(100 * chance)))}% sure"


def _changed(ops: tuple[LineOp, ...]) -> set[tuple[int, str]]:
    """What a reading changes: removed lines of the original, and added lines with the line that they follow."""
    found, at = set(), 0
    for op in ops:
        if op.original_line is not None:
            at = op.original_line + 1
        if op.kind == "drop":
            found.add((at - 1, ""))
        elif op.kind == "take":
            found.add((max(0, at - 1), op.text))
    return found
