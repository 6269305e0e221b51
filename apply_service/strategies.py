"""Who decides: a program, a target model with drafts, or the program again where the target gives no answer.

The middle of a request's path: `pipeline` has read the edit, and afterwards checks the text and restores its bytes.
The README's table says when which strategy runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apply_service.deadline import Deadline
from apply_service.decider import (
    Decider,
    TargetInfo,
    confidence_of,
    shifted_logprobs,
    sum_stats,
    total_invented,
    total_stats,
)
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Step
from apply_service.doubt import find_doubt
from apply_service.errors import ApplyError, ContextLimitExceeded, InstructionUnsupported, NeedsMoreContext, Truncated
from apply_service.lattice import NOTHING, is_certain, weigh
from apply_service.protocols import EditJob
from apply_service.runtime import Runtime
from apply_service.types import (
    ApplyRequest,
    Certainty,
    DecodeStats,
    LineRange,
    RanStrategy,
    TokenEvent,
    Verdict,
)
from apply_service.windows.jobs import cut_job
from apply_service.windows.regions import SCOPE_LINES, Region, find_regions
from apply_service.windows.splice import splice

LONG_FILE_LINES = 60
"""A shorter file is decided whole unless it has to be cut."""
STRATEGY_VERDICTS = ("fallback", "doubt", "instruction", "replay", "reply", "other_files")
"""Verdicts on how the answer came about, beside the checks of its text; `drafts` only tells, and never fails."""

REPLAYED = (
    "no model decided: random weights replayed the predicted merge, or the answer that a measurement knew; only the "
    "speed means something"
)

DOUBTED = "the model finds the merge unlikely, and is known to be wrong more often where it decides against one"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy made of a job: text with LF line ends, not checked yet."""

    merged: str
    strategy: RanStrategy
    stats: DecodeStats = field(default_factory=DecodeStats)
    target: TargetInfo | None = None
    drafter: str | None = None
    agreement: bool | None = None
    confidence: float | None = None
    line_logprobs: Mapping[int, float] | None = None
    """Least log probability of a decision of the target at each line of the merged text; None where none decided."""
    windows: tuple[LineRange, ...] = ()
    """The lines of the original that the target decided; none: all."""
    invented_lines: int | None = None
    note: str = ""
    """Why a fallback took the target's place."""
    error: ApplyError | None = None
    """Why the target gave no answer: the request's error, should the fallback fail a check."""

    def fall_back(self, job: EditJob, note: str) -> Outcome:
        """The predicted merge in the place of the target's text."""
        return replace(
            self,
            merged=job.prediction.text,
            strategy="fallback",
            confidence=None,
            line_logprobs=None,
            invented_lines=None,
            note=note,
        )


StrategyRun = Generator[TokenEvent | NextPass, tuple[Step | None, ...] | None, Outcome]
"""Driven as `decider.Deciding` is; ends with what was made of the job."""


def decide(request: ApplyRequest, runtime: Runtime, job: EditJob, deadline: Deadline) -> StrategyRun:
    """The strategies, as in the README's table."""
    if request.strategy == "exact":
        return _by_program(request, job)
    if not needs_target(request, job):
        return Outcome(job.prediction.text, "exact")
    try:
        return (yield from _by_target(request, runtime, job, deadline))
    except (ContextLimitExceeded, Truncated) as error:
        note = f"the model gave no answer: {error}"
        if isinstance(error, ContextLimitExceeded) and job.prediction.certainty is not Certainty.GUESS:
            error.remedy += f", or strategy exact: the merge is {job.prediction.certainty}"
        if may_fall_back(request, job) and request.max_tokens is None:
            return Outcome(job.prediction.text, "fallback", note=note, error=error)
        raise


def needs_target(request: ApplyRequest, job: EditJob) -> bool:
    """Whether a target has to decide."""
    return request.strategy == "model" or (request.strategy == "auto" and not job.prediction.determined)


def may_fall_back(request: ApplyRequest, job: EditJob) -> bool:
    """Whether the predicted merge may take the place of the target's answer."""
    return request.strategy == "auto" and job.prediction.certainty is Certainty.CERTAIN


def _by_program(request: ApplyRequest, job: EditJob) -> Outcome:
    if not job.update.strip() and request.instruction:
        raise InstructionUnsupported(
            "no program follows instructions",
            value=request.instruction[:200],
            remedy="send an `update`, or let an instruct model decide (strategy auto or model)",
        )
    if job.prediction.certainty is Certainty.GUESS:
        raise NeedsMoreContext(
            "the edit does not determine the result: " + "; ".join(job.prediction.reasons),
            value=list(job.prediction.reasons),
            remedy="show more unchanged lines around each change, or let a model decide (strategy auto or model)",
        )
    return Outcome(job.prediction.text, "exact")


