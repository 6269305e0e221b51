"""What a target wrote, or thought of what was put before it: one job's, and the sum over the windows of a file.

Plain values and arithmetic; knows no engine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from apply_service.protocols import EditJob
from apply_service.types import DecodeStats, PassCount

SUMMED = (
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "prefill_passes",
    "passes",
    "drafted_tokens",
    "accepted_tokens",
    "rejections",
    "pass_counts",
    "prefill_s",
    "decode_s",
    "draft_s",
)


class Decided(NamedTuple):
    """What the target wrote for one job, or scored.  `line_logprobs`: the least log probability of a decision at each
    line."""

    merged: str
    line_logprobs: dict[int, float]
    stats: DecodeStats
    invented_lines: int | None
    """Lines that no source has; None where the target was not held to the sources."""
    logprob: float | None = None
    """Log probability of all decisions together; None where the engine can't say."""


def count_invented(merged: str, job: EditJob) -> int:
    """Lines of the text that stand neither in the original nor, as the merger reads it, in the update."""
    known = {"", *job.original.split("\n"), *job.prediction.update_lines}
    return sum(line not in known for line in merged.split("\n"))


def least_by_line(logprobs: Sequence[float | None], places: Sequence[tuple[int, int]]) -> dict[int, float]:
    """The least log probability of a decision at each line, given each token's (None: forced, or not known)."""
    least: dict[int, float] = {}
    for logprob, (first, last) in zip(logprobs, places, strict=True):
        if logprob is not None:
            for line in range(first, last + 1):
                least[line] = min(logprob, least.get(line, logprob))
    return least


def total_invented(decided: Sequence[Decided]) -> int | None:
    """Of all of them; None where one was not held to the sources."""
    counts = [one.invented_lines for one in decided]
    return None if None in counts else sum(count or 0 for count in counts)


def shifted_logprobs(decided: Sequence[Decided], starts: Sequence[int]) -> dict[int, float]:
    """All lines' log probabilities, where the text of `decided[i]` begins at line `starts[i]`."""
    return {
        start + line: logprob
        for start, one in zip(starts, decided, strict=True)
        for line, logprob in one.line_logprobs.items()
    }


def confidence_of(decided: Sequence[Decided]) -> float | None:
    """The least probability of any decision; None where none is known."""
    logprobs = [logprob for one in decided for logprob in one.line_logprobs.values()]
    return math.exp(min(logprobs)) if logprobs else None


def total_stats(decided: Sequence[Decided]) -> DecodeStats:
    """The counts of all windows; times are the longest one's, as they share passes."""
    if len(decided) == 1:
        return decided[0].stats
    total = sum_stats([one.stats for one in decided])
    total.prefill_s = max((one.stats.prefill_s for one in decided), default=0.0)
    total.decode_s = max((one.stats.decode_s for one in decided), default=0.0)
    return total


def sum_stats(stats: Iterable[DecodeStats]) -> DecodeStats:
    """Counts and times of decodings that ran one after the other."""
    total = DecodeStats()
    for one in stats:
        for name in SUMMED:
            setattr(total, name, getattr(total, name) + getattr(one, name))
        total.accepted_by_source = dict(Counter(total.accepted_by_source) + Counter(one.accepted_by_source))
        total.untold |= one.untold
    return total


def unused_stats(stats: DecodeStats) -> DecodeStats:
    """The counts of a text that was scored and is no part of the answer: all of it drafted, nothing accepted.  Its
    prompt counts with the text that is."""
    return replace(
        stats,
        prompt_tokens=0,
        cached_prompt_tokens=0,
        completion_tokens=0,
        accepted_tokens=0,
        accepted_by_source={},
        rejections=stats.passes,
        pass_counts=[PassCount(0, one.n_drafted, 0, one.source) for one in stats.pass_counts],
    )
