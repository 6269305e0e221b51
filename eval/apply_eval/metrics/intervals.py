"""95% intervals by the bootstrap: samples drawn again with replacement, percentiles of the statistic.

B. Efron, "Bootstrap methods: another look at the jackknife" (1979), percentile method.  Where every sample agrees (a
share of 0 or 1) drawing again can't vary and would claim certainty, so shares there take Wilson's bound instead.
Deterministic: the seed is fixed by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

N_DRAWS = 2000
LEVEL = 0.95
_Z = 1.959964
_MAX_CELLS = 4_000_000
"""Drawn indices held at a time (32 MB)."""

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""[n_draws, n_samples] or [n_draws, n_samples, k] -> [n_draws]."""


class Interval(NamedTuple):
    low: float
    high: float


def mean_interval(values: Sequence[float], *, seed: int) -> Interval | None:
    """Of the mean; None below two samples."""
    return bootstrap(values, lambda drawn: drawn.mean(axis=1), seed=seed)


def share_interval(hits: Sequence[bool], *, seed: int) -> Interval | None:
    """Of the share of hits; None without samples."""
    n, n_hits = len(hits), sum(hits)
    if n and n_hits in (0, n):
        return wilson(n_hits, n)
    return mean_interval([float(hit) for hit in hits], seed=seed)


def quantile_interval(values: Sequence[float], q: float, *, seed: int) -> Interval | None:
    """Of the `q` quantile (0.5: the median); None below two samples."""
    return bootstrap(values, lambda drawn: np.quantile(drawn, q, axis=1), seed=seed)


def ratio_interval(pairs: Sequence[tuple[float, float]], *, seed: int) -> Interval | None:
    """Of sum(first) / sum(second), for instance accepted over drafted tokens; None below two samples, or where a draw
    could hold nothing but zeros below the line."""
    if any(below <= 0 for _, below in pairs):
        pairs = [pair for pair in pairs if pair[1] > 0]
    return bootstrap(pairs, lambda drawn: drawn[:, :, 0].sum(axis=1) / drawn[:, :, 1].sum(axis=1), seed=seed)


def bootstrap(
    samples: Sequence[float] | Sequence[tuple[float, float]], statistic: Statistic, *, seed: int
) -> Interval | None:
    """The interval of `statistic` over `samples`; None below two samples, which say nothing of their spread."""
    values = np.asarray(samples, dtype=np.float64)
    if len(values) < 2:
        return None
    rng = np.random.default_rng(seed)
    found: list[Floats] = []
    n_left = N_DRAWS
    while n_left:
        n_draws = min(n_left, max(1, _MAX_CELLS // len(values)))
        found.append(statistic(values[rng.integers(0, len(values), size=(n_draws, len(values)))]))
        n_left -= n_draws
    low, high = np.quantile(np.concatenate(found), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def wilson(n_hits: int, n: int) -> Interval:
    """E. B. Wilson's score interval of a share (1927)."""
    share = n_hits / n
    centre = share + _Z**2 / (2 * n)
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    scale = 1 + _Z**2 / n
    low = (centre - spread) / scale if n_hits else 0.0
    high = (centre + spread) / scale if n_hits < n else 1.0
    return Interval(low, high)
