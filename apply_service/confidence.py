"""How sure an answer is of itself and of each hunk: the target's probability, read through the model's calibration.

Near the end of a request's path, once the checks have spoken.  Decides nothing and changes no text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from apply_service.calibration import Calibration, Signals
from apply_service.decider import TargetInfo
from apply_service.types import ApplyRequest, ConfidenceKind, Prediction, Verdict

LEAST = 1e-300
"""Stands for a probability too small for a logarithm."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """Of one answer.  `raw`: the least probability of a decision of the target; None where it made none.  Without a
    calibration raw probabilities are given."""

    raw: float | None
    calibration: Calibration | None
    signals: Signals
    chance: float | None = None
    """Counted by the merger; None where the text is no reading of its own."""

    @property
    def kind(self) -> ConfidenceKind | None:
        """What the figures are; None where there are none."""
        if self.chance is not None:
            return "calibrated"
        if self.raw is None:
            return None
        return "raw" if self.calibration is None else "calibrated"

    @property
    def answer(self) -> float | None:
        """Of the whole answer."""
        if self.chance is not None:
            return self.chance
        if self.raw is None or self.calibration is None:
            return self.raw
        return self.calibration.of_answer(math.log(max(self.raw, LEAST)), self.signals)

    def of_hunk(self, logprob: float) -> float:
        """Of a hunk whose least log probability of a decision is `logprob`."""
        if self.calibration is None:
            return math.exp(logprob)
        return self.calibration.of_hunk(logprob, self.signals, answer=self.answer or 0.0)


def confidence_in(
    request: ApplyRequest,
    target: TargetInfo | None,
    *,
    raw: float | None,
    agreement: bool | None,
    prediction: Prediction,
    checks: Iterable[Verdict],
    chance: float | None = None,
) -> Confidence:
    """The confidence in an answer; `checks` are the verdicts on the text alone.  `chance`: of the text being right as
    the merger counted it, which tells more than a target's own probability does."""
    is_clean = all(verdict.is_pass for verdict in checks)
    signals = Signals(agreement, prediction.certainty, len(prediction.reasons), is_clean)
    if target is not None and target.is_replay:
        chance = None
    calibration = None if target is None or not _is_as_calibrated(request) else target.calibration
    return Confidence(raw, calibration, signals, chance)


def _is_as_calibrated(request: ApplyRequest) -> bool:
    """Maps are fitted on greedy answers under the target's own constraint."""
    return request.temperature == 0 and request.constrain != "none"
