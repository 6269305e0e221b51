"""How much may be applied unseen, and at what price: risk and coverage of answers that say how likely they are right.

R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification" (2010): coverage is the share of
samples at or above a threshold, risk the share of wrong answers among these.  Coverage counts all samples, refused ones
too, so that nobody wins by refusing or by flagging everything: whoever does has a coverage of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from apply_eval.metrics.calibration import brier_score, calibration_error, deciles, ranking, reliability
from apply_eval.metrics.intervals import Floats, Interval, bootstrap, wilson

LIMITS = (0.01, 0.02)
"""Shares of wrong answers at which coverage is reported."""
MAX_POINTS = 50
"""Of a curve in the results."""


class Judged(NamedTuple):
    """One sample: the chance of being right that its answer claims (None: there is no answer), whether it is right, and
    how much it counts."""

    probability: float | None
    is_right: bool
    weight: float = 1.0


class RiskPoint(NamedTuple):
    """What is applied from `threshold` on.  The counts are of samples, the shares by their weights: `coverage` of all
    samples, `wrong` of the applied ones."""

    threshold: float
    n_applied: int
    n_wrong: int
    coverage: float
    wrong: float


def risk_curve(samples: Sequence[Judged]) -> list[RiskPoint]:
    """A point for each probability that occurs, the highest first: coverage rises along it."""
    total = sum(sample.weight for sample in samples)
    answered = sorted((s for s in samples if s.probability is not None), key=lambda s: -_chance(s))
    points: list[RiskPoint] = []
    n_wrong, applied, wrong = 0, 0.0, 0.0
    for n, sample in enumerate(answered, 1):
        n_wrong += not sample.is_right
        applied += sample.weight
        wrong += 0.0 if sample.is_right else sample.weight
        if n == len(answered) or _chance(answered[n]) < _chance(sample):
            points.append(RiskPoint(_chance(sample), n, n_wrong, applied / total, wrong / applied))
    return points


def _chance(sample: Judged) -> float:
    assert sample.probability is not None, "only answers are sorted"
    return sample.probability


def widest(points: Sequence[RiskPoint], limit: float) -> RiskPoint | None:
    """The point of most coverage at which at most the share `limit` of the applied answers is wrong."""
    return next((point for point in reversed(points) if point.wrong <= limit), None)


def coverage_interval(samples: Sequence[Judged], limit: float, *, seed: int) -> Interval | None:
    """Of the coverage at `limit`: samples are drawn again, and the threshold is chosen again in each draw."""
    rows = [(-1.0 if s.probability is None else s.probability, float(s.is_right), s.weight) for s in samples]
    # The bootstrap takes rows of any width; its type knows pairs alone.
    return bootstrap(rows, lambda drawn: _coverages(drawn, limit), seed=seed)  # type: ignore[arg-type]


def _coverages(drawn: Floats, limit: float) -> Floats:
    """[n_draws, n_samples, (probability, is right, weight)] -> the coverage at `limit` of each draw."""
    order = np.argsort(-drawn[:, :, 0], axis=1, kind="stable")
    chances, right, weights = np.moveaxis(np.take_along_axis(drawn, order[:, :, None], axis=1), 2, 0)
    applied, wrong = np.cumsum(weights, axis=1), np.cumsum(weights * (1 - right), axis=1)
    is_last = np.column_stack([chances[:, 1:] < chances[:, :-1], np.ones(len(chances), bool)])
    is_allowed = is_last & (chances >= 0) & (wrong <= limit * applied)
    widest_of_each: Floats = np.where(is_allowed, applied, 0.0).max(axis=1) / applied[:, -1]
    return widest_of_each


# -- results -----------------------------------------------------------------------------------------------------------
def risk_figures(samples: Sequence[Judged], *, threshold: float, seed: int) -> dict[str, Any]:
    """`risk` of a run: the curve, coverage at each of LIMITS, and what the frozen `threshold` does.  The coverage at a
    limit is the best that any threshold gives on these very samples; only the frozen threshold can be held against
    others."""
    curve = risk_curve(samples)
    return {
        "n": len(samples),
        "curve": [list(point) for point in _thinned(curve)],
        "coverage_at": {str(limit): _at_limit(samples, curve, limit, seed) for limit in LIMITS},
        "at_threshold": at_threshold(samples, threshold),
    }


def _thinned(curve: Sequence[RiskPoint]) -> list[RiskPoint]:
    """At most MAX_POINTS, evenly over the curve, its end among them."""
    step = max(1, -(-len(curve) // MAX_POINTS))
    return list(curve[::-1][::step][::-1])


def _at_limit(samples: Sequence[Judged], curve: Sequence[RiskPoint], limit: float, seed: int) -> dict[str, Any]:
    point, interval = widest(curve, limit), coverage_interval(samples, limit, seed=seed)
    found = {"threshold": None, "n_applied": 0, "n_wrong": 0, "coverage": 0.0, "wrong": None}
    return {
        **(found if point is None else point._asdict()),
        "interval": None if interval is None else list(interval),
    }


def at_threshold(samples: Sequence[Judged], threshold: float) -> dict[str, Any]:
    """What is applied from `threshold` on, what of that is wrong, and which right answers lie below it; Wilson's 95%
    intervals."""
    applied = [s for s in samples if s.probability is not None and s.probability >= threshold]
    n_wrong = sum(not s.is_right for s in applied)
    n_right = sum(s.is_right for s in samples)
    n_below = n_right - sum(s.is_right for s in applied)
    return {
        "threshold": threshold,
        "n_applied": len(applied),
        "coverage": _share(len(applied), len(samples)),
        "coverage_interval": _wilson(len(applied), len(samples)),
        "n_wrong": n_wrong,
        "wrong": _share(n_wrong, len(applied)),
        "wrong_interval": _wilson(n_wrong, len(applied)),
        "n_right_below": n_below,
        "right_below": _share(n_below, n_right),
        "right_below_interval": _wilson(n_below, n_right),
    }


def calibration_figures(samples: Sequence[Judged]) -> dict[str, Any]:
    """`calibration` of a run, of the answers that claim a probability."""
    answers = [sample for sample in samples if sample.probability is not None]
    chances, right = [_chance(sample) for sample in answers], [sample.is_right for sample in answers]
    bins = reliability(chances, right)
    return {
        "n": len(answers),
        "error": calibration_error(bins),
        "brier": brier_score(chances, right),
        "ranking": ranking(chances, right),
        "bins": [list(found) for found in bins],
        "deciles": [list(found) for found in deciles(chances, right)],
    }


def hits(n_hits: int, n: int) -> dict[str, Any]:
    """A share as results have it: `n`, `share`, and Wilson's 95% `interval`."""
    return {"n": n_hits, "share": _share(n_hits, n), "interval": _wilson(n_hits, n)}


def _share(n_hits: int, n: int) -> float | None:
    return n_hits / n if n else None


def _wilson(n_hits: int, n: int) -> list[float] | None:
    return list(wilson(n_hits, n)) if n else None
