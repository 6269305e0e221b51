"""Where an edit belongs is a guess: nothing in it says the place for sure.  Warning, whoever decided.

Not one of the checks of a text, which are asked of the merged lines: this is known before any text is, and says how the
answer came about (`strategies.strategy_verdicts`).
"""

from __future__ import annotations

from apply_service.protocols import EditJob
from apply_service.types import Certainty, Verdict

NAME = "placement"


def find_guess(job: EditJob) -> Verdict | None:
    """A warning with the merge's reasons where its place is a guess; None for a surer one, and for an instruction,
    which has no place."""
    prediction = job.prediction
    if prediction.certainty is not Certainty.GUESS or prediction.determined or not job.update.strip():
        return None
    reasons = "; ".join(prediction.reasons) or "it shows no line of the file"
    return Verdict(NAME, "warning", f"where the edit belongs is a guess: {reasons}")
