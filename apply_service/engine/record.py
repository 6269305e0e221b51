"""Reads from a model's folder how to run the model, and how often its answers are right.

A calibration maps the target's own probability to the chance that an answer is right.  The calibration was fitted on
edits that the model was not trained on (`training.calibrate`), and is valid only for the weights whose hash it holds.
Without a calibration, an answer has the raw probability, and says so.  Nothing here decides or changes text.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import file_digest, sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from apply_service.errors import ModelNotLoadable
from apply_service.models import RECORD_FILE
from apply_service.types import Certainty

CALIBRATION_FILE = "calibration.json"
VERSION = 4
MAX_LOG_ODDS = 12.0
"""A float32 probability can't tell larger log-odds apart."""
FEATURES = ("log_odds", "agrees", "certain", "likely", "doubts", "clean")
MAX_DOUBTS = 4


Kind = Literal["certain", "likely", "guess", "instruction"]
"""The kind of an edit: a merge that no format determines, by how certain the merger is, or an instruction alone."""
KINDS: tuple[Kind, ...] = get_args(Kind)
NOT_CERTAIN: frozenset[Kind] = frozenset({"likely", "guess"})
"""The kinds that a target (the model that decides the text) may decide if it has no counts but was trained to merge."""
UNTRAINED: frozenset[Kind] = frozenset({"guess", "instruction"})
"""The kinds that any other target without counts may decide.  On all other kinds, the program is right more often."""


class Count(NamedTuple):
    """How often a target and the merger were right on `n` edits of one kind.  `decides`: whether the target may decide
    such edits.  `low` and `high`: the confidence interval of the share that `decides` was judged by."""

    n: int
    merge_right: int
    target_right: int
    low: float
    high: float
    decides: bool


class Thresholds(NamedTuple):
    """The minimum probabilities with which a target confirms a merge by scoring alone, without decoding it.

    Every decision in the merge must reach `confirm` if the merge is certain, and `choose` if it is not.
    """

    confirm: float = 0.01
    choose: float = 0.1


DEFAULT_THRESHOLDS = Thresholds()
"""For targets without a calibration."""


class Signals(NamedTuple):
    """The facts about an answer besides the target's probability.

    `agreement`: whether the answer's text is the predicted merge.  `certainty`: how certain the merger is.
    `n_reasons`: the number of the merger's reasons to doubt.  `is_clean`: whether the text passed all checks.
    """

    agreement: bool | None
    certainty: Certainty
    n_reasons: int
    is_clean: bool


def features(logprob: float, signals: Signals) -> dict[str, float]:
    """Return the values of the FEATURES by name.  `logprob`: the lowest log probability of any decision."""
    return {
        "log_odds": log_odds(logprob),
        "agrees": float(signals.agreement is True),
        "certain": float(signals.certainty is Certainty.CERTAIN),
        "likely": float(signals.certainty is Certainty.LIKELY),
        "doubts": float(min(signals.n_reasons, MAX_DOUBTS)),
        "clean": float(signals.is_clean),
    }


def log_odds(logprob: float) -> float:
    """Return log(p / (1 - p)) for p = exp(`logprob`), between -MAX_LOG_ODDS and MAX_LOG_ODDS."""
    chance_of_other = -math.expm1(min(logprob, 0.0))
    if chance_of_other <= 0.0:
        return MAX_LOG_ODDS
    return min(MAX_LOG_ODDS, max(-MAX_LOG_ODDS, logprob - math.log(chance_of_other)))


