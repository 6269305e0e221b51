"""Fits the chooser: which reading is right, and how likely the best one is.  Needs scikit-learn (extra `train`).

A score is fitted to pairs of a right and a wrong reading of one edit (logistic regression on their differences; R. A.
Bradley and M. E. Terry 1952) or to single readings beside their rivals (gradient boosting).  The confidence is
the best reading's score (`score`), or a regression on what is known of that reading (`linear`).  It is calibrated on
scores of models that had not seen the edit.  Folds are by repository.  The results are `Sum`s: what is measured is what
is shipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from apply_service.edits.lazy.chooser import (
    EVIDENCE,
    RIVALS,
    Chooser,
    ChooserThresholds,
    Sum,
    Tree,
    Values,
    beside_rivals,
    best,
    evidence,
)
from training.chooser_data import Choice

Floats = npt.NDArray[np.float64]
Scores = list[list[float]]
"""Of each choice's readings; empty where it has none."""

PULL = 1.0
"""Of each weight of a regression towards zero, in samples."""
SHARE_OF_INPUTS = 0.3
"""Of the inputs, how many each split may choose from: trees that differ more."""
LEAST_CHANCE = 0.5
"""Samples that a calibration keeps off 0 and 1."""
TOLERANCE = 1e-9
N_COMPARED = 200
"""Samples on which an exported model is held against its original."""

FitSum = Callable[[Sequence[Choice], Sequence[str]], Sum]


class Recipe(NamedTuple):
    """How a chooser is fitted, by names in SCORES, CONFIDENCES and CALIBRATIONS."""

    score: str
    confidence: str
    calibration: str


# -- models ------------------------------------------------------------------------------------------------------------
def linear(
    rows: Sequence[Values],
    inputs: Sequence[str],
    targets: Sequence[bool],
    weights: Sequence[float],
) -> Sum:
    """Logistic regression on standardised inputs."""
    x = _matrix(rows, inputs)
    means, scales = x.mean(axis=0), _scales(x)
    model = LogisticRegression(C=1 / PULL, max_iter=2000).fit((x - means) / scales, targets, sample_weight=weights)
    return _unscaled(inputs, model.coef_[0], float(model.intercept_[0]), means, scales)


def boosted(
    rows: Sequence[Values],
    inputs: Sequence[str],
    targets: Sequence[bool],
    weights: Sequence[float],
) -> Sum:
    """Gradient boosting of small trees.  Raises ArithmeticError: the exported trees do not give scikit-learn's own
    values."""
    x = _matrix(rows, inputs)
    model = HistGradientBoostingClassifier(
        max_iter=300, max_leaf_nodes=16, learning_rate=0.05, min_samples_leaf=20, l2_regularization=PULL,
        max_features=SHARE_OF_INPUTS, early_stopping=False, random_state=0,
    ).fit(x, targets, sample_weight=weights)  # fmt: skip
    # scikit-learn has no public form of these trees: what is read here is held against its values at once.
    trees = tuple(_tree(round_of_one[0].nodes, 0) for round_of_one in model._predictors)
    found = Sum(tuple(inputs), float(model._baseline_prediction.item()), (0.0,) * len(inputs), trees)
    values = model.decision_function(x[:N_COMPARED])
    if max(abs(found.of(row) - value) for row, value in zip(rows, values, strict=False)) > TOLERANCE:
        raise ArithmeticError("the exported trees differ from the fitted ones")
    return found


def _tree(nodes: Any, at: int) -> Tree:
    node = nodes[at]
    if node["is_leaf"]:
        return float(node["value"])
    low, high = _tree(nodes, int(node["left"])), _tree(nodes, int(node["right"]))
    return int(node["feature_idx"]), float(node["num_threshold"]), low, high


def _matrix(rows: Sequence[Values], inputs: Sequence[str]) -> Floats:
    return np.array([[row[name] for name in inputs] for row in rows], np.float64).reshape(len(rows), len(inputs))


def _scales(x: Floats) -> Floats:
    spread: Floats = x.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _unscaled(inputs: Sequence[str], weights: Floats, start: float, means: Floats, scales: Floats) -> Sum:
    """The same sum on inputs as they are."""
    plain = weights / scales
    return Sum(tuple(inputs), start - float(plain @ means), tuple(float(w) for w in plain), ())


