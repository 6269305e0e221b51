"""What an answer costs: speed beside a baseline, percentiles, throughput, money.  Every function is pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np


def median(values: Sequence[float]) -> float | None:
    """None without values."""
    return statistics.median(values) if values else None


def mean(values: Sequence[float]) -> float | None:
    """None without values."""
    return statistics.fmean(values) if values else None


def percentile(values: Sequence[float], q: float) -> float | None:
    """The `q` quantile, interpolated; None without values."""
    return float(np.quantile(np.asarray(values), q)) if values else None


def paired_ratios(values: Mapping[str, float], baseline: Mapping[str, float]) -> list[float]:
    """value / baseline of every sample that both have; a speed-up where both are speeds."""
    return [values[name] / baseline[name] for name in values if baseline.get(name)]


def share_by_source(counts: Iterable[Mapping[str, int]], n_tokens: int) -> dict[str, float]:
    """Of all generated tokens, the share that was accepted from each draft source; what is left (`target`) the target
    wrote itself.  Empty where nothing was generated."""
    totals: dict[str, int] = {}
    for by_source in counts:
        for source, n in by_source.items():
            totals[source] = totals.get(source, 0) + n
    if not n_tokens:
        return {}
    shares = {source: n / n_tokens for source, n in sorted(totals.items(), key=lambda item: -item[1])}
    return shares | {"target": 1 - sum(totals.values()) / n_tokens}


def cost_per_million(price_per_hour: float, units_per_s: float) -> float:
    """What a million units (tokens, characters) cost on a machine of that price, kept busy."""
    return price_per_hour / 3600 / units_per_s * 1e6
