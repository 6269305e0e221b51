"""All statistics of evaluation, training and benchmarks: middles, intervals, calibration, thresholds, and how much may
be applied unseen at what price.  Pure.

Intervals are B. Efron's percentile bootstrap ("Bootstrap methods: another look at the jackknife", 1979), seeded by the
caller.  Where every sample agrees (a share of 0 or 1) drawing again can't vary and would claim certainty: there, shares
take Wilson's bound.  Risk and coverage are R. El-Yaniv and Y. Wiener's ("On the foundations of noise-free selective
classification", 2010): coverage is the share of samples at or above a threshold, risk the share of wrong answers among
these.  Coverage counts all samples, refused ones too: nobody wins by refusing or flagging everything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

CONFIDENCE_THRESHOLD = 0.5
"""An answer below it counts as flagged.  The embedded model's, as `training.calibrate` found it on edits mined for that
(`calibration.json` beside the weights); never tuned on an evaluation set."""
N_DRAWS = 2000
LEVEL = 0.95
_Z = 1.959964
_MAX_CELLS = 4_000_000
"""Drawn indices held at a time (32 MB)."""

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""[n_draws, n_samples] or [n_draws, n_samples, k] -> [n_draws]."""


# -- middles -----------------------------------------------------------------------------------------------------------
def median(values: Sequence[float]) -> float | None:
    """None without values."""
    return statistics.median(values) if values else None


def mean(values: Sequence[float]) -> float | None:
    """None without values."""
    return statistics.fmean(values) if values else None


def percentile(values: Sequence[float], q: float) -> float | None:
    """The `q` quantile, interpolated; None without values."""
    return float(np.quantile(np.asarray(values), q)) if values else None