# -- scores ------------------------------------------------------------------------------------------------------------
def fit_pairs(choices: Sequence[Choice], names: Sequence[str]) -> Sum:
    """Weights under which right readings exceed wrong ones of the same edit; each edit counts once."""
    x = _matrix([reading for choice in choices for reading in choice.features], names)
    means, scales = x.mean(axis=0), _scales(x)
    differences: list[Floats] = []
    weights: list[float] = []
    for choice in choices:
        if len(set(choice.right)) < 2:  # nothing to tell apart
            continue
        own = (_matrix(choice.features, names) - means) / scales
        right = np.array(choice.right, bool)
        pairs = [good - bad for good in own[right] for bad in own[~right]]
        differences += pairs
        weights += [choice.weight / len(pairs)] * len(pairs)
    both = np.array([*differences, *(-pair for pair in differences)])
    targets = np.repeat([True, False], len(differences))
    model = LogisticRegression(C=1 / PULL, fit_intercept=False, max_iter=2000)
    model.fit(both, targets, sample_weight=np.tile(weights, 2) / 2)
    return _unscaled(names, model.coef_[0], 0.0, means, scales)


def fit_boosted(choices: Sequence[Choice], names: Sequence[str]) -> Sum:
    """Log-odds of single readings to be right, beside their rivals.  An edit with many readings counts more than one
    with few, but not as many times more as it has."""
    known = [choice for choice in choices if choice.features]
    rows = [row for choice in known for row in beside_rivals(choice.features)]
    targets = [is_right for choice in known for is_right in choice.right]
    weights = [choice.weight / math.sqrt(len(choice.right)) for choice in known for _ in choice.right]
    return boosted(rows, with_rivals(names), targets, weights)


def with_rivals(names: Sequence[str]) -> list[str]:
    return [*names, *(f"{name}{RIVALS}" for name in names)]


SCORES: Mapping[str, FitSum] = {"pairs": fit_pairs, "boosted": fit_boosted}
"""Simplest first, as below."""


def score_all(choices: Sequence[Choice], score: Sum) -> Scores:
    return [[score.of(row) for row in beside_rivals(choice.features)] if choice.features else [] for choice in choices]


def folds_of(choices: Sequence[Choice], n_folds: int) -> list[tuple[list[int], list[int]]]:
    """(places to fit on, places held out), whole repositories on one side.  Raises ValueError: there are not two
    repositories."""
    groups = [choice.repo for choice in choices]
    n = min(n_folds, len(set(groups)))
    split = GroupKFold(n).split(groups, groups=groups)
    return [(fitted.tolist(), held_out.tolist()) for fitted, held_out in split]


def scores_out_of_fold(choices: Sequence[Choice], names: Sequence[str], fit: FitSum, n_folds: int) -> Scores:
    """The scores of each edit's readings by a model that saw no edit of its repository."""
    found: Scores = [[] for _ in choices]
    for fitted, held_out in folds_of(choices, n_folds):
        scored = score_all([choices[i] for i in held_out], fit([choices[i] for i in fitted], names))
        for i, scores in zip(held_out, scored, strict=True):
            found[i] = scores
    return found


# -- confidence --------------------------------------------------------------------------------------------------------
class Sample(NamedTuple):
    """The best reading of an edit, by scores out of fold."""

    choice: Choice
    values: Values
    is_right: bool


FitConfidence = Callable[[Sequence[Sample], Sequence[str]], Sum]


def samples_of(choices: Sequence[Choice], scores: Scores) -> list[Sample]:
    """One for each edit that has a reading."""
    return [
        Sample(choice, evidence(choice.features, own), choice.right[best(own)])
        for choice, own in zip(choices, scores, strict=True)
        if own
    ]


CONFIDENCES: Mapping[str, FitConfidence] = {
    "score": lambda _samples, _names: Sum(("score",), 0.0, (1.0,), ()),  # nothing to fit
    "linear": lambda samples, names: linear(
        [s.values for s in samples], [*names, *EVIDENCE], [s.is_right for s in samples], _weights(samples)
    ),
}


def confidence_out_of_fold(
    samples: Sequence[Sample], names: Sequence[str], fit: FitConfidence, n_folds: int
) -> list[float]:
    """The log-odds of each sample by a model that saw none of its repository."""
    found = [0.0] * len(samples)
    for fitted, held_out in folds_of([sample.choice for sample in samples], n_folds):
        model = fit([samples[i] for i in fitted], names)
        for i in held_out:
            found[i] = model.of(samples[i].values)
    return found


# -- calibration -------------------------------------------------------------------------------------------------------
class Calibrated(NamedTuple):
    """A confidence and the points of its calibration, as a `Chooser` has them."""

    confidence: Sum
    points: tuple[tuple[float, ...], tuple[float, ...]]


def by_line(confidence: Sum, log_odds: Sequence[float], samples: Sequence[Sample]) -> Calibrated:
    """J. Platt's scaling (1999): a straight line in log-odds, folded into the confidence itself."""
    model = LogisticRegression(C=1e6, max_iter=2000)
    model.fit(np.reshape(log_odds, (-1, 1)), [s.is_right for s in samples], sample_weight=_weights(samples))
    slope, start = max(float(model.coef_[0, 0]), 1e-3), float(model.intercept_[0])
    weights = tuple(slope * weight for weight in confidence.weights)
    trees = tuple(_scaled(tree, slope) for tree in confidence.trees)
    return Calibrated(Sum(confidence.inputs, slope * confidence.start + start, weights, trees), ((), ()))


