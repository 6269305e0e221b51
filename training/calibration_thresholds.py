"""What a merge must reach to be taken as the target scored it: thresholds counted on answers that were all taken.

A certain merge is hardly ever wrong and a small target's doubts of it mostly are, so the rule is the dearest that costs
nearly nothing: the threshold that lets pass all but SPARED of the right ones.  Which edits the target may decide at all
is counted too, by kind: on merges that it doubts most, and on guesses, against what it wrote in their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from apply_eval.decides import Pair, count_kinds
from apply_eval.statistics import sparing_threshold
from apply_service.engine.record import Count, Kind, Thresholds
from apply_service.types import Certainty
from training.calibration_rows import AnswerRow

SPARED = 0.01
"""The share of right merges that may fail."""
CERTAINTIES = {"confirm": Certainty.CERTAIN, "choose": Certainty.LIKELY}
DOUBT = 0.5
"""A merge with a decision less probable than this is one that the target itself would have written otherwise."""


def doubted(rows: Sequence[AnswerRow]) -> list[AnswerRow]:
    """The merges taken as scored that the target would have written otherwise."""
    mine = [row for certainty in CERTAINTIES.values() for row in _of(rows, certainty)]
    return [row for row in mine if row.logprob is not None and math.exp(row.logprob) < DOUBT]


def compare(rows: Sequence[AnswerRow], decided: Sequence[AnswerRow]) -> dict[str, int]:
    """Merges taken as scored beside what the target wrote for the same edits (`decided`): which of both is right."""
    by_id = {row.id: row for row in decided}
    pairs = [(row.is_right, by_id[row.id].is_right) for row in rows if row.id in by_id]
    return {
        "n": len(pairs),
        "both_right": pairs.count((True, True)),
        "merge_right": pairs.count((True, False)),
        "target_right": pairs.count((False, True)),
        "both_wrong": pairs.count((False, False)),
    }


def kinds(rows: Sequence[AnswerRow], decided: Sequence[AnswerRow]) -> dict[Kind, Count]:
    """What the target may decide.  Where it does not doubt a merge it would write the same; where it does, `decided`
    has what it wrote."""
    by_id = {row.id: row for row in decided}
    return count_kinds(
        Pair(Certainty(row.certainty).value, row.is_merge_right, by_id.get(row.id, row).is_right)
        for row in rows
        if row.certainty is not None and row.logprob is not None
    )


def pick_thresholds(rows: Sequence[AnswerRow]) -> Thresholds:
    """From answers given with thresholds of 0; a threshold is 0 where there are too few right ones to spare any."""
    found = {}
    for name, certainty in CERTAINTIES.items():
        right = [row for row in _of(rows, certainty) if row.is_right]
        chances = [math.exp(row.logprob) for row in right if row.logprob is not None]
        found[name] = sparing_threshold(chances, SPARED)
    return Thresholds(**found)


def _of(rows: Sequence[AnswerRow], certainty: Certainty) -> list[AnswerRow]:
    """The merges of this certainty that were taken as scored."""
    return [
        row
        for row in rows
        if row.strategy == "confirmed" and row.certainty == certainty.value and row.logprob is not None
    ]


def effects(rows: Sequence[AnswerRow], thresholds: Thresholds) -> dict[str, Any]:
    """For each threshold: how many right and wrong merges of these rows reach it."""
    found = {}
    for name, certainty in CERTAINTIES.items():
        mine, limit = _of(rows, certainty), getattr(thresholds, name)
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
