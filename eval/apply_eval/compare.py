"""Two runs on the same samples: paired differences with 95% intervals, and which of them are regressions.

A difference is a regression where its whole interval lies on the bad side of a limit: noise alone fails no build.
Speeds of different machines are shown and never judged; passes are counted, not timed, and hold anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from apply_eval.errors import DataError
from apply_eval.numbers import DASH, count, print_table, share
from apply_eval.results import RunResults
from apply_eval.rows import RunRow, SampleFacts
from apply_eval.statistics import Interval, mean, mean_interval, median, median_interval, ratio_interval
from apply_eval.summary import is_silent

MAX_IDS = 10


SLOWDOWN, MORE_PASSES = 0.05, 0.02
"""Parts of A's speed that may be lost, and of its passes that may be added.  Exact match must not fall, and silent
errors must not rise."""


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
    a: Sequence[RunRow], b: Sequence[RunRow], *, threshold: float, is_same_machine: bool = True, seed: int = 0
) -> list[Difference]:
    """The differences of one contestant's rows in two runs, on the samples that both scored.  Raises DataError: there
    is no such sample."""
    pairs = _scored_by_both(a, b)
    if not pairs:
        raise DataError("the runs have no scored sample in common", value=0, limit=1)
    exact = [(float(x.exact), float(y.exact)) for x, y in pairs]
    silent = [(float(is_silent(x, threshold)), float(is_silent(y, threshold))) for x, y in pairs]
    slow = SLOWDOWN if is_same_machine else math.inf
    return [
        _judged(_share("exact_match", exact, seed), least=0.0),
        _judged(_share("silent_errors", silent, seed), most=0.0),
        _judged(_ratio("tok_s", pairs, seed), least=1 - slow),
        _judged(_ratio("latency_s", pairs, seed), most=1 + slow),
        _judged(_ratio("passes", pairs, seed), most=1 + MORE_PASSES),
    ]


def _scored_by_both(a: Sequence[RunRow], b: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    left, right = ({row.id: row for row in rows if row.is_scored} for rows in (a, b))
    return [(left[i], right[i]) for i in sorted(left.keys() & right.keys())]


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
    interval = median_interval(ratios, seed=seed)
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


# -- on the terminal ---------------------------------------------------------------------------------------------------
def print_comparison(a: RunResults, b: RunResults, pairs: Sequence[str]) -> list[str]:
    """Print the differences of every pair (`A=B`; without any, of equal names); the names of the regressions.  Raises
    DataError: the runs have no sample or contestant in common, or other texts, or there is no such pair."""
    refuse_other_samples(a.facts, b.facts)
    machines = [((run.values["provenance"] or {}).get("hardware"), run.values["plan"]["model"] or {}) for run in (a, b)]
    is_same_machine = len({str((hardware, model.get("device"))) for hardware, model in machines}) == 1
    threshold = b.values["summary_options"]["confidence_threshold"]
    worse = []
    named = [pair.partition("=")[::2] for pair in pairs] or [(name, name) for name in a.names if name in b.names]
    if not named:
        raise DataError("the runs have no contestant in common", value=a.names, limit=b.names, remedy="name a --pair")
    for left, right in named:
        if left not in a.names or right not in b.names:
            raise DataError(f"no such pair: {left}={right}", value=[left, right], limit=[a.names, b.names])
        rows = [row for row in a.rows if row.name == left], [row for row in b.rows if row.name == right]
        found = compare_rows(*rows, threshold=threshold, is_same_machine=is_same_machine)
        title = left if left == right else f"{left} -> {right}"
        lines = []
        for one in found:
            change, *ends = (_change(one, x) for x in (one.change, *(one.interval or ())))
            figures = _value(one, one.a), _value(one, one.b), change, " to ".join(ends) or DASH
            lines.append((one.field, str(one.n_pairs), *figures, "regression" if one.is_regression else ""))
        print_table(("", "pairs", "A", "B", "change", "95% interval", ""), lines, title)
        for name, ids in zip("AB", exact_in_one(*rows), strict=True):
            if ids:
                print(f"right in {name} alone: {', '.join(ids[:MAX_IDS])}" + (" ..." if len(ids) > MAX_IDS else ""))
        worse += [f"{title}: {difference.field}" for difference in found if difference.is_regression]
    if not is_same_machine:
        print("machine or device differ: speeds are shown, not judged")
    print("no regression" if not worse else "regressions: " + ", ".join(worse))
    return worse


def _value(difference: Difference, value: float | None) -> str:
    if difference.kind == "share":
        return share(value)
    return f"{value:.3f}" if value is not None and value < 10 else count(value)


def _change(difference: Difference, value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value * 100:+.1f} points" if difference.kind == "share" else f"×{value:.3f}"
