"""The predicted merge before the target, with the few other readings that the merger has: one scoring pass in the
place of decoding token by token.

A certain merge asks for confirmation alone; one that is not is a small lattice, of which the target takes the likeliest
path in each part of the file.  What it thinks too little of is left to be decided token by token, unless the target was
counted to be worse at that than the merger.  Works on edit jobs; a part is one of them: the whole file, or a window.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

from apply_service.calibration import Thresholds
from apply_service.deadline import Deadline
from apply_service.decider import Decided, Decider, confidence_of, sum_stats, unused_stats
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Step
from apply_service.edits.alternatives import MAX_ALTERNATIVES, find_alternatives
from apply_service.protocols import EditJob
from apply_service.types import ApplyRequest, Certainty, DecodeStats, Prediction, TokenEvent


class Weighed(NamedTuple):
    """What is taken of each part; None where the target is to decide token by token.  `spent`: the work on what is not
    taken.  `is_doubted`: the target thinks too little of it, and there is nobody better to ask."""

    taken: list[Decided] | None
    spent: DecodeStats
    is_doubted: bool = False


class Path(NamedTuple):
    """One reading of a part."""

    part: int
    prediction: Prediction


NOTHING = Weighed(None, DecodeStats())

Weighing = Generator[TokenEvent | NextPass, tuple[Step | None, ...] | None, Weighed]


def weigh(
    target: Decider,
    parts: Sequence[EditJob],
    request: ApplyRequest,
    thresholds: Thresholds,
    deadline: Deadline,
) -> Weighing:
    """Ask the target what it thinks of the merge of these parts, and of its alternatives where it is not certain.

    Raises:
        ContextLimitExceeded: a part is too long.  Cancelled, DeadlineExceeded: nobody waits for the answer any more.
    """
    others = [] if is_certain(parts) else _other_paths(parts)
    if thresholds.decides and is_guessed(parts):
        return NOTHING
    merges = [Path(i, part.prediction) for i, part in enumerate(parts)]
    scored = yield from _scored(target, parts, merges, request, deadline)
    if scored is None:
        return NOTHING
    if others and thresholds.margin is not None and not _is_unbeatable(scored):
        # One after the other, so that the prompts are read once and then found in the prefix cache.
        more = yield from _scored(target, parts, others, request, deadline)
        if more is None:
            return NOTHING
        merges, scored = [*merges, *others], [*scored, *more]
    best = [_likeliest(part, merges, scored, thresholds.margin or 0.0) for part in range(len(parts))]
    limit = thresholds.confirm if is_certain(parts) else thresholds.choose
    is_doubted = not _is_trusted([scored[at] for at in best], limit)
    if is_doubted:
        best = list(range(len(parts)))  # the merge itself
    taken = [scored[at] for at in best]
    if not _are_allowed(taken) or (is_doubted and thresholds.decides):
        return Weighed(None, sum_stats(unused_stats(one.stats) for one in scored))
    unused = (unused_stats(one.stats) for at, one in enumerate(scored) if at not in best)
    return Weighed(taken, sum_stats(unused), is_doubted)


def _scored(
    target: Decider,
    parts: Sequence[EditJob],
    paths: Sequence[Path],
    request: ApplyRequest,
    deadline: Deadline,
) -> Generator[TokenEvent | NextPass, tuple[Step | None, ...] | None, list[Decided] | None]:
    """None: the target has no opinion."""
    scoring = target.score([(parts[path.part], path.prediction) for path in paths], request, deadline)
    if scoring is None:
        return None
    scored = yield from scoring
    return None if scored is None or any(one.logprob is None for one in scored) else scored


def is_certain(parts: Sequence[EditJob]) -> bool:
    """Whether the merge has no other reading."""
    return all(part.prediction.certainty is Certainty.CERTAIN for part in parts)


def is_guessed(parts: Sequence[EditJob]) -> bool:
    """Whether the merge is no more than a draft."""
    return any(part.prediction.certainty is Certainty.GUESS for part in parts)


def _other_paths(parts: Sequence[EditJob]) -> list[Path]:
    """The alternatives of all parts, a few."""
    found = [
        Path(i, replace(part.prediction, ops=other.of(part.prediction.ops)))
        for i, part in enumerate(parts)
        for other in find_alternatives(part.prediction)
    ]
    return found[:MAX_ALTERNATIVES]


def _is_unbeatable(scored: Sequence[Decided]) -> bool:
    """Whether each of these texts has more than half of the probability, so that none can have as much."""
    return all((one.logprob or 0.0) > math.log(0.5) for one in scored)


def _likeliest(part: int, paths: Sequence[Path], scored: Sequence[Decided], margin: float) -> int:
    """The index of the part's best path; an alternative must be likelier than the merge by more than `margin`."""
    own = [at for at, path in enumerate(paths) if path.part == part]
    return max(own, key=lambda at: (scored[at].logprob or 0.0) - (margin if at != own[0] else 0.0))


def _are_allowed(taken: Sequence[Decided]) -> bool:
    """Whether the rules that hold the target (`constrain`) let it write these texts."""
    return all(one.logprob != -math.inf for one in taken)


def _is_trusted(taken: Sequence[Decided], limit: float) -> bool:
    """Whether no decision is less likely than `limit`; where nothing was to be decided there is nothing to distrust."""
    least = confidence_of(taken)
    return least is None or least >= limit
