"""What edits at a real engine took -> what a row and the keys it sees cost there -> what the simulation predicts for
others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from benchmarks.load_report import PERCENTILES
from benchmarks.sizing_simulation import Cost, Fleet, Job, Scaling

MAX_ROWS = 256
MIN_PASS_S = 1e-4


@dataclass(frozen=True, slots=True)
class Asked:
    """One edit and what its answer says of it; `at_s` since the run began."""

    at_s: float
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    rejections: int
    n_rows: int
    """Of its passes: tokens read and verified."""
    n_windows: int = 1
    """Parts of the file that were decided apart, each with a prompt of its own."""

    @property
    def row_keys(self) -> float:
        """Keys that its rows see, all together, with its tokens shared evenly among the windows."""
        n_tokens = self.prompt_tokens + self.output_tokens
        return (n_tokens**2 - self.cached_tokens**2) / (2 * self.n_windows)


class Fit(NamedTuple):
    """Seconds of a row, of a key that a row sees, and of an edit beside these."""

    row_s: float
    key_s: float
    edit_s: float

    def row_cost(self, one: Asked) -> float:
        """Seconds of a mean row of this edit."""
        return self.row_s + self.key_s * one.row_keys / max(1, one.n_rows)

    def alone_s(self, one: Asked) -> float:
        """What the edit takes with the engine to itself."""
        return self.edit_s + self.row_cost(one) * one.n_rows


def fit(alone: Sequence[Asked]) -> Fit:
    """By least squares over edits made alone, none of the costs below 0: of all ways to leave some of them out, the
    best that has none."""
    counts = np.array([[one.n_rows, one.row_keys, 1.0] for one in alone])
    seconds = np.array([one.seconds for one in alone])
    found: list[tuple[float, Fit]] = []
    for n_costs in (3, 2, 1):
        for columns in combinations(range(3), n_costs):
            costs = np.zeros(3)
            costs[list(columns)] = np.linalg.lstsq(counts[:, columns], seconds, rcond=None)[0]
            if (costs >= 0).all():
                found.append((float(((counts @ costs - seconds) ** 2).sum()), Fit(*map(float, costs))))
    return min(found)[1]


def predict(asked: Sequence[Asked], costs: Fit) -> list[float]:
    """Seconds of each edit, by the simulation, from its arrival and its tokens; what the prefix cache held of it is
    taken as known."""
    cost = Cost(lambda seconds: max(MIN_PASS_S, seconds), MAX_ROWS)
    jobs = [
        Job(
            one.at_s,
            i,
            one.prompt_tokens - one.cached_tokens,
            one.output_tokens,
            one.rejections,
            costs.edit_s,
            costs.row_cost(one),
        )
        for i, one in enumerate(asked)
    ]
    return [one.seconds for one in Fleet(cost, Scaling(1, 1)).run(jobs)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles by nearest rank."""
    ordered = sorted(values)
    ranks = {f"p{p}": round(ordered[-(-len(ordered) * p // 100) - 1], 4) for p in PERCENTILES}
    return {"mean": round(statistics.fmean(ordered), 4), **ranks}
