"""Whether an answer says of itself that it may be wrong, and whether a wrong one kept silent."""

from __future__ import annotations

from collections.abc import Collection

CONFIDENCE_THRESHOLD = 0.95
"""An answer below it counts as flagged.  The embedded model's, as `training.calibrate` found it on edits mined for that
(`calibration.json` beside the weights); never tuned on an evaluation set."""


def is_flagged(findings: Collection[str], confidence: float | None, threshold: float = CONFIDENCE_THRESHOLD) -> bool:
    """Whether a careful caller was warned: a check found something, or the target was less sure than `threshold`.  An
    answer without confidence (a program's, or another service's) is flagged by its findings alone."""
    return bool(findings) or (confidence is not None and confidence < threshold)


def is_silent_error(*, is_exact: bool, flagged: bool) -> bool:
    """Wrong, and nothing in the answer says so: the one error that a user can't catch."""
    return not is_exact and not flagged
