"""Chooses the reading of an edit that is most likely right, by the numbers that `training.fit_chooser` fitted.

It knows names of features and numbers, but no text.  A first look scores each reading of an edit against all others.  A
second look compares the best two; its scores are the log-odds that each of the two is right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from apply_service.errors import ModelNotLoadable

MODEL_FILE = "chooser.json"
KEYS = {"version", "features", "first", "second", "elsewhere", "thresholds", "provenance"}
VERSION = 2
RIVALS = ":rivals"
"""`NAME:rivals` is how far a feature exceeds its mean over the other readings; 0 if there is no other reading."""
OTHER = ":other"
"""`NAME:other` is how far a feature exceeds its value in the other of the best two readings; 0 if there is only one."""
LOOK = ("first", "lead", "n_readings")
"""More inputs of the second look: the first look's score, how far it exceeds the other reading's score (the lead), and
the number of readings."""
UNSEEN, UNSEEN_CHANCE = "invisible", 0.8
"""The highest chance of a reading that keeps white space which differs from the snippet's, because nobody sees what was
meant."""
ALONE = 10.0
"""The lead of a reading that is the only one."""

Values = Mapping[str, float]
Tree = float | tuple[int, float, Any, Any]
"""A leaf's value, or (index of the input, limit, subtree if the input is at most the limit, subtree otherwise)."""


class Trees(NamedTuple):
    """A sum of log-odds: `start` plus one leaf's value from each tree."""

    inputs: tuple[str, ...]
    start: float
    trees: tuple[Tree, ...]

    def of(self, values: Values) -> float:
        x = [values[name] for name in self.inputs]
        total = self.start
        for node in self.trees:
            while isinstance(node, tuple):
                node = node[2] if x[node[0]] <= node[1] else node[3]
            total += node
        return total


class ChooserThresholds(NamedTuple):
    """From `apply` on, an answer is applied without review.  Below `refuse`, the chat dialects and MCP refuse it."""

    apply: float
    refuse: float


class Chooser(NamedTuple):
    """The fitted model.  `elsewhere`: how often one of the other readings is right, if the best one is wrong."""

    features: tuple[str, ...]
    first: Trees
    second: Trees
    elsewhere: float
    thresholds: ChooserThresholds

    def rank(self, readings: Sequence[Values]) -> list[float]:
        """Return the score of each reading of an edit, given by its features.

        The reading with the highest score is chosen; of equal ones, the first.  Its score is the log-odds that it is
        right.

        Raises:
            ValueError: the features are not those that the model was fitted to.
        """
        if any(reading.keys() != {*self.features} for reading in readings):
            raise ValueError("a reading has other features than the chooser was fitted to")
        scores = [self.first.of(values) for values in beside_rivals(readings)]
        return look_again(scores, {at: self.second.of(row) for at, row in best_two(readings, scores).items()})

    def probabilities(self, readings: Sequence[Values], scores: Sequence[float]) -> list[float]:
        """Return the chance that each reading is right.  No chance exceeds that of the best reading, and the sum is at
        most 1."""
        at = best(scores)
        chance = 0.5 * (1.0 + math.tanh(0.5 * scores[at]))
        if readings[at].get(UNSEEN, 0.0) > 0:
            chance = min(chance, UNSEEN_CHANCE)
        weights = [0.0 if i == at else math.exp(score - scores[at]) for i, score in enumerate(scores)]
        left = (1.0 - chance) * self.elsewhere / (math.fsum(weights) or 1.0)
        return [chance if i == at else min(chance, left * weight) for i, weight in enumerate(weights)]


def best(scores: Sequence[float]) -> int:
    """Return the index of the highest score; of equal ones, the first."""
    return max(range(len(scores)), key=lambda i: scores[i])


def beside_rivals(readings: Sequence[Values]) -> list[dict[str, float]]:
    """Return the features of each reading of an edit, and how far each exceeds its mean over the other readings."""
    n_others = len(readings) - 1
    sums = {name: math.fsum(reading[name] for reading in readings) for name in readings[0]}
    return [
        {**own, **{f"{name}{RIVALS}": x - (sums[name] - x) / n_others if n_others else 0.0 for name, x in own.items()}}
        for own in readings
    ]


def best_two(readings: Sequence[Values], scores: Sequence[float]) -> dict[int, dict[str, float]]:
    """Return the inputs of the second look for the best two readings, or for the only one, by index."""
    places = sorted(range(len(scores)), key=lambda i: -scores[i])[:2]
    beside = beside_rivals(readings)
    found = {}
    for at, other in zip(places, reversed(places), strict=True):
        lead = ALONE if at == other else scores[at] - scores[other]
        against = {f"{name}{OTHER}": x - readings[other][name] for name, x in readings[at].items()}
        look = dict(zip(LOOK, (scores[at], lead, float(len(scores))), strict=True))
        found[at] = beside[at] | against | look
    return found


def look_again(scores: Sequence[float], second: Mapping[int, float]) -> list[float]:
    """Return the second look's scores.  The scores of all other readings are lowered by a common amount, so that they
    stay below these."""
    down = min(second.values()) - min(scores[at] for at in second)
    return [second.get(at, score + down) for at, score in enumerate(scores)]


def parse(values: Mapping[str, Any]) -> Chooser:
    """Return the model that a JSON object holds.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: the object holds no model.
    """
    if values.keys() != KEYS or values["version"] != VERSION:
        raise ValueError(f"keys {sorted(values)} of version {values.get('version')} instead of {VERSION}")
    features = tuple(values["features"])
    known = {*features, *(f"{name}{RIVALS}" for name in features)}
    elsewhere = _number(values["elsewhere"])
    thresholds = ChooserThresholds(**{name: _number(x) for name, x in values["thresholds"].items()})
    if not all(0 <= chance <= 1 for chance in (elsewhere, *thresholds)):
        raise ValueError("a probability is not between 0 and 1")
    first = _trees(values["first"], known)
    second = _trees(values["second"], {*known, *(f"{name}{OTHER}" for name in features), *LOOK})
    return Chooser(features, first, second, elsewhere, thresholds)


def _trees(values: Mapping[str, Any], known: set[str]) -> Trees:
    inputs = tuple(values["inputs"])
    if not known.issuperset(inputs):
        raise ValueError(f"inputs {inputs} are not all known")
    return Trees(inputs, _number(values["start"]), tuple(_tree(tree, len(inputs)) for tree in values["trees"]))


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
    """Return the model that comes with the package, for readings with `features`; if it is None, the features are not
    checked.

    Raises:
        ModelNotLoadable: the model is missing or unusable, or was fitted to other features.
    """
    try:
        model = parse(json.loads((resources.files(__package__) / MODEL_FILE).read_text(encoding="utf-8")))
        if features is not None and (others := features.symmetric_difference(model.features)):
            raise ValueError(f"it and the merger differ in the features {sorted(others)}")
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        remedy = "install the package again; if you changed its features, run python -m training.fit_chooser"
        raise ModelNotLoadable(
            f"the data file with which the merger rates readings can't be used: {error}",
            value=MODEL_FILE,
            remedy=remedy,
        ) from error
    return model
