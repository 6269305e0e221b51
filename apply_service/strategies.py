"""Chooses who decides: a program, a target model with drafts, or the program again if the target gives no answer.

This is the middle of a request's path.  Before it, `pipeline` reads the edit; after it, `pipeline` checks the text and
restores the original's bytes.  The README has a table of the strategies and of when each one runs.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from apply_service.checks import run_checks
from apply_service.checks.relation import unmet_order
from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass
from apply_service.engine.record import Kind, Thresholds
from apply_service.errors import ApplyError, ContextLimitExceeded, InstructionUnsupported, NeedsMoreContext, Truncated
from apply_service.merge.rank.doubt import all_readings, find_doubt, how_sure
from apply_service.merge.regions import Region, cut_job, find_regions, splice
from apply_service.protocols import CheckInput, EditJob
from apply_service.target import (
    Decided,
    Decider,
    Runtime,
    Steps,
    TargetInfo,
    confidence_of,
    joint_stats,
    sum_stats,
    unused_stats,
)
from apply_service.text.fidelity import SourceText, hash_of
from apply_service.types import ApplyRequest, Certainty, DecodeStats, LineRange, RanStrategy, TokenEvent, Verdict

LONG_FILE_LINES = 60
"""In a file with fewer lines, the touched regions are not decided alone, unless the target's context requires it."""
STRATEGY_VERDICTS = ("fallback", "doubt", "instruction", "reply", "other_files")
"""The names of checks that are about how the answer came about, not about its text."""


class ReadEdit(NamedTuple):
    """A valid request with its edit and the predicted merge.  It can be sent to another process."""

    source: SourceText
    job: EditJob
    checks: tuple[Verdict, ...] | None = None
    """The verdicts on the predicted merge; None if it has not been checked yet."""
    needs_target: bool = False
    """Whether a target decides."""
    regions: tuple[Region, ...] = ()
    """The parts of the file that the edit touches, if a target has to decide.  Finding them is slow for a long file."""
    seconds: Mapping[str, float] = {}
    """The seconds of each stage."""

    def check(self, merged: str) -> tuple[Verdict, ...]:
        """Return the verdicts of all checks on a merged text with LF line ends."""
        job = self.job
        if self.checks is not None and merged == job.prediction.text:
            return self.checks
        return run_checks(CheckInput(job.original, merged, job.update, job.prediction, job.language))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a strategy: text with LF line ends, not checked yet."""

    merged: str
    strategy: RanStrategy
    stats: DecodeStats = field(default_factory=DecodeStats)
    target: TargetInfo | None = None
    drafter: str | None = None
    agreement: bool | None = None
    confidence: float | None = None
    line_logprobs: Mapping[int, float] | None = None
    """The target's lowest log probability of a decision in each line of the merged text; None without a target."""
    windows: tuple[LineRange, ...] = ()
    """The lines of the original that the target decided; empty if it decided the whole file."""
    note: str = ""
    """Why a fallback took the target's place."""
    error: ApplyError | None = None
    """Why the target gave no answer.  The request ends in this error if the fallback fails a check."""

    def fall_back(self, job: EditJob, note: str) -> Outcome:
        """Return this outcome with the predicted merge instead of the target's text."""
        merged = replace(self, merged=job.prediction.text, strategy="fallback", note=note)
        return replace(merged, confidence=None, line_logprobs=None, agreement=None)


MAX_REASONS = 4
"""A refusal gives at most this many reasons."""
StrategyRun = Generator[TokenEvent | NextPass, Steps, Outcome]
"""A generator that the caller drives like `target.Deciding`.  It returns the outcome of the job."""


def decide(request: ApplyRequest, runtime: Runtime, edit: ReadEdit, deadline: Deadline) -> StrategyRun:
    """Choose and run a strategy, as in the README's table.  Raises ApplyError."""
    job = edit.job
    is_guess = job.prediction.certainty is Certainty.GUESS
    if not edit.needs_target:
        if kind_of(job) == "instruction":
            name = request.model or runtime.models[0]
            remedy = "send an `update`, or name an instruct model in `model`, with strategy auto or model"
            no_model = "strategy exact uses no model, and only a model follows instructions"
            message = no_model if request.strategy == "exact" else f"the model {name} does not follow instructions"
            raise InstructionUnsupported(message, value=request.instruction[:200], remedy=remedy)
        if is_guess and request.strategy == "exact":
            raise unclear_error(request, edit)
        return Outcome(job.prediction.text, "exact")
    try:
        return (yield from _by_target(request, runtime, edit, deadline))
    except (ContextLimitExceeded, Truncated) as error:
        note = f"the model gave no answer: {error}"
        if isinstance(error, ContextLimitExceeded) and not is_guess:
            error.remedy += f", or use strategy exact: its merge is {job.prediction.certainty}"
        if may_fall_back(request, job) and request.max_tokens is None:
            return Outcome(job.prediction.text, "fallback", note=note, error=error)
        raise


