"""How far a confidence can be trusted, in figures: reliability by bins, scores, and what a threshold would flag.

Pure counting over answers and hunks; writes no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from apply_eval.metrics import brier_score, calibration_error, ranking, reliability, wilson
from apply_eval.scores import is_flagged, is_silent_error

EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
"""Of the bins of a table; finer where most answers are."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


class Judged(NamedTuple):
    """An answer or a hunk with a confidence.  `has_findings`: a check found something, so that a wrong one is not
    silent."""

    confidence: float
    is_right: bool
    has_findings: bool = False


def scores(judged: Sequence[Judged]) -> dict[str, Any]:
    """`n`, `n_right`; `brier`; `ece` in ten bins of equal width; `auc`: the chance that a right one has more confidence
    than a wrong one (None where all are right or all wrong)."""
    confidences, right = [j.confidence for j in judged], [j.is_right for j in judged]
    return {
        "n": len(judged),
        "n_right": sum(right),
        "brier": brier_score(confidences, right),
        "ece": calibration_error(reliability(confidences, right)),
        "auc": ranking(confidences, right),
    }


def table(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Bins between EDGES (the upper edge belongs to the next, but for 1), empty ones left out: mean confidence, share
    right with Wilson's 95% interval."""
    rows = []
    for low, high in pairwise(EDGES):
        found = [j for j in judged if low <= j.confidence and (j.confidence < high or high == EDGES[-1])]
        if found:
            n_right = sum(j.is_right for j in found)
            rows.append(
                {
                    "low": low,
                    "high": high,
                    "n": len(found),
                    "confidence": sum(j.confidence for j in found) / len(found),
                    "right": n_right / len(found),
                    "interval": list(wilson(n_right, len(found))),
                }
            )
    return rows


def alarms(judged: Sequence[Judged], threshold: float) -> dict[str, Any]:
    """What `threshold` would flag: silent errors as a share of all with Wilson's 95% interval, and the share of right
    answers that are flagged for nothing."""
    findings = [("found",) if j.has_findings else () for j in judged]
    flags = [is_flagged(found, j.confidence, threshold) for found, j in zip(findings, judged, strict=True)]
    n_silent = sum(is_silent_error(is_exact=j.is_right, flagged=flag) for j, flag in zip(judged, flags, strict=True))
    right = [flag for j, flag in zip(judged, flags, strict=True) if j.is_right]
    return {
        "threshold": threshold,
        "flagged": sum(flags) / len(flags),
        "silent_errors": n_silent / len(flags),
        "interval": list(wilson(n_silent, len(flags))),
        "false_alarms": sum(right) / len(right) if right else None,
    }


def pick_threshold(judged: Sequence[Judged], *, silent: float) -> float:
    """The lowest of THRESHOLDS at which at most the share `silent` of all answers (to a tenth of a percent) is wrong
    without a flag; the highest where none is."""
    return next((t for t in THRESHOLDS if round(alarms(judged, t)["silent_errors"], 3) <= silent), THRESHOLDS[-1])
