"""Which reading of an edit is right, and how likely: evaluates the numbers that `training.fit_chooser` fitted.

Knows names and numbers, no text.  A score orders the readings of one edit; what is known of the best one (`evidence`)
gives log-odds that it is right, and a calibration turns these into a probability.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from apply_service.errors import ModelNotLoadable

MODEL_FILE = "chooser.json"
KEYS = {"version", "features", "score", "confidence", "calibration", "elsewhere", "thresholds", "provenance"}
VERSION = 1
RIVALS = ":rivals"
"""`NAME:rivals` is how far a reading's feature exceeds its mean over the other readings; 0 where there is no other."""
EVIDENCE = ("score", "margin", "n_readings")
"""Known of the best reading beside its features: its score, by how much it exceeds the second, how many there are."""
UNSEEN, UNSEEN_CHANCE = "invisible", 0.8
"""A reading that keeps white space which the snippet shows otherwise is never sure: nobody can see what was meant."""
ALONE = 10.0
"""The greatest margin, and that of a reading without another."""

Values = Mapping[str, float]
Tree = float | tuple[int, float, Any, Any]
"""A leaf's value; or (place of the input, limit, the tree where it is at most the limit, the tree where it is more)."""


class Sum(NamedTuple):
    """Adds up to a score or log-odds: `start`, each input times its weight, and the leaf that each tree ends in."""

    inputs: tuple[str, ...]
    start: float
    weights: tuple[float, ...]
    trees: tuple[Tree, ...]

    def of(self, values: Values) -> float:
        x = [values[name] for name in self.inputs]
        total = self.start + sum(weight * value for weight, value in zip(self.weights, x, strict=True))
        for node in self.trees:
            while isinstance(node, tuple):
                node = node[2] if x[node[0]] <= node[1] else node[3]
            total += node
        return total


class ChooserThresholds(NamedTuple):
    """From `apply` on an answer is applied unseen; below `refuse` the chat dialects and MCP refuse it."""

    apply: float
    refuse: float


class Chooser(NamedTuple):
    """The fitted model.  `calibration` is (log-odds, probabilities), both rising, joined by straight lines; empty where
    the log-odds are calibrated as they are.  Of the edits whose best reading is wrong, `elsewhere` is the share that
    another reading is right of."""

    features: tuple[str, ...]
    score: Sum
    confidence: Sum
    calibration: tuple[tuple[float, ...], tuple[float, ...]]
    elsewhere: float
    thresholds: ChooserThresholds

    def rank(self, readings: Sequence[Values]) -> list[float]:
        """The score of each reading of an edit, given by its features: the highest is chosen, the first of equals.

        Raises:
            ValueError: the features are others than the fitted ones.
        """
        if any(reading.keys() != {*self.features} for reading in readings):
            raise ValueError("a reading has other features than the chooser was fitted to")
        return [self.score.of(values) for values in beside_rivals(readings)]

    def probability(self, readings: Sequence[Values], scores: Sequence[float]) -> float:
        """The chance that the reading with the highest of `scores` is right."""
        log_odds = self.confidence.of(evidence(readings, scores))
        chance = float(np.interp(log_odds, *self.calibration)) if self.calibration[0] else logistic(log_odds)
        return min(chance, UNSEEN_CHANCE) if readings[best(scores)].get(UNSEEN, 0.0) > 0 else chance

    def probabilities(self, readings: Sequence[Values], scores: Sequence[float]) -> list[float]:
        """The chance of each reading to be right: the best one's is `probability`, no other's exceeds it, and all
        together do not exceed 1."""
        at, chance = best(scores), self.probability(readings, scores)
        weights = [0.0 if i == at else math.exp(score - scores[at]) for i, score in enumerate(scores)]
        left = (1.0 - chance) * self.elsewhere / (math.fsum(weights) or 1.0)
        return [chance if i == at else min(chance, left * weight) for i, weight in enumerate(weights)]