def _scaled(tree: Tree, slope: float) -> Tree:
    if not isinstance(tree, tuple):
        return slope * tree
    at, limit, low, high = tree
    return at, limit, _scaled(low, slope), _scaled(high, slope)


def by_steps(confidence: Sum, log_odds: Sequence[float], samples: Sequence[Sample]) -> Calibrated:
    """Isotonic regression, its steps joined by straight lines."""
    edge = LEAST_CHANCE / (len(samples) + 1)
    model = IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip")
    model.fit(log_odds, [float(s.is_right) for s in samples], sample_weight=_weights(samples))
    points = tuple(map(float, model.X_thresholds_)), tuple(map(float, model.y_thresholds_))
    return Calibrated(confidence, points)


def _weights(samples: Sequence[Sample]) -> list[float]:
    return [sample.choice.weight for sample in samples]


CALIBRATIONS: Mapping[str, Callable[[Sum, Sequence[float], Sequence[Sample]], Calibrated]] = {
    "line": by_line,
    "steps": by_steps,
}


# -- the whole ---------------------------------------------------------------------------------------------------------
def fit_choosers(
    choices: Sequence[Choice], names: Sequence[str], recipes: Sequence[Recipe], *, n_folds: int
) -> dict[Recipe, Chooser]:
    """A chooser by each recipe, fitted to all of `choices`; its thresholds are found elsewhere and stand at 1, 0.5."""
    found: dict[Recipe, Chooser] = {}
    for score in dict.fromkeys(recipe.score for recipe in recipes):
        samples = samples_of(choices, scores_out_of_fold(choices, names, SCORES[score], n_folds))
        elsewhere = _elsewhere(samples)
        model = SCORES[score](choices, names)
        for kind in dict.fromkeys(recipe.confidence for recipe in recipes if recipe.score == score):
            log_odds = confidence_out_of_fold(samples, names, CONFIDENCES[kind], n_folds)
            confidence = CONFIDENCES[kind](samples, names)
            for recipe in recipes:
                if (recipe.score, recipe.confidence) == (score, kind):
                    made = CALIBRATIONS[recipe.calibration](confidence, log_odds, samples)
                    thresholds = ChooserThresholds(1.0, 0.5)
                    found[recipe] = Chooser(tuple(names), model, made.confidence, made.points, elsewhere, thresholds)
    return found


def _elsewhere(samples: Sequence[Sample]) -> float:
    """Of the edits whose best reading is wrong, the share that another reading is right of."""
    wrong = [sample.choice for sample in samples if not sample.is_right]
    total = math.fsum(choice.weight for choice in wrong)
    return math.fsum(choice.weight for choice in wrong if any(choice.right)) / total if total else 0.0


class Outcome(NamedTuple):
    """What a chooser that saw no edit of its repository makes of an edit.  `place` is the place of the first right
    reading in the chooser's order, from 1 on; None where there is none.  No probability where there is no reading."""

    choice: Choice
    probability: float | None
    place: int | None

    @property
    def is_right(self) -> bool:
        return self.place == 1


def judge(choices: Sequence[Choice], chooser: Chooser, scores: Scores | None = None) -> list[Outcome]:
    """What the chooser makes of each edit.  `scores`: of its readings by other models, in place of the chooser's."""
    found: list[Outcome] = []
    for n, choice in enumerate(choices):
        if not choice.features:
            found.append(Outcome(choice, None, None))
            continue
        own = chooser.rank(choice.features) if scores is None else scores[n]
        order = sorted(range(len(own)), key=lambda i: -own[i])
        place = next((at for at, i in enumerate(order, 1) if choice.right[i]), None)
        found.append(Outcome(choice, chooser.probability(choice.features, own), place))
    return found


def cross_validate(
    choices: Sequence[Choice], names: Sequence[str], recipes: Sequence[Recipe], *, n_folds: int
) -> dict[Recipe, list[Outcome]]:
    """The outcomes of each recipe in the order of `choices`: for each fold the whole recipe, its inner folds and its
    calibration included, is fitted to the other folds alone."""
    outcomes: dict[Recipe, dict[int, Outcome]] = {recipe: {} for recipe in recipes}
    for fitted, held_out in folds_of(choices, n_folds):
        made = fit_choosers([choices[i] for i in fitted], names, recipes, n_folds=n_folds - 1)
        for recipe, chooser in made.items():
            judged = judge([choices[i] for i in held_out], chooser)
            outcomes[recipe] |= dict(zip(held_out, judged, strict=True))
    return {recipe: [found[i] for i in range(len(choices))] for recipe, found in outcomes.items()}