def unclear_error(request: ApplyRequest, edit: ReadEdit) -> NeedsMoreContext:
    """Return the error for an edit that has no reading with enough probability."""
    job = edit.job
    sure, needed = how_sure(job.prediction)
    reasons = "; ".join(job.prediction.reasons[:MAX_REASONS])
    remedy = (
        "show the unchanged lines of the file above and below each change, with a marker for what you leave out, "
        "or let a model decide (strategy model)"
    )
    message = f"the edit does not say clearly what becomes of the file: {reasons}"
    error = NeedsMoreContext(message, value=sure, limit=needed, remedy=remedy)
    path = (request.path or "file") if request.diff else None
    error.failures = [one.as_dict() for one in job.prediction.failures]
    error.source_sha256 = hash_of(request.original, edit.source) if error.failures else ""
    error.readings = [asdict(one) for one in all_readings(job.prediction, job.original, path=path)]
    return error


def kind_of(job: EditJob) -> Kind | None:
    """Return the kind of decision that is left.  The result is None if a program applied the edit as its format
    demands.  It is also None if the edit's quotes were found and nothing changes: a target would write the whole file
    for nothing."""
    prediction = job.prediction
    if not job.update.strip():
        return "instruction"
    is_quoted = prediction.probability is None
    is_there = prediction.certainty is Certainty.LIKELY and all(op.kind == "keep" for op in prediction.ops)
    if prediction.determined or (is_quoted and (prediction.certainty is Certainty.CERTAIN or is_there)):
        return None
    return prediction.certainty.value


def needs_target(request: ApplyRequest, job: EditJob, runtime: Runtime) -> bool:
    """Tell whether a target decides: the request asks for it, or the target may decide such edits."""
    if request.strategy != "auto" or request.base is not None:
        return request.strategy == "model"
    kind = kind_of(job)
    return kind is not None and runtime.may_decide(request.model, kind)


def may_fall_back(request: ApplyRequest, job: EditJob) -> bool:
    """Tell whether the predicted merge may replace the target's answer.  A doubt about the merge remains."""
    return request.strategy == "auto" and job.prediction.certainty is not Certainty.GUESS


def _by_target(request: ApplyRequest, runtime: Runtime, edit: ReadEdit, deadline: Deadline) -> StrategyRun:
    """Let the target decide the whole file, or only its touched regions.

    The target decides only regions in three cases: windows are set to `always` and save at least half of the lines; the
    file has at least as many lines as the context has tokens; or the whole file turns out not to fit.  With windows set
    to `never`, the target always decides the whole file.
    """
    target, job, touched = runtime.load(request.model or runtime.models[0]), edit.job, edit.regions
    info = target.info
    if not job.update.strip() and not info.takes_instructions:
        message = f"the model {info.name} merges edits but does not follow instructions"
        remedy = "send an `update`, or use an instruct model"
        raise InstructionUnsupported(message, value=request.instruction[:200], remedy=remedy)
    windows = info.windows if runtime.windows == "auto" else runtime.windows
    regions = touched if _is_decided_in_windows(job, touched, info, windows) else ()
    tried: list[Sequence[Region]] = []
    while True:  # with smaller regions each time, until they fit
        try:
            return (yield from _decided_by(target, request, runtime, edit, regions, deadline))
        except ContextLimitExceeded:
            if windows == "never" or not touched:
                raise
            tried.append(regions)
            smallest = tuple(find_regions(job.prediction, job.original, job.language, scope_lines=0))
            narrower = [one for one in (touched, smallest) if one and one not in tried]
            if not narrower:
                raise
            regions = narrower[0]


def _is_decided_in_windows(job: EditJob, touched: Sequence[Region], info: TargetInfo, windows: str) -> bool:
    """Tell whether the target decides only the touched regions, without trying the whole file first."""
    n_lines = job.original.count("\n") + 1
    if windows != "never" and info.context_limit is not None and n_lines >= info.context_limit:
        return True
    saves_half = 2 * sum(region.n_lines for region in touched) <= n_lines
    return windows == "always" and n_lines >= LONG_FILE_LINES and saves_half


