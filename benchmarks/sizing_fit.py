"""What edits at a real engine took -> what a row costs there -> what the simulation predicts for others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

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


def fit(alone: Sequence[Asked]) -> tuple[float, float]:
    """Seconds of a row, and of an edit beside its rows, by least squares over edits made alone; none below 0."""
    counts = np.array([[one.n_rows, 1.0] for one in alone])
    seconds = np.array([one.seconds for one in alone])
    row_s, beside_s = np.linalg.lstsq(counts, seconds, rcond=None)[0]
    if beside_s < 0:
        return float(seconds.sum() / counts[:, 0].sum()), 0.0
    if row_s < 0:
        return 0.0, float(seconds.mean())
    return float(row_s), float(beside_s)


def predict(asked: Sequence[Asked], row_s: float, beside_s: float) -> list[float]:
    """Seconds of each edit, by the simulation, from its arrival and its tokens; what the prefix cache held of it is
    taken as known."""
    cost = Cost(lambda n_rows: max(MIN_PASS_S, row_s * n_rows), MAX_ROWS)
    jobs = [
        Job(one.at_s, i, one.prompt_tokens - one.cached_tokens, one.output_tokens, one.rejections, beside_s)
        for i, one in enumerate(asked)
    ]
    return [one.seconds for one in Fleet(cost, Scaling(1, 1)).run(jobs)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles by nearest rank."""
    ordered = sorted(values)
    ranks = {f"p{p}": round(ordered[-(-len(ordered) * p // 100) - 1], 4) for p in PERCENTILES}
    return {"mean": round(statistics.fmean(ordered), 4), **ranks}