def _by_target(request: ApplyRequest, runtime: Runtime, job: EditJob, deadline: Deadline) -> StrategyRun:
    target = runtime.load(request.model or runtime.models[0])
    if not job.update.strip() and not target.takes_instructions:
        raise InstructionUnsupported(
            f"{target.name} merges edits but does not follow instructions",
            value=request.instruction[:200],
            remedy="send an `update`, or use an instruct model",
        )
    regions = _regions_to_save(runtime, job, target)
    try:
        return (yield from _decided_by(target, request, runtime, job, regions, deadline))
    except ContextLimitExceeded:
        narrower = [] if runtime.windows_of(target) == "never" else _regions_that_fit(job, request, target)
        if not narrower or narrower == regions:
            raise
    return (yield from _decided_by(target, request, runtime, job, narrower, deadline))


def _decided_by(
    target: Decider,
    request: ApplyRequest,
    runtime: Runtime,
    job: EditJob,
    regions: Sequence[Region],
    deadline: Deadline,
) -> StrategyRun:
    """The file whole, or these regions of it: as scored where the target is content with that, else token by token."""
    wanted = request.drafter or runtime.default_drafter
    jobs = [cut_job(job, region) for region in regions] or [job]
    weighed = NOTHING
    if request.strategy == "auto" and request.temperature == 0 and job.update.strip():
        weighed = yield from weigh(target, jobs, request, runtime.thresholds_of(target), deadline)
    if (decided := weighed.taken) is not None:
        strategy: RanStrategy = "fallback" if weighed.is_doubted else "confirmed" if is_certain(jobs) else "lattice"
    else:
        strategy = "model"
        decided = yield from target.decide(jobs, request, wanted, deadline, is_streamed=not regions)
    merged, starts = decided[0].merged, [0]
    if regions:
        merged, starts = splice(job.prediction, regions, [one.merged for one in decided])
    return Outcome(
        merged,
        "windowed" if regions and strategy in ("lattice", "model") else strategy,
        sum_stats([weighed.spent, total_stats(decided)]),
        TargetInfo.of(target),
        target.drafter_name(wanted) if weighed.taken is None else None,
        agreement=None if target.is_replay else merged == job.prediction.text and not weighed.is_doubted,
        confidence=confidence_of(decided),
        line_logprobs=shifted_logprobs(decided, starts),
        windows=tuple(LineRange(region.first_line, region.last_line) for region in regions),
        invented_lines=total_invented(decided),
        note=DOUBTED if weighed.is_doubted else "",
    )


def _regions_to_save(runtime: Runtime, job: EditJob, target: Decider) -> list[Region]:
    """The regions to decide where that is set to save time and does, or where the file has more lines than the context
    has tokens; else none, which is the whole file."""
    n_lines = job.original.count("\n") + 1
    windows = runtime.windows_of(target)
    is_long = windows != "never" and _is_past(n_lines, target.context_limit)
    if not is_long and (windows != "always" or n_lines < LONG_FILE_LINES):
        return []
    regions = _regions(job)
    return regions if is_long or 2 * sum(region.n_lines for region in regions) <= n_lines else []


def _is_past(n_lines: int, context_limit: int | None) -> bool:
    return context_limit is not None and n_lines >= context_limit


def _regions_that_fit(job: EditJob, request: ApplyRequest, target: Decider) -> list[Region]:
    """The touched regions, with small scopes whole unless one is then too long for the context."""
    regions = _regions(job)
    if all(target.fits(cut_job(job, region), request) for region in regions):
        return regions
    return _regions(job, scope_lines=0)


def _regions(job: EditJob, *, scope_lines: int = SCOPE_LINES) -> list[Region]:
    """An instruction alone may touch anything: it has no regions."""
    if not job.update.strip():
        return []
    return find_regions(job.prediction, job.original, job.language, scope_lines=scope_lines)


def strategy_verdicts(job: EditJob, outcome: Outcome) -> Iterator[Verdict]:
    """What the caller should know of how the answer came about."""
    yield from job.findings
    if outcome.strategy == "fallback":
        yield Verdict("fallback", "warning", f"{outcome.note}; this is the predicted merge")
    if outcome.target is not None and outcome.target.is_replay:
        yield Verdict("replay", "warning", REPLAYED)
    if job.instruction.strip() and not _is_instruction_read(outcome):
        yield Verdict("instruction", "warning", "whoever decided reads the update alone, not the instruction")
    if outcome.target is not None and outcome.target.undrafted:
        yield Verdict("drafts", "pass", f"decoded without drafts: {outcome.target.undrafted}")
    if "completion_tokens" in outcome.stats.unknown:
        yield Verdict("usage", "pass", "the remote server reported no token counts; they are given as 0")
    if (doubt := find_doubt(job, outcome.merged)) is not None:
        yield doubt


def _is_instruction_read(outcome: Outcome) -> bool:
    return outcome.target is not None and outcome.strategy != "fallback" and outcome.target.takes_instructions
