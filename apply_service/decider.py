"""What the strategies ask of a target, and what it answers.

There are two kinds: `target.Target` has weights in this process, `remote.target.RemoteTarget` asks a server.  Below
are the protocol that both follow, their answers as plain values, and the arithmetic on these.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

from apply_service.calibration import Calibration
from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Step
from apply_service.protocols import EditJob
from apply_service.types import ApplyRequest, DecodeStats, PassCount, Prediction, TokenEvent

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

Reading = tuple[EditJob, Prediction]
"""A job, and a text of it to be scored: its own prediction, or another."""


class Decided(NamedTuple):
    """What the target wrote for one job, or scored.  `line_logprobs`: the least log probability of a decision at each
    line of the text."""

    merged: str
    line_logprobs: Mapping[int, float]
    stats: DecodeStats
    invented_lines: int | None
    """Lines that no source has; None where the target was not held to the sources."""
    logprob: float | None = None
    """Log probability of all decisions together; None where the engine can't say."""


Deciding = Generator[TokenEvent | NextPass, tuple[Step | None, ...] | None, list[Decided]]
"""Yields provisional text and, whenever it needs a pass, its decodings; wants what the pass committed for each sent in
(None: nothing yet), or an error thrown in.  A target on another server blocks instead of asking for passes."""

Scoring = Generator[TokenEvent | NextPass, tuple[Step | None, ...] | None, list[Decided] | None]
"""As `Deciding`, without text on the way.  None: the target has no opinion, as the texts are not what it may write."""


class Decider(Protocol):
    """A target ready to decide.  A property is None where the target does not know it."""

    @property
    def name(self) -> str: ...

    @property
    def takes_instructions(self) -> bool:
        """Whether it can follow an instruction that comes without an update."""
        ...

    @property
    def context_limit(self) -> int | None:
        """Tokens of prompt and output together."""
        ...

    @property
    def determinism(self) -> Literal["bitwise", "tolerant"] | None:
        """Whether drafts can change a bit of what it writes."""
        ...

    @property
    def undrafted(self) -> str:
        """Why it runs here and yet takes no drafts of ours; empty otherwise."""
        ...

    @property
    def is_replay(self) -> bool:
        """Whether it writes what is known beforehand."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """How often an answer is right, by how sure the target is of it; None where that was never measured."""
        ...

    @property
    def windows(self) -> str:
        """When it decides the touched regions of a file alone, where nobody says otherwise: past its `context`, or
        `always` where that saves half of a long file."""
        ...

    def drafter_name(self, wanted: str) -> str | None:
        """The drafter that runs where `wanted` was asked for; None where drafting is not ours."""
        ...

    def fits(self, job: EditJob, request: ApplyRequest) -> bool:
        """Whether the job is not known to exceed the context."""
        ...

    def decide(
        self, jobs: Sequence[EditJob], request: ApplyRequest, drafter: str, deadline: Deadline, *, is_streamed: bool
    ) -> Deciding:
        """Let the target write every job, together.  `is_streamed`: yield the text as it comes; of a single job only.

        Raises:
            ContextLimitExceeded: a job is too long.
            Truncated: an output did not end by itself, or lacks what its format demands.
            ApplyError: the target gave no answer.
        """
        ...

    def score(self, readings: Sequence[Reading], request: ApplyRequest, deadline: Deadline) -> Scoring | None:
        """How likely the target finds these texts of their jobs, without writing any; None where it can't say.

        Raises:
            ContextLimitExceeded: a job is too long.
            ApplyError: the target gave no answer.
        """
        ...


class TargetInfo(NamedTuple):
    """What an answer says of the target that decided: properties of a `Decider` as plain values."""

    name: str
    determinism: Literal["bitwise", "tolerant"] | None
    takes_instructions: bool
    undrafted: str
    is_replay: bool
    calibration: Calibration | None

    @classmethod
    def of(cls, target: Decider) -> TargetInfo:
        return cls(
            target.name,
            target.determinism,
            target.takes_instructions,
            target.undrafted,
            target.is_replay,
            target.calibration,
        )


# -- arithmetic on what was decided ---------------------------------------------------------------------------------
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
        total.unknown |= one.unknown
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
