"""Fits the chooser: which reading is right, and how likely the best one is.  Needs scikit-learn (extra `train`).

Gradient boosting of small trees, twice: a first look at every reading beside its rivals, and a second at the best two.
The second learns from first looks that had not seen the edit.  Folds are by repository.  The results are `Trees`: what
is measured is what is shipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from apply_service.merge.rank.chooser import (
    LOOK,
    OTHER,
    RIVALS,
    Chooser,
    ChooserThresholds,
    Tree,
    Trees,
    Values,
    beside_rivals,
    best,
    best_two,
    look_again,
)
from training.chooser_data import Choice

Scores = list[list[float]]
"""Of each choice's readings; empty where it has none."""

FIRST = {"max_iter": 300, "max_leaf_nodes": 16}
SECOND = {"max_iter": 200, "max_leaf_nodes": 8}
"""Trees, and leaves of each: the second look has a tenth of the readings."""
PULL = 1.0
"""Of each leaf towards zero, in samples."""
SHARE_OF_INPUTS = 0.3
"""Of the inputs, how many each split may choose from: trees that differ more."""
TOLERANCE = 1e-9
N_COMPARED = 200
"""Samples on which exported trees are held against their original."""


class Outcome(NamedTuple):
    """What a chooser that saw no edit of its repository makes of an edit.  `place` is the place of the first right
    reading in the chooser's order, from 1 on; None where there is none.  No probability where there is no reading.
    `is_slight`: the chosen reading is wrong in blanks and comments alone."""

    choice: Choice
    probability: float | None
    place: int | None
    is_slight: bool = False

    @property
    def is_right(self) -> bool:
        return self.place == 1


def fit_chooser(
    choices: Sequence[Choice], names: Sequence[str], n_folds: int, n_processes: int = 1
) -> tuple[Chooser, list[Outcome]]:
    """The chooser fitted to all of `choices`, with thresholds of 1 and 0.5, and what it makes of each of them out of
    fold.

    Two numbers, the line that calibrates, are fitted to all outcomes.  The second look of a fold learns from scores of
    first looks of which most had seen the edits that are held out from it.  `n_processes` fit folds beside each other;
    they change nothing else.
    """
    folds = folds_of(choices, n_folds)
    first, looks = _in_processes(partial(_first_looks, choices, names), folds, n_processes)
    scores: Scores = [looks.get(i, []) for i in range(len(choices))]
    second, looks = _in_processes(partial(_second_looks, choices, names, scores), folds, n_processes)
    again: Scores = [looks.get(i, []) for i in range(len(choices))]
    slope, start = calibration_of(choices, again)
    again = [[slope * score + start for score in own] for own in again]
    wrong = [(choice, own) for choice, own in zip(choices, again, strict=True) if own and not choice.right[best(own)]]
    total = math.fsum(choice.weight for choice, _ in wrong)
    elsewhere = math.fsum(choice.weight for choice, _ in wrong if any(choice.right)) / total if total else 0.0
    thresholds = ChooserThresholds(1.0, 0.5)
    chooser = Chooser(tuple(names), first, scaled(second, slope, start), elsewhere, thresholds)
    return chooser, [judge(choice, chooser, own) for choice, own in zip(choices, again, strict=True)]


Fold = tuple[list[int], list[int]]
"""The places to fit on, and those that are held out."""
Look = Callable[[Fold], tuple[Trees, dict[int, list[float]]]]


def _in_processes(look: Look, folds: Sequence[Fold], n_processes: int) -> tuple[Trees, dict[int, list[float]]]:
    """The trees fitted to all edits, and the scores of all edits that had readings, each out of fold."""
    everything = sorted(i for _, held_out in folds for i in held_out)
    jobs: list[Fold] = [(everything, []), *folds]
    if n_processes == 1:
        found = [look(fold) for fold in jobs]
    else:
        with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(look, jobs))
    return found[0][0], {i: own for _, scores in found[1:] for i, own in scores.items()}


def _first_looks(choices: Sequence[Choice], names: Sequence[str], fold: Fold) -> tuple[Trees, dict[int, list[float]]]:
    fitted, held_out = fold
    first = fit_first([choices[i] for i in fitted], names)
    known = (i for i in held_out if choices[i].features)
    return first, {i: [first.of(row) for row in beside_rivals(choices[i].features)] for i in known}


def _second_looks(
    choices: Sequence[Choice], names: Sequence[str], scores: Scores, fold: Fold
) -> tuple[Trees, dict[int, list[float]]]:
    fitted, held_out = fold
    second = fit_second([choices[i] for i in fitted], [scores[i] for i in fitted], names)
    found = {}
    for i in (i for i in held_out if scores[i]):
        looks = best_two(choices[i].features, scores[i])
        found[i] = look_again(scores[i], {at: second.of(row) for at, row in looks.items()})
    return second, found