def _decided_by(
    target: Decider,
    request: ApplyRequest,
    runtime: Runtime,
    edit: ReadEdit,
    regions: Sequence[Region],
    deadline: Deadline,
) -> StrategyRun:
    """Decide the whole file, or these regions of it.

    If the target accepts a scored text, that text is taken.  Otherwise the target decides token by token.
    """
    job, info, wanted = edit.job, target.info, request.drafter or runtime.default_drafter
    parts = [cut_job(job, region) for region in regions] or [job]
    weighed = NOTHING
    if job.update.strip():
        weighed = yield from weigh(target, parts, request, runtime.thresholds_of(info), deadline)
    if (decided := weighed.taken) is not None:
        strategy: RanStrategy = "confirmed"
    else:
        strategy = "model"
        decided = yield from target.decide(parts, request, wanted, deadline, is_streamed=not regions)
    merged, starts = decided[0].merged, [0]
    if regions:
        merged, starts = splice(job.prediction, regions, [one.merged for one in decided])
    return Outcome(
        merged,
        "windowed" if regions and strategy == "model" else strategy,
        sum_stats([weighed.spent, joint_stats([one.stats for one in decided])]),
        info,
        wanted if weighed.taken is None and info.determinism is not None else None,
        agreement=merged == job.prediction.text,
        confidence=confidence_of(decided),
        line_logprobs={
            start + line: logprob
            for start, one in zip(starts, decided, strict=True)
            for line, logprob in one.line_logprobs.items()
        },
        windows=tuple(LineRange(region.first_line, region.last_line) for region in regions),
    )


# -- one scoring pass in the place of decoding token by token ----------------------------------------------------------
class Weighed(NamedTuple):
    """The text chosen for each part; None if the target has to decide token by token.  `spent`: the counts of scored
    texts that were not chosen."""

    taken: list[Decided] | None
    spent: DecodeStats


NOTHING = Weighed(None, DecodeStats())


def weigh(
    target: Decider,
    parts: Sequence[EditJob],
    request: ApplyRequest,
    thresholds: Thresholds,
    deadline: Deadline,
) -> Generator[TokenEvent | NextPass, Steps, Weighed]:
    """Let the target score the merge of these parts (the whole file, or its windows).

    The target decides token by token instead if it finds the merge too unlikely, if the merge is a guess, or if the
    caller asks for the target's own text or for varied text.

    Raises ContextLimitExceeded if a part is too long, and Cancelled or DeadlineExceeded if nobody waits for the answer.
    """
    is_asked_to_write = request.strategy != "auto" or request.temperature != 0
    if is_asked_to_write or any(part.prediction.certainty is Certainty.GUESS for part in parts):
        return NOTHING
    scored = yield from target.score([(part, part.prediction) for part in parts], request, deadline)
    if scored is None:
        return NOTHING
    least = confidence_of(scored)
    is_certain = all(part.prediction.certainty is Certainty.CERTAIN for part in parts)  # no part has another merge
    is_unlikely = least is not None and least < (thresholds.confirm if is_certain else thresholds.choose)
    is_forbidden = any(one.logprob == -math.inf for one in scored)  # the constraint on the output forbids it
    if is_forbidden or is_unlikely:
        return Weighed(None, sum_stats(unused_stats(one.stats) for one in scored))
    return Weighed(list(scored), DecodeStats())


# -- verdicts on how the answer came about ----------------------------------------------------------------------------
def strategy_verdicts(job: EditJob, outcome: Outcome, confidence: float | None = None) -> Iterator[Verdict]:
    """Yield what the caller should know about how the answer came about.  `confidence`: the confidence of the answer,
    if it was measured."""
    target, is_fallback = outcome.target, outcome.strategy == "fallback"
    yield from job.findings
    if is_fallback:
        yield Verdict("fallback", "warning", f"{outcome.note}, so the merge is the one made without a model")
    if job.update.strip() and (unmet := unmet_order(job.instruction, job.original, outcome.merged)) is not None:
        yield Verdict("instruction", "warning", f"the instruction says {unmet}")
    if "completion_tokens" in outcome.stats.unknown:
        yield Verdict("usage", "pass", "the remote server reported no token counts; they are given as 0")
    is_by_model = target is not None and not is_fallback
    if (doubt := find_doubt(job, outcome.merged, is_by_model=is_by_model, confidence=confidence)) is not None:
        yield doubt
