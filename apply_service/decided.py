"""What a target wrote, or thought of what was put before it: one job's, and the sum over the windows of a file.

Plain values and arithmetic; knows no engine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from apply_service.protocols import EditJob
from apply_service.types import DecodeStats


class Decided(NamedTuple):
    """What the target wrote for one job.  `line_logprobs`: the least log probability of a decision at each line."""

    merged: str
    line_logprobs: dict[int, float]
    stats: DecodeStats
    invented_lines: int | None
    """Lines that no source has; None where the target was not held to the sources."""


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
    total = DecodeStats()
    for stats in (one.stats for one in decided):
        for name in ("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "drafted_tokens", "accepted_tokens"):
            setattr(total, name, getattr(total, name) + getattr(stats, name))
        for name in ("passes", "prefill_passes", "rejections", "draft_s"):
            setattr(total, name, getattr(total, name) + getattr(stats, name))
        total.accepted_by_source = dict(Counter(total.accepted_by_source) + Counter(stats.accepted_by_source))
        total.pass_counts += stats.pass_counts
        total.untold |= stats.untold
        total.prefill_s = max(total.prefill_s, stats.prefill_s)
        total.decode_s = max(total.decode_s, stats.decode_s)
    return total
