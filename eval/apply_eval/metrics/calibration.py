"""Whether an answer's own word on itself can be trusted: verdicts as an alarm, confidence as a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class AlarmQuality:
    """Flags as an alarm for wrong answers.  A rate is None where it has nothing to be a share of."""

    n_wrong: int
    n_wrong_flagged: int
    n_right: int
    n_right_flagged: int

    @property
    def recall(self) -> float | None:
        """The share of wrong answers that were flagged."""
        return self.n_wrong_flagged / self.n_wrong if self.n_wrong else None

    @property
    def false_alarms(self) -> float | None:
        """The share of right answers that were flagged."""
        return self.n_right_flagged / self.n_right if self.n_right else None

    @property
    def precision(self) -> float | None:
        """The share of flagged answers that were wrong."""
        n_flagged = self.n_wrong_flagged + self.n_right_flagged
        return self.n_wrong_flagged / n_flagged if n_flagged else None


def alarm_quality(flagged: Sequence[bool], exact: Sequence[bool]) -> AlarmQuality:
    """Counts over answers; both sequences run in step."""
    pairs = list(zip(flagged, exact, strict=True))
    return AlarmQuality(
        n_wrong=sum(not right for _, right in pairs),
        n_wrong_flagged=sum(flag and not right for flag, right in pairs),
        n_right=sum(right for _, right in pairs),
        n_right_flagged=sum(flag and right for flag, right in pairs),
    )


def reliability(confidences: Sequence[float], exact: Sequence[bool], *, n_bins: int = N_BINS) -> list[Bin]:
    """The reliability table: bins of equal width over 0..1, empty ones left out."""
    members: list[list[tuple[float, bool]]] = [[] for _ in range(n_bins)]
    for confidence, right in zip(confidences, exact, strict=True):
        members[min(int(confidence * n_bins), n_bins - 1)].append((confidence, right))
    return [
        Bin(
            low=at / n_bins,
            high=(at + 1) / n_bins,
            n=len(found),
            confidence=sum(c for c, _ in found) / len(found),
            exact_match=sum(right for _, right in found) / len(found),
        )
        for at, found in enumerate(members)
        if found
    ]


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
        if members := pairs[start:stop]:
            n, total = len(members), sum(confidence for confidence, _ in members)
            found.append(Bin(members[0][0], members[-1][0], n, total / n, sum(right for _, right in members) / n))
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