def judge(choice: Choice, chooser: Chooser, scores: Sequence[float]) -> Outcome:
    """What these scores of an edit's readings make of it."""
    if not scores:
        return Outcome(choice, None, None)
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    place = next((at for at, i in enumerate(order, 1) if choice.right[i]), None)
    probability = chooser.probabilities(choice.features, scores)[order[0]]
    is_slight = bool(choice.slight) and choice.slight[order[0]]
    return Outcome(choice, min(probability, choice.limits[order[0]]), place, is_slight)


def folds_of(choices: Sequence[Choice], n_folds: int) -> list[Fold]:
    """The folds, whole repositories on one side of each.  Raises ValueError: there are not two
    repositories."""
    groups = [choice.repo for choice in choices]
    n = min(n_folds, len(set(groups)))
    split = GroupKFold(n).split(groups, groups=groups)
    return [(fitted.tolist(), held_out.tolist()) for fitted, held_out in split]


# -- the two looks -----------------------------------------------------------------------------------------------------
def fit_first(choices: Sequence[Choice], names: Sequence[str]) -> Trees:
    """Log-odds of single readings to be right, beside their rivals.  An edit with many readings counts more than one
    with few, but not as many times more as it has."""
    known = [choice for choice in choices if choice.features]
    rows = [row for choice in known for row in beside_rivals(choice.features)]
    targets = [is_right for choice in known for is_right in choice.right]
    weights = [choice.weight / math.sqrt(len(choice.right)) for choice in known for _ in choice.right]
    return boosted(rows, [*names, *(f"{name}{RIVALS}" for name in names)], targets, weights, FIRST)


def fit_second(choices: Sequence[Choice], scores: Scores, names: Sequence[str]) -> Trees:
    """The same of the best two readings by `scores`, each beside the other."""
    rows, targets, weights = list[Values](), list[bool](), list[float]()
    for choice, own in zip(choices, scores, strict=True):
        looks = best_two(choice.features, own) if own else {}
        rows += looks.values()
        targets += [choice.right[at] for at in looks]
        weights += [choice.weight / math.sqrt(len(looks)) for _ in looks]
    inputs = [*names, *(f"{name}{RIVALS}" for name in names), *(f"{name}{OTHER}" for name in names), *LOOK]
    return boosted(rows, inputs, targets, weights, SECOND)


def boosted(
    rows: Sequence[Values],
    inputs: Sequence[str],
    targets: Sequence[bool],
    weights: Sequence[float],
    size: Mapping[str, int],
) -> Trees:
    """Gradient boosting of small trees.  Raises ArithmeticError: the exported trees do not give scikit-learn's own
    values."""
    x = np.array([[row[name] for name in inputs] for row in rows], np.float64)
    model = HistGradientBoostingClassifier(
        learning_rate=0.05, min_samples_leaf=20, l2_regularization=PULL, max_features=SHARE_OF_INPUTS,
        early_stopping=False, random_state=0, **size,
    ).fit(x, targets, sample_weight=weights)  # fmt: skip
    # scikit-learn has no public form of these trees: what is read here is held against its values at once.
    trees = tuple(_tree(round_of_one[0].nodes, 0) for round_of_one in model._predictors)
    found = Trees(tuple(inputs), float(model._baseline_prediction.item()), trees)
    values = model.decision_function(x[:N_COMPARED])
    if max(abs(found.of(row) - value) for row, value in zip(rows, values, strict=False)) > TOLERANCE:
        raise ArithmeticError("the exported trees differ from the fitted ones")
    return found


def _tree(nodes: npt.NDArray[Any], at: int) -> Tree:
    node = nodes[at]
    if node["is_leaf"]:
        return float(node["value"])
    low, high = _tree(nodes, int(node["left"])), _tree(nodes, int(node["right"]))
    return int(node["feature_idx"]), float(node["num_threshold"]), low, high


# -- calibration -------------------------------------------------------------------------------------------------------
def calibration_of(choices: Sequence[Choice], scores: Scores) -> tuple[float, float]:
    """Slope and start of the straight line that makes log-odds of the best scores (J. Platt, 1999)."""
    known = [(choice, own, best(own)) for choice, own in zip(choices, scores, strict=True) if own]
    model = LogisticRegression(C=1e6, max_iter=2000).fit(
        [[own[at]] for _, own, at in known],
        [choice.right[at] for choice, _, at in known],
        sample_weight=[choice.weight for choice, _, _ in known],
    )
    return max(float(model.coef_[0, 0]), 1e-3), float(model.intercept_[0])


def scaled(trees: Trees, slope: float, start: float) -> Trees:
    """Trees whose sum is `slope` times as much, and `start` more."""

    def of(tree: Tree) -> Tree:
        return (tree[0], tree[1], of(tree[2]), of(tree[3])) if isinstance(tree, tuple) else slope * tree

    return Trees(trees.inputs, slope * trees.start + start, tuple(map(of, trees.trees)))