@dataclass(frozen=True, slots=True)
class ProbabilityMap:
    """Maps features to the chance that an answer is right.

    The score is the sum of `intercept` and the weighted features.  `points` are pairs (score, probability), both
    ascending.  Between these points the chance is interpolated; before the first and after the last it is constant.
    Without points, the score is the log-odds of the chance.  The chance never falls when the target's own probability
    rises.

    Raises ValueError if the chance would fall, or if the values are not the values of a map.
    """

    intercept: float
    weights: Mapping[str, float]
    points: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for is_right, what in (
            (self.weights.keys() <= set(FEATURES), f"unknown features {sorted(self.weights.keys() - set(FEATURES))}"),
            (all(map(math.isfinite, (self.intercept, *self.weights.values()))), "a weight is not finite"),
            (self.weights.get("log_odds", 0.0) >= 0, "confidence falls as the probability rises"),
            (all(math.isfinite(x) and 0 <= y <= 1 for x, y in self.points), "a point is no score and probability"),
            (all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(self.points)), "the points do not rise"),
        ):
            if not is_right:
                raise ValueError(what)

    def __call__(self, logprob: float, signals: Signals) -> float:
        values = features(logprob, signals)
        return self.chance(self.intercept + sum(weight * values[name] for name, weight in self.weights.items()))

    def chance(self, score: float) -> float:
        """Return the probability at a score."""
        if not self.points:
            return 1 / (1 + math.exp(-max(-700.0, score)))
        at = bisect_right(self.points, score, key=lambda point: point[0])
        if at in (0, len(self.points)):
            return self.points[min(at, len(self.points) - 1)][1]
        (low, below), (high, above) = self.points[at - 1], self.points[at]
        return below + (above - below) * (score - low) / (high - low)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ProbabilityMap:
        """Return the map with these values.  Raises KeyError, TypeError or ValueError if `values` does not describe a
        map."""
        if unknown := values.keys() - {"intercept", "weights", "points"}:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        points = tuple((float(score), float(chance)) for score, chance in values["points"])
        weights = {str(name): float(weight) for name, weight in values["weights"].items()}
        return cls(float(values["intercept"]), weights, points)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The maps of one model, for answers and for their hunks.  `threshold`: people should review answers with a lower
    chance than this.  `thresholds`: the probabilities that confirm a merge."""

    weights_sha256: str
    threshold: float
    answer: ProbabilityMap
    hunk: ProbabilityMap
    thresholds: Thresholds = DEFAULT_THRESHOLDS

    def of_answer(self, logprob: float, signals: Signals) -> float:
        """Return the chance that every byte of an answer is right.  `logprob`: the lowest log probability of its
        decisions."""
        return self.answer(logprob, signals)

    def of_hunk(self, logprob: float, signals: Signals, *, answer: float) -> float:
        """Return the chance that a hunk is right.  It is at least `answer`, the chance of the whole answer."""
        return max(answer, self.hunk(logprob, signals))

    @classmethod
    def read(cls, directory: Path) -> Calibration | None:
        """Return the calibration of the model in a folder; None if the folder has none.  Raises ModelNotLoadable if the
        file is unusable, or was made for other weights."""
        path = directory / CALIBRATION_FILE
        if not path.is_file():
            return None
        try:
            found = cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{CALIBRATION_FILE} can't be read: {error!r}"
            remedy = "remove the file, or make it anew: python -m training.calibrate"
            raise ModelNotLoadable(message, value=str(path), remedy=remedy) from error
        if found.weights_sha256 != (actual := hash_weights(directory)):
            message = f"{CALIBRATION_FILE} was made for other weights"
            remedy = "remove the file, or make it anew: python -m training.calibrate"
            raise ModelNotLoadable(message, value=found.weights_sha256, limit=actual, remedy=remedy)
        return found

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Calibration:
        """Return the calibration with these values.  Raises KeyError, TypeError, ValueError or AttributeError if
        `values` does not describe a calibration."""
        known = {"version", "weights_sha256", "threshold", "answer", "hunk", "thresholds"}
        limits = values["thresholds"]
        if values.keys() != known or limits.keys() != set(Thresholds._fields):
            raise ValueError(f"keys {sorted(values)}, {sorted(limits)}, not {sorted(known)}, {Thresholds._fields}")
        if values["version"] != VERSION:
            raise ValueError(f"version {values['version']} instead of {VERSION}")
        threshold, thresholds = float(values["threshold"]), Thresholds(**limits)
        if not all(0 <= chance <= 1 for chance in (threshold, thresholds.confirm, thresholds.choose)):
            raise ValueError("a threshold is no probability")
        answer, hunk = (ProbabilityMap.from_json(values[name]) for name in ("answer", "hunk"))
        return cls(str(values["weights_sha256"]), threshold, answer, hunk, thresholds)

    def as_json(self) -> dict[str, Any]:
        """Return the values that `from_json` reads."""
        return {"version": VERSION, **asdict(self), "thresholds": self.thresholds._asdict()}


def hash_weights(directory: Path) -> str:
    """Return the SHA-256 of the hashes of a folder's safetensors files, in the order of their names."""
    total = sha256()
    for path in sorted(directory.glob("*.safetensors")):
        with path.open("rb") as file:
            total.update(file_digest(file, "sha256").digest())
    return total.hexdigest()


# -- the record --------------------------------------------------------------------------------------------------------
WINDOWS = ("context", "always")


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The contents of `apply_service.json` and `calibration.json`.  A missing file means the defaults.
    `prompts.by_model` reads the key `prompt_format` of `apply_service.json`."""

    calibration: Calibration | None = None
    windows: str = "context"
    """When the model decides only the touched regions of a file (see `TargetInfo.windows`).  The settings overrule
    it."""
    counts: Mapping[str, Count] = field(default_factory=dict)
    """How often the model and the merger were right, by kind of edit.  A missing kind was not counted."""

    @classmethod
    def read(cls, directory: Path) -> ModelRecord:
        """Return the record in a folder.  Raises ModelNotLoadable if one of the files can't be used."""
        return replace(cls.read_without_calibration(directory), calibration=Calibration.read(directory))

    @classmethod
    def read_without_calibration(cls, directory: Path) -> ModelRecord:
        """Return the record in a folder without its calibration, so that no weights are hashed.  Raises
        ModelNotLoadable if the file can't be used."""
        path = directory / RECORD_FILE
        if not path.is_file():
            return cls()
        mend = "correct the file, or remove it"
        try:
            values = dict(json.loads(path.read_text(encoding="utf-8")))
            counts = read_counts(values.get("counts", {}))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ModelNotLoadable(f"{RECORD_FILE} can't be read: {error}", value=str(path), remedy=mend) from error
        if unknown := values.keys() - {"prompt_format", "windows", "counts"}:
            raise ModelNotLoadable(f"unknown key in {RECORD_FILE}", value=sorted(unknown), remedy="remove the key")
        if (windows := values.get("windows", "context")) not in WINDOWS:
            raise ModelNotLoadable(
                f"bad value for windows in {RECORD_FILE}", value=windows, limit=list(WINDOWS), remedy="use one of these"
            )
        return cls(None, windows, counts)

    def decides(self, *, was_trained: bool) -> frozenset[Kind]:
        """Return the kinds that the model may decide.  If a kind was not counted, `was_trained` (to merge) decides."""
        usual = NOT_CERTAIN if was_trained else UNTRAINED
        return frozenset(k for k in KINDS if (self.counts[k].decides if k in self.counts else k in usual))


def read_counts(values: Mapping[str, Any]) -> dict[str, Count]:
    """Return the counts in JSON values, by kind.  Raises ValueError, TypeError or AttributeError if `values` does not
    hold counts."""
    if unknown := values.keys() - set(KINDS):
        raise ValueError(f"unknown kinds {sorted(unknown)}")
    counts = {kind: Count(**count) for kind, count in values.items()}
    if not all(isinstance(count.decides, bool) for count in counts.values()):
        raise ValueError("`decides` is neither true nor false")
    return counts
