"""What a merge must reach to be taken as the target scored it: thresholds counted on answers that were all taken.

A certain merge is hardly ever wrong and a small target's doubts of it mostly are, so the rule is the dearest that costs
nearly nothing: the threshold that lets pass all but SPARED of the right ones.  What lies below is decided token by
token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from apply_service.calibration import Thresholds
from training.calibration_rows import AnswerRow

SPARED = 0.01
"""The share of right merges that may fail."""
STRATEGIES = {"confirm": ("confirmed",), "choose": ("lattice", "windowed")}


def pick_thresholds(rows: Sequence[AnswerRow]) -> Thresholds:
    """From answers given with thresholds of 0; 0 where there are too few right ones to spare any.  No margin: between
    the merge and a right alternative a model of this kind chooses at chance (docs/log.md)."""
    return Thresholds(**{name: _pick(_of(rows, strategies)) for name, strategies in STRATEGIES.items()}, margin=None)


def _of(rows: Sequence[AnswerRow], strategies: Sequence[str]) -> list[AnswerRow]:
    return [row for row in rows if row.strategy in strategies and row.logprob is not None]


def _pick(rows: Sequence[AnswerRow]) -> float:
    least = sorted(math.exp(row.logprob) for row in rows if row.is_right and row.logprob is not None)
    at = int(len(least) * SPARED)
    return _rounded_down(least[at]) if at else 0.0


def _rounded_down(chance: float) -> float:
    """To two digits."""
    if chance <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(chance)) - 1)
    return float(f"{math.floor(chance / unit) * unit:.2g}")


def effects(rows: Sequence[AnswerRow], thresholds: Thresholds) -> dict[str, Any]:
    """For each threshold: how many right and wrong merges of these rows reach it."""
    found = {}
    for name, strategies in STRATEGIES.items():
        mine, limit = _of(rows, strategies), getattr(thresholds, name)
        reach = [row for row in mine if row.logprob is not None and math.exp(row.logprob) >= limit]
        n_right, n_reach_right = sum(row.is_right for row in mine), sum(row.is_right for row in reach)
        found[name] = {
            "value": limit,
            "n_right": n_right,
            "n_right_reach": n_reach_right,
            "n_wrong": len(mine) - n_right,
            "n_wrong_reach": len(reach) - n_reach_right,
        }
    return found