def percentiles(values: Sequence[float], wanted: Sequence[int]) -> dict[str, float]:
    """`p50` and the like by nearest rank, to four digits; at least one value."""
    ordered = sorted(values)
    return {f"p{p}": round(ordered[-(-len(ordered) * p // 100) - 1], 4) for p in wanted}


def share_of(part: float | None, whole: float | None) -> float | None:
    """None of nothing, and where one of both is not known."""
    return part / whole if part is not None and whole else None


def paired_ratios(values: Mapping[str, float], baseline: Mapping[str, float]) -> list[float]:
    """value / baseline of every sample that both have; a speed-up where both are speeds."""
    return [values[name] / baseline[name] for name in values if baseline.get(name)]


# -- intervals ---------------------------------------------------------------------------------------------------------
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


def median_interval(values: Sequence[float], *, seed: int) -> Interval | None:
    """Of the median; None below two samples."""
    return bootstrap(values, lambda drawn: np.quantile(drawn, 0.5, axis=1), seed=seed)


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


def chance_of_as_many(n_hits: int, n: int, p: float) -> float:
    """The chance of so many hits or more in `n` tries that hit with the chance `p` each, which is above 0 and below
    1."""
    if n_hits <= 0:
        return 1.0
    ways = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n_hits, n + 1))
    return math.fsum(
        math.exp(log_ways + k * math.log(p) + (n - k) * math.log1p(-p)) for k, log_ways in enumerate(ways, n_hits)
    )


def clopper_pearson(n_hits: int, n: int) -> Interval:
    """C. J. Clopper and E. S. Pearson's exact interval of a share (1934): it never claims more than it may, also at 0
    of few, where Wilson's is too short.  0 of n gives about 3.7 / n, as both ends share the 5%."""
    tail = (1 - LEVEL) / 2

    def solve(is_low: Callable[[float], bool]) -> float:
        """The share up to which `is_low` holds, by halving."""
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if is_low(middle) else (low, middle)
        return low

    low = solve(lambda p: chance_of_as_many(n_hits, n, p) < tail) if n_hits else 0.0
    high = solve(lambda p: 1 - chance_of_as_many(n_hits + 1, n, p) > tail) if n_hits < n else 1.0
    return Interval(low, high)


# -- calibration -------------------------------------------------------------------------------------------------------
N_BINS = 10


class Bin(NamedTuple):
    """Answers whose confidence lies in `low <= c < high` (the last bin holds 1 as well)."""

    low: float
    high: float
    n: int
    confidence: float
    """Their mean confidence."""
    exact_match: float
    """The share of them that is right; calibrated where it equals the confidence."""


def reliability(confidences: Sequence[float], exact: Sequence[bool]) -> list[Bin]:
    """The reliability table: bins of equal width over 0..1, empty ones left out."""
    members: list[list[tuple[float, bool]]] = [[] for _ in range(N_BINS)]
    for confidence, right in zip(confidences, exact, strict=True):
        members[min(int(confidence * N_BINS), N_BINS - 1)].append((confidence, right))
    return [_bin(at / N_BINS, (at + 1) / N_BINS, found) for at, found in enumerate(members) if found]


def _bin(low: float, high: float, members: Sequence[tuple[float, bool]]) -> Bin:
    n = len(members)
    return Bin(low, high, n, sum(c for c, _ in members) / n, sum(right for _, right in members) / n)


def bins_between(samples: Sequence[Judged], edges: Sequence[float]) -> list[dict[str, Any]]:
    """Bins between `edges` (an upper edge belongs to the next bin, but for the last), empty ones left out: mean
    confidence, and share right with Wilson's 95% interval."""
    rows = []
    for low, high in pairwise(edges):
        found = [
            (s.probability, s.is_right)
            for s in samples
            if s.probability is not None and low <= s.probability and (s.probability < high or high == edges[-1])
        ]
        if found:
            one = _bin(low, high, found)
            interval = list(wilson(sum(right for _, right in found), one.n))
            rows.append({**one._asdict(), "right": one.exact_match, "interval": interval})
            del rows[-1]["exact_match"]
    return rows


def deciles(confidences: Sequence[float], exact: Sequence[bool]) -> list[Bin]:
    """A tenth of the answers in each bin, by rising confidence; answers of one confidence stay together, so there may
    be fewer.  `low` and `high` are the least and the greatest confidence of a bin, both in it."""
    pairs = sorted(zip(confidences, exact, strict=True))
    found: list[Bin] = []
    start = 0
    for tenth in range(1, N_BINS + 1):
        stop = max(start, round(tenth * len(pairs) / N_BINS))
        while start < stop < len(pairs) and pairs[stop][0] == pairs[stop - 1][0]:
            stop += 1
        if start < stop:
            found.append(_bin(pairs[start][0], pairs[stop - 1][0], pairs[start:stop]))
        start = stop
    return found


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Expected calibration error: the gap between confidence and exact match, weighted by answers; None without any."""
    n = sum(found.n for found in bins)
    return sum(found.n * abs(found.confidence - found.exact_match) for found in bins) / n if n else None


def brier_score(confidences: Sequence[float], exact: Sequence[bool]) -> float | None:
    """Mean squared gap between confidence and outcome (0 best, 0.25 for always saying one half); None without any."""
    pairs = list(zip(confidences, exact, strict=True))
    return sum((c - right) ** 2 for c, right in pairs) / len(pairs) if pairs else None


def ranking(confidences: Sequence[float], exact: Sequence[bool]) -> float | None:
    """The chance that a right answer has more confidence than a wrong one, ties half (area under the ROC curve); None
    where all are right or all wrong."""
    right = [c for c, ok in zip(confidences, exact, strict=True) if ok]
    wrong = [c for c, ok in zip(confidences, exact, strict=True) if not ok]
    if not right or not wrong:
        return None
    wins = sum((r > w) + 0.5 * (r == w) for r in right for w in wrong)
    return wins / (len(right) * len(wrong))


# -- what may be applied unseen ----------------------------------------------------------------------------------------
LIMITS = (0.01, 0.02)
"""Shares of wrong answers at which coverage is reported."""
MAX_POINTS = 50
"""Of a curve in the results."""


class Judged(NamedTuple):
    """One sample: the chance of being right that its answer claims (None: there is no answer), whether it is right, how
    much it counts, whether it is wrong in blanks and comments alone, and whether a check found something."""

    probability: float | None
    is_right: bool
    weight: float = 1.0
    is_slight: bool = False
    has_findings: bool = False


class RiskPoint(NamedTuple):
    """What is applied from `threshold` on.  The counts are of samples, the shares by their weights: `coverage` of all
    samples, `wrong` of the applied ones."""

    threshold: float
    n_applied: int
    n_wrong: int
    coverage: float
    wrong: float


def risk_curve(samples: Sequence[Judged]) -> list[RiskPoint]:
    """A point for each probability that occurs, the highest first: coverage rises along it."""
    total = sum(sample.weight for sample in samples)
    answered = sorted((s for s in samples if s.probability is not None), key=lambda s: -_chance(s))
    points: list[RiskPoint] = []
    n_wrong, applied, wrong = 0, 0.0, 0.0
    for n, sample in enumerate(answered, 1):
        n_wrong += not sample.is_right
        applied += sample.weight
        wrong += 0.0 if sample.is_right else sample.weight
        if n == len(answered) or _chance(answered[n]) < _chance(sample):
            points.append(RiskPoint(_chance(sample), n, n_wrong, applied / total, wrong / applied))
    return points


def _chance(sample: Judged) -> float:
    assert sample.probability is not None, "only answers are sorted"
    return sample.probability


def widest(points: Sequence[RiskPoint], limit: float) -> RiskPoint | None:
    """The point of most coverage at which at most the share `limit` of the applied answers is wrong."""
    return next((point for point in reversed(points) if point.wrong <= limit), None)


def coverage_interval(samples: Sequence[Judged], limit: float, *, seed: int) -> Interval | None:
    """Of the coverage at `limit`: samples are drawn again, and the threshold is chosen again in each draw."""
    rows = [(-1.0 if s.probability is None else s.probability, float(s.is_right), s.weight) for s in samples]

    def coverages(drawn: Floats) -> Floats:
        """[n_draws, n_samples, (probability, is right, weight)] -> the coverage at `limit` of each draw."""
        order = np.argsort(-drawn[:, :, 0], axis=1, kind="stable")
        chances, right, weights = np.moveaxis(np.take_along_axis(drawn, order[:, :, None], axis=1), 2, 0)
        applied, wrong = np.cumsum(weights, axis=1), np.cumsum(weights * (1 - right), axis=1)
        is_last = np.column_stack([chances[:, 1:] < chances[:, :-1], np.ones(len(chances), bool)])
        is_allowed = is_last & (chances >= 0) & (wrong <= limit * applied)
        widest_of_each: Floats = np.where(is_allowed, applied, 0.0).max(axis=1) / applied[:, -1]
        return widest_of_each

    # The bootstrap takes rows of any width; its type knows pairs alone.
    return bootstrap(rows, coverages, seed=seed)  # type: ignore[arg-type]


# -- results -----------------------------------------------------------------------------------------------------------
def risk_figures(samples: Sequence[Judged], *, threshold: float, seed: int) -> dict[str, Any]:
    """`risk` of a run: the curve, coverage at each of LIMITS, and what the frozen `threshold` does.  The coverage at a
    limit is the best that any threshold gives on these very samples; only the frozen threshold can be held against
    others."""
    curve = risk_curve(samples)
    nothing = {"threshold": None, "n_applied": 0, "n_wrong": 0, "coverage": 0.0, "wrong": None}
    coverage_at: dict[str, Any] = {}
    for limit in LIMITS:
        point, interval = widest(curve, limit), coverage_interval(samples, limit, seed=seed)
        found = nothing if point is None else point._asdict()
        coverage_at[str(limit)] = found | {"interval": None if interval is None else list(interval)}
    step = max(1, -(-len(curve) // MAX_POINTS))  # the end of the curve stays
    return {
        "n": len(samples),
        "curve": [list(point) for point in curve[::-1][::step][::-1]],
        "coverage_at": coverage_at,
        "at_threshold": at_threshold(samples, threshold),
    }


def at_threshold(samples: Sequence[Judged], threshold: float) -> dict[str, Any]:
    """What is applied from `threshold` on, how much of that is wrong and how much gravely, and which right answers lie
    below it; Wilson's 95% intervals."""
    applied = [s for s in samples if s.probability is not None and s.probability >= threshold]
    n_wrong = sum(not s.is_right for s in applied)
    n_right = sum(s.is_right for s in samples)
    n_below = n_right - sum(s.is_right for s in applied)
    return {
        "threshold": threshold,
        "n_applied": len(applied),
        "coverage": share_of(len(applied), len(samples)),
        "coverage_interval": _wilson(len(applied), len(samples)),
        "n_wrong": n_wrong,
        "n_grave": n_wrong - sum(s.is_slight for s in applied),
        "wrong": share_of(n_wrong, len(applied)),
        "wrong_interval": _wilson(n_wrong, len(applied)),
        "n_right_below": n_below,
        "right_below": share_of(n_below, n_right),
        "right_below_interval": _wilson(n_below, n_right),
    }


def calibration_figures(samples: Sequence[Judged]) -> dict[str, Any]:
    """`calibration` of a run, of the answers that claim a probability."""
    answers = [sample for sample in samples if sample.probability is not None]
    chances, right = [_chance(sample) for sample in answers], [sample.is_right for sample in answers]
    bins = reliability(chances, right)
    return {
        "n": len(answers),
        "error": calibration_error(bins),
        "brier": brier_score(chances, right),
        "ranking": ranking(chances, right),
        "bins": [list(found) for found in bins],
        "deciles": [list(found) for found in deciles(chances, right)],
    }


def hits(n_hits: int, n: int) -> dict[str, Any]:
    """A share as results have it: `n`, `share`, and Wilson's 95% `interval`."""
    return {"n": n_hits, "share": share_of(n_hits, n), "interval": _wilson(n_hits, n)}


def _wilson(n_hits: int, n: int) -> list[float] | None:
    return list(wilson(n_hits, n)) if n else None


# -- alarms ------------------------------------------------------------------------------------------------------------
def is_flagged(findings: Collection[str], confidence: float | None, threshold: float = CONFIDENCE_THRESHOLD) -> bool:
    """Whether a careful caller was warned: a check found something, or the target was less sure than `threshold`.  An
    answer without confidence (a program's, or another service's) is flagged by its findings alone."""
    return bool(findings) or (confidence is not None and confidence < threshold)


def is_silent_error(*, is_exact: bool, flagged: bool) -> bool:
    """Wrong, and nothing in the answer says so: the one error that a user can't catch."""
    return not is_exact and not flagged


def alarms(samples: Sequence[Judged], threshold: float) -> dict[str, Any]:
    """What `threshold` would flag: silent errors as a share of all with Wilson's 95% interval, and the share of right
    answers that are flagged for nothing."""
    flags = [is_flagged(("found",) * s.has_findings, s.probability, threshold) for s in samples]
    n_silent = sum(is_silent_error(is_exact=s.is_right, flagged=f) for s, f in zip(samples, flags, strict=True))
    right = [flag for sample, flag in zip(samples, flags, strict=True) if sample.is_right]
    return {
        "threshold": threshold,
        "flagged": sum(flags) / len(flags),
        "silent_errors": n_silent / len(flags),
        "interval": list(wilson(n_silent, len(flags))),
        "false_alarms": share_of(sum(right), len(right)),
    }


# -- thresholds --------------------------------------------------------------------------------------------------------
def least_quiet(samples: Sequence[Judged], thresholds: Sequence[float], *, silent: float) -> float:
    """The lowest of `thresholds` at which at most the share `silent` of all answers (to a tenth of a percent) is wrong
    without a flag; the highest where none is."""
    return next((t for t in thresholds if round(alarms(samples, t)["silent_errors"], 3) <= silent), thresholds[-1])


def widest_threshold(samples: Sequence[Judged], wrong: float) -> float:
    """From which probability on answers are applied: the most samples at which at most the share `wrong` of them is
    wrong, by weight and by count.  1 where no threshold does it."""
    counted = [sample._replace(weight=1.0) for sample in samples]
    points = [widest(risk_curve(some), wrong) for some in (samples, counted)]
    return max(1.0 if point is None else point.threshold for point in points)


def sparing_threshold(right: Sequence[float], spared: float) -> float:
    """The chance that all but the share `spared` of the right answers reach, rounded down to two digits; 0 where there
    are too few to spare any."""
    at = int(len(right) * spared)
    chance = sorted(right)[at] if at else 0.0
    if chance <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(chance)) - 1)
    return float(f"{math.floor(chance / unit) * unit:.2g}")
