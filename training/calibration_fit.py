"""From counted answers to a map of their confidence: logistic regression on a few signals, steps that rise.

Knows samples and probabilities, no text and no model.  All randomness is in the choice of folds, by a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.engine.record import FEATURES, ProbabilityMap, Signals, features

Floats = npt.NDArray[np.float64]

RIDGE = 1.0
"""Pull of each weight towards zero, in samples: keeps them finite where a signal parts right from wrong."""
NEWTON_STEPS = 50
MIN_STEP = 25
"""Samples that a step of an isotonic map stands on, at least."""
N_FOLDS = 5
SIGNALS = tuple(name for name in FEATURES if name != "log_odds")


class Counted(NamedTuple):
    """An answer, or a hunk: what it says of itself, and whether it is right.  `group`: samples of one group stand in
    one fold."""

    logprob: float
    signals: Signals
    is_right: bool
    group: str


Fit = Callable[[Sequence[Counted]], ProbabilityMap]


def fit_logistic(samples: Sequence[Counted], names: Sequence[str]) -> ProbabilityMap:
    """Regression on the named features.  The target's probability gets no negative weight: it is left out instead."""
    values = np.array([[features(s.logprob, s.signals)[name] for name in names] for s in samples], np.float64)
    weights = _regress(values.reshape(len(samples), len(names)), np.array([s.is_right for s in samples], np.float64))
    found = {name: round(float(weight), 4) for name, weight in zip(names, weights[1:], strict=True)}
    if found.get("log_odds", 0.0) < 0:
        return fit_logistic(samples, [name for name in names if name != "log_odds"])
    return ProbabilityMap(round(float(weights[0]), 4), found)


def _regress(values: Floats, right: Floats) -> Floats:
    """Weights, the intercept first; Newton's method on the penalised likelihood."""
    design = np.column_stack([np.ones(len(values)), values])
    penalty = np.diag([1e-6, *[RIDGE] * values.shape[1]])
    weights = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (right - chance) - penalty @ weights
        curvature = (design.T * (chance * (1 - chance))) @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(weights, np.float64)


def fit_steps(samples: Sequence[Counted], scored: ProbabilityMap) -> ProbabilityMap:
    """The scores of `scored`, and at each the share of samples that is right: isotonic regression (pool adjacent
    violators, Ayer et al. 1955) in steps of at least MIN_STEP samples, joined by lines."""
    plain = ProbabilityMap(scored.intercept, scored.weights)
    values = [features(sample.logprob, sample.signals) for sample in samples]
    scores = [plain.intercept + sum(w * found[name] for name, w in plain.weights.items()) for found in values]
    blocks: list[tuple[float, float, int]] = []  # sum of scores, right, samples
    for at in np.argsort(scores, kind="stable"):
        blocks.append((scores[at], float(samples[at].is_right), 1))
        while len(blocks) > 1 and _must_join(blocks[-2], blocks[-1]):
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    while len(blocks) > 1 and blocks[-1][2] < MIN_STEP:
        last, before = blocks.pop(), blocks.pop()
        blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    return ProbabilityMap(plain.intercept, plain.weights, _rising(blocks))


def _must_join(low: tuple[float, float, int], high: tuple[float, float, int]) -> bool:
    return low[2] < MIN_STEP or low[0] / low[2] >= high[0] / high[2] or low[1] / low[2] >= high[1] / high[2]


def _rising(blocks: Sequence[tuple[float, float, int]]) -> tuple[tuple[float, float], ...]:
    """Mean score and share of each block; half a sample on either side keeps shares off 0 and 1."""
    points: list[tuple[float, float]] = []
    for score, right, n in blocks:
        share = round((right + 0.5) / (n + 1), 4)
        points.append((round(score / n, 4), max(share, points[-1][1] if points else 0.0)))
    return tuple(point for i, point in enumerate(points) if i == 0 or point[0] > points[i - 1][0])


CANDIDATES: Mapping[str, Fit] = {
    "probability, logistic": lambda samples: fit_logistic(samples, ["log_odds"]),
    "probability, isotonic": lambda samples: fit_steps(samples, ProbabilityMap(0.0, {"log_odds": 1.0})),
    "signals, logistic": lambda samples: fit_logistic(samples, SIGNALS),
    "probability and signals, logistic": lambda samples: fit_logistic(samples, FEATURES),
    "probability and signals, isotonic": lambda samples: fit_steps(samples, fit_logistic(samples, FEATURES)),
}
"""Simplest first."""


def out_of_fold(samples: Sequence[Counted], fit: Fit) -> list[float]:
    """The confidence of each sample by a map that was fitted on the other folds."""
    folds = [hashlib.sha256(sample.group.encode()).digest()[0] % N_FOLDS for sample in samples]
    maps = [
        fit([s for s, own in zip(samples, folds, strict=True) if own != fold])
        if any(own != fold for own in folds)
        else ProbabilityMap(0.0, {})
        for fold in range(N_FOLDS)
    ]
    return [maps[fold](sample.logprob, sample.signals) for sample, fold in zip(samples, folds, strict=True)]
