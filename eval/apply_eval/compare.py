"""Two runs on the same samples: paired differences with 95% intervals, and which of them are regressions.

A difference is a regression where its whole interval lies on the bad side of a limit: noise alone fails no build.
Speeds of different machines are shown and never judged; passes are counted, not timed, and hold anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from apply_eval.errors import DataError
from apply_eval.metrics import Interval, mean_interval, quantile_interval, ratio_interval
from apply_eval.numbers import DASH, count, share
from apply_eval.rows import RunRow, SampleFacts
from apply_eval.summary import collapse, is_silent, mean, median


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
    pairs = _scored_by_both(a, b)
    if not pairs:
        raise DataError("the runs have no scored sample in common", value=0, limit=1)
    exact = [(float(x.exact), float(y.exact)) for x, y in pairs]
    silent = [(float(is_silent(x, threshold)), float(is_silent(y, threshold))) for x, y in pairs]
    slow = limits.slowdown if limits.is_same_machine else math.inf
    return [
        _judged(_share("exact_match", exact, seed), least=-limits.exact_drop),
        _judged(_share("silent_errors", silent, seed), most=limits.silent_rise),
        _judged(_ratio("tok_s", pairs, seed), least=1 - slow),
        _judged(_ratio("latency_s", pairs, seed), most=1 + slow),
        _judged(_ratio("passes", pairs, seed), most=1 + limits.more_passes),
    ]


def _scored_by_both(a: Sequence[RunRow], b: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    left, right = collapse(a), collapse(b)
    return [(left[i], right[i]) for i in left if i in right and left[i].is_scored and right[i].is_scored]


def _judged(difference: Difference, *, least: float = -math.inf, most: float = math.inf) -> Difference:
    """A regression where the whole interval lies outside `least..most`."""
    interval = difference.interval
    return difference._replace(is_regression=interval is not None and (interval.high < least or interval.low > most))


def _share(field: str, values: Sequence[tuple[float, float]], seed: int) -> Difference:
    a, b, changes = [a for a, _ in values], [b for _, b in values], [b - a for a, b in values]
    interval = mean_interval(changes, seed=seed)
    return Difference(field, "share", len(values), mean(a), mean(b), mean(changes), interval, False)


def _ratio(field: str, pairs: Sequence[tuple[RunRow, RunRow]], seed: int) -> Difference:
    """Of the samples that both answered: the median of B / A; of passes the ratio of the sums."""
    known = [(getattr(a, field), getattr(b, field)) for a, b in pairs]
    values = [(float(a), float(b)) for a, b in known if a and b]
    a, b = [a for a, _ in values], [b for _, b in values]
    if field == "passes":
        change = sum(b) / sum(a) if a else None
        interval = ratio_interval([(after, before) for before, after in values], seed=seed)
        return Difference(field, "ratio", len(values), mean(a), mean(b), change, interval, False)
    ratios = [after / before for before, after in values]
    interval = quantile_interval(ratios, 0.5, seed=seed)
    return Difference(field, "ratio", len(values), median(a), median(b), median(ratios), interval, False)


def exact_in_one(a: Sequence[RunRow], b: Sequence[RunRow]) -> tuple[list[str], list[str]]:
    """Samples that both runs scored: those right in A alone, those right in B alone."""
    pairs = _scored_by_both(a, b)
    return [x.id for x, y in pairs if x.exact and not y.exact], [x.id for x, y in pairs if y.exact and not x.exact]


def refuse_other_samples(a: Mapping[str, SampleFacts], b: Mapping[str, SampleFacts]) -> None:
    """Raises DataError where a sample of one name has other texts in the two runs, or no name is in both."""
    common = a.keys() & b.keys()
    if not common:
        raise DataError("the runs have no sample in common", value=0, limit=1, remedy="run both on the same data")
    if other := sorted(name for name in common if a[name].digest != b[name].digest):
        message = "samples of the same id have different texts in the two runs"
        raise DataError(message, value=other[:5], remedy="run both on the same data and updates")


def differences_table(title: str, found: Sequence[Difference]) -> Table:
    """For the terminal."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("", "pairs", "A", "B", "change", "95% interval", ""):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for difference in found:
        low_high = (
            DASH if difference.interval is None else " to ".join(_change(difference, x) for x in difference.interval)
        )
        change = DASH if difference.change is None else _change(difference, difference.change)
        a, b = _value(difference, difference.a), _value(difference, difference.b)
        verdict = "[bold red]regression[/]" if difference.is_regression else ""
        table.add_row(difference.field, str(difference.n_pairs), a, b, change, low_high, verdict)
    return table


def _value(difference: Difference, value: float | None) -> str:
    if difference.kind == "share":
        return share(value)
    return f"{value:.3f}" if value is not None and value < 10 else count(value)


def _change(difference: Difference, value: float) -> str:
    return f"{value * 100:+.1f} points" if difference.kind == "share" else f"×{value:.3f}"
