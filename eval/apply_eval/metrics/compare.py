"""Two runs on the same samples: paired differences with 95% intervals, and which of them are regressions.

A difference is a regression where its whole interval lies on the bad side of a limit: noise alone fails no build.
Speeds of different machines are shown and never judged; passes are counted, not timed, and hold anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from apply_eval.errors import DataError
from apply_eval.metrics.intervals import Interval, mean_interval, quantile_interval, ratio_interval
from apply_eval.metrics.speed import mean, median
from apply_eval.metrics.summary import collapse, is_silent
from apply_eval.running.rows import RunRow, SampleFacts


@dataclass(frozen=True, slots=True)
class Limits:
    """How much worse is too much: `exact_drop` and `silent_rise` as shares of samples, the others as parts of A's."""

    exact_drop: float = 0.0
    silent_rise: float = 0.0
    slowdown: float = 0.05
    more_passes: float = 0.02
    is_same_machine: bool = True


class Difference(NamedTuple):
    """One figure of a pair.  `change` is B - A for shares, B / A for speeds and counts."""

    field: str
    kind: Literal["share", "ratio"]
    n_pairs: int
    a: float | None
    b: float | None
    change: float | None
    interval: Interval | None
    is_regression: bool


def compare_rows(
    a: Sequence[RunRow], b: Sequence[RunRow], *, limits: Limits, threshold: float, seed: int = 0
) -> list[Difference]:
    """The differences of one contestant's rows in two runs, on the samples that both scored.

    Raises:
        DataError: there is no such sample.
    """
    left, right = collapse(a), collapse(b)
    common = [name for name in left if name in right and left[name].is_scored and right[name].is_scored]
    if not common:
        raise DataError("the runs have no scored sample in common", value=0, limit=1)
    pairs = [(left[name], right[name]) for name in common]
    slow, timed = limits.slowdown, limits.is_same_machine
    return [
        _share("exact_match", pairs, lambda row: row.exact, lambda i: i.high < -limits.exact_drop, seed),
        _share(
            "silent_errors", pairs, lambda row: is_silent(row, threshold), lambda i: i.low > limits.silent_rise, seed
        ),
        _ratio("tok_s", pairs, lambda i: timed and i.high < 1 - slow, seed),
        _ratio("latency_s", pairs, lambda i: timed and i.low > 1 + slow, seed),
        _passes(pairs, limits, seed),
    ]


def _share(
    field: str,
    pairs: Sequence[tuple[RunRow, RunRow]],
    is_hit: Callable[[RunRow], bool],
    is_bad: Callable[[Interval], bool],
    seed: int,
) -> Difference:
    hits = [(float(is_hit(a)), float(is_hit(b))) for a, b in pairs]
    changes = [b - a for a, b in hits]
    interval = mean_interval(changes, seed=seed)
    return Difference(
        field,
        "share",
        len(pairs),
        mean([a for a, _ in hits]),
        mean([b for _, b in hits]),
        mean(changes),
        interval,
        interval is not None and is_bad(interval),
    )


def _ratio(
    field: str, pairs: Sequence[tuple[RunRow, RunRow]], is_bad: Callable[[Interval], bool], seed: int
) -> Difference:
    """Of the samples that both answered: the median of B / A."""
    known = [(getattr(a, field), getattr(b, field)) for a, b in pairs]
    values = [(float(a), float(b)) for a, b in known if a and b]
    ratios = [b / a for a, b in values]
    interval = quantile_interval(ratios, 0.5, seed=seed)
    return Difference(
        field,
        "ratio",
        len(values),
        median([a for a, _ in values]),
        median([b for _, b in values]),
        median(ratios),
        interval,
        interval is not None and is_bad(interval),
    )


def _passes(pairs: Sequence[tuple[RunRow, RunRow]], limits: Limits, seed: int) -> Difference:
    values = [(float(b.passes), float(a.passes)) for a, b in pairs if a.passes and b.passes]
    interval = ratio_interval(values, seed=seed)
    n_a, n_b = sum(a for _, a in values), sum(b for b, _ in values)
    return Difference(
        "passes",
        "ratio",
        len(values),
        mean([a for _, a in values]),
        mean([b for b, _ in values]),
        n_b / n_a if n_a else None,
        interval,
        interval is not None and interval.low > 1 + limits.more_passes,
    )


def exact_in_one(a: Sequence[RunRow], b: Sequence[RunRow]) -> tuple[list[str], list[str]]:
    """Samples that both runs scored: those right in A alone, those right in B alone."""
    left, right = collapse(a), collapse(b)
    common = [name for name in left if name in right and left[name].is_scored and right[name].is_scored]
    lost = [name for name in common if left[name].exact and not right[name].exact]
    return lost, [name for name in common if right[name].exact and not left[name].exact]


def refuse_other_samples(a: Mapping[str, SampleFacts], b: Mapping[str, SampleFacts]) -> None:
    """Raises DataError where a sample of one name has other texts in the two runs, or no name is in both."""
    common = a.keys() & b.keys()
    if not common:
        raise DataError("the runs have no sample in common", value=0, limit=1, remedy="run both on the same data")
    other = sorted(name for name in common if a[name].digest != b[name].digest)
    if other:
        raise DataError(
            "samples of the same id have different texts in the two runs",
            value=other[:5],
            remedy="run both on the same data and updates",
        )