def logistic(log_odds: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * log_odds))


def best(scores: Sequence[float]) -> int:
    """The place of the highest score, the first of equals."""
    return max(range(len(scores)), key=lambda i: scores[i])


def beside_rivals(readings: Sequence[Values]) -> list[dict[str, float]]:
    """The features of each reading of an edit, and each of them beside its rivals'."""
    n_others = len(readings) - 1
    sums = {name: math.fsum(reading[name] for reading in readings) for name in readings[0]}
    return [
        {**own, **{f"{name}{RIVALS}": x - (sums[name] - x) / n_others if n_others else 0.0 for name, x in own.items()}}
        for own in readings
    ]


def evidence(readings: Sequence[Values], scores: Sequence[float]) -> dict[str, float]:
    """What is known of the best reading of an edit: its features, those beside its rivals', and EVIDENCE."""
    at = best(scores)
    margin = min((scores[at] - score for i, score in enumerate(scores) if i != at), default=ALONE)
    known = {"score": scores[at], "margin": min(margin, ALONE), "n_readings": float(len(scores))}
    return beside_rivals(readings)[at] | known


def parse(values: Mapping[str, Any]) -> Chooser:
    """The model of a JSON object.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is none.
    """
    if values.keys() != KEYS or values["version"] != VERSION:
        raise ValueError(f"keys {sorted(values)} of version {values.get('version')} instead of {VERSION}")
    features = tuple(values["features"])
    known = {*features, *(f"{name}{RIVALS}" for name in features)}
    log_odds, chances = (tuple(_number(x) for x in row) for row in values["calibration"])
    elsewhere = _number(values["elsewhere"])
    thresholds = ChooserThresholds(**{name: _number(x) for name, x in values["thresholds"].items()})
    if len(log_odds) != len(chances) or (*log_odds, *chances) != (*sorted(log_odds), *sorted(chances)):
        raise ValueError("the calibration does not rise")
    if not all(0 <= chance <= 1 for chance in (*chances, elsewhere, *thresholds)):
        raise ValueError("a probability is not between 0 and 1")
    score, confidence = _sum(values["score"], known), _sum(values["confidence"], known | {*EVIDENCE})
    return Chooser(features, score, confidence, (log_odds, chances), elsewhere, thresholds)


def _sum(values: Mapping[str, Any], known: set[str]) -> Sum:
    inputs = tuple(values["inputs"])
    if not known.issuperset(inputs) or len(inputs) != len(values["weights"]):
        raise ValueError(f"inputs {inputs} are not all features, or not as many as weights")
    weights = tuple(_number(weight) for weight in values["weights"])
    return Sum(inputs, _number(values["start"]), weights, tuple(_tree(tree, len(inputs)) for tree in values["trees"]))


def _tree(node: Any, n_inputs: int) -> Tree:
    if not isinstance(node, list):
        return _number(node)
    at, limit, low, high = node
    if at not in range(n_inputs):
        raise ValueError(f"a tree asks for input {at} of {n_inputs}")
    return int(at), _number(limit), _tree(low, n_inputs), _tree(high, n_inputs)


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    return float(value)


@cache
def load(features: frozenset[str] | None = None) -> Chooser:
    """The model that comes with the package, for readings with `features`; None leaves them unchecked.

    Raises:
        ModelNotLoadable: it is missing or unusable, or was fitted to other features.
    """
    try:
        model = parse(json.loads((resources.files(__package__) / MODEL_FILE).read_text(encoding="utf-8")))
        if features is not None and (others := features.symmetric_difference(model.features)):
            raise ValueError(f"it and the merger differ in the features {sorted(others)}")
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        remedy = "install the package again; after a change of features, run python -m training.fit_chooser"
        raise ModelNotLoadable(f"the chooser can't be used: {error}", value=MODEL_FILE, remedy=remedy) from error
    return model
