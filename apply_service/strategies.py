"""Who decides: a program, a target model with drafts, or the program again where the target fails.

The middle of a request's path: `pipeline` has read the edit, and afterwards restores bytes and checks.  The README's
table says when which strategy runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from apply_service.checks import run_checks
from apply_service.decoding.verify import Decoding, Step
from apply_service.errors import (
    ContextLimitExceeded,
    InstructionUnsupported,
    NeedsMoreContext,
    Truncated,
    UnsupportedParameter,
)
from apply_service.protocols import (
    CheckInput,
    Constraint,
    DraftContext,
    Drafter,
    EditJob,
    Engine,
    PromptFormat,
    SamplingParams,
)
from apply_service.registry import DRAFTERS, resolve
from apply_service.types import (
    ApplyRequest,
    Certainty,
    DecodeStats,
    FinishReason,
    RanStrategy,
    TokenEvent,
    Verdict,
)

SPARE_TOKENS = 64
STRATEGY_VERDICTS = ("fallback", "merge_certainty", "instruction", "replay")
"""Verdicts on how the answer came about, beside the checks of its text; `drafts` only tells, and never fails."""

REPLAYED = (
    "no model decided: random weights replayed the predicted merge, or the answer that a measurement knew; only the "
    "speed means something"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A model ready to decide: its engine and the prompt format it was trained for."""

    name: str
    engine: Engine
    prompt_format: PromptFormat
    undrafted: str = ""
    """Why the target takes no drafts; empty where it does."""
    is_replay: bool = False
    """Whether it has random weights and writes what is known beforehand, to measure speed (`engine.replay`)."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What requests need besides themselves; for one thread at a time, as its targets are.  `load` gives a target by
    name, loading it on first use."""

    load: Callable[[str], Target]
    models: tuple[str, ...] = ("embedded",)
    """What a request may name; the first is the default."""
    default_drafter: str = "merged_edit"


class Outcome(NamedTuple):
    """What a strategy made of a job, before bytes are restored."""

    merged: str
    strategy: RanStrategy
    stats: DecodeStats
    target: Target | None = None
    drafter: str | None = None
    agreement: bool | None = None
    confidence: float | None = None
    line_logprobs: Mapping[int, float] | None = None
    """Least log probability of a decision of the target at each line of the merged text; None where none decided."""
    note: str = ""
    """Why a fallback took the target's place."""


Deciding = Generator[TokenEvent | Decoding, Step | None, Outcome]
"""Yields provisional text and, whenever it needs a pass, its decoding; wants what the pass committed sent in (None:
nothing yet), or its error thrown in."""


def decide(request: ApplyRequest, runtime: Runtime, job: EditJob, cancelled: Callable[[], bool]) -> Deciding:
    """The strategies, as in the README's table."""
    if request.strategy == "exact":
        return _by_program(job)
    if request.strategy == "auto" and job.prediction.determined:
        return Outcome(job.prediction.text, "exact", DecodeStats())
    may_fall_back = request.strategy == "auto" and job.prediction.certainty is Certainty.CERTAIN
    try:
        outcome = yield from _by_target(request, runtime, job, cancelled)
    except (ContextLimitExceeded, Truncated) as error:
        if may_fall_back and request.max_tokens is None and _is_clean(checked(job, job.prediction.text)):
            return Outcome(job.prediction.text, "fallback", DecodeStats(), note=f"the model gave no answer: {error}")
        if isinstance(error, ContextLimitExceeded) and job.prediction.certainty is not Certainty.GUESS:
            error.remedy += f", or strategy exact: the merge is {job.prediction.certainty}"
        raise
    return _or_fallback(job, outcome) if may_fall_back else outcome


def _by_program(job: EditJob) -> Outcome:
    if job.prediction.certainty is Certainty.GUESS:
        raise NeedsMoreContext(
            "the edit does not determine the result: " + "; ".join(job.prediction.reasons),
            value=list(job.prediction.reasons),
            remedy="show more unchanged lines around each change, or let a model decide (strategy auto or model)",
        )
    return Outcome(job.prediction.text, "exact", DecodeStats())


def _by_target(request: ApplyRequest, runtime: Runtime, job: EditJob, cancelled: Callable[[], bool]) -> Deciding:
    target = runtime.load(request.model or runtime.models[0])
    if not job.update.strip() and not target.prompt_format.takes_instructions:
        raise InstructionUnsupported(
            f"{target.name} merges edits but does not follow instructions",
            value=request.instruction[:200],
            remedy="send an `update`, or use an instruct model",
        )
    stream = target.prompt_format.open_stream()
    logprobs: list[float | None] = []
    with open_decoding(request, runtime, job, target, cancelled) as decoding:
        while decoding.finish_reason is None:
            step = yield decoding
            if step is None:
                continue
            known: Sequence[float | None] = step.logprobs or [None] * len(step.ids)
            logprobs += [logprob if decided else None for logprob, decided in zip(known, step.decisions, strict=True)]
            if text := stream.push(step.ids):
                yield TokenEvent(text)
    if text := stream.finish():
        yield TokenEvent(text)
    if decoding.finish_reason is not FinishReason.STOP:
        raise Truncated(
            "the output reached its token limit",
            value=len(decoding.output_ids),
            limit=decoding.max_new_tokens,
            remedy="raise max_tokens",
        )
    by_line = _by_line(logprobs, target.prompt_format.lines_of(decoding.output_ids))
    confidence = math.exp(min(by_line.values())) if by_line else None
    merged = target.prompt_format.decode_output(decoding.output_ids)
    agreement = None if target.is_replay else merged == job.prediction.text
    drafter = drafter_name(request, runtime, target)
    return Outcome(merged, "model", decoding.stats, target, drafter, agreement, confidence, by_line)


def _by_line(logprobs: Sequence[float | None], places: Sequence[tuple[int, int]]) -> dict[int, float]:
    """The least log probability of a decision at each line, given each token's (None: forced, or not known)."""
    least: dict[int, float] = {}
    for logprob, (first, last) in zip(logprobs, places, strict=True):
        if logprob is not None:
            for line in range(first, last + 1):
                least[line] = min(logprob, least.get(line, logprob))
    return least


def open_decoding(
    request: ApplyRequest, runtime: Runtime, job: EditJob, target: Target, cancelled: Callable[[], bool]
) -> Decoding:
    """A decoding ready to run: prompt, draft sources, constraint, limits."""
    prompt_format, engine = target.prompt_format, target.engine
    prompt_ids = prompt_format.encode_prompt(job)
    sources = prompt_format.encode_sources(job)
    left = engine.context_limit - len(prompt_ids)
    longest = len(sources.original.ids) + len(sources.update.ids) + SPARE_TOKENS if job.update.strip() else left
    room = max(len(sources.predicted.ids) + 1, min(longest, left))
    max_new_tokens = room if request.max_tokens is None else request.max_tokens
    context = DraftContext(sources, prompt_ids, max_new_tokens=max_new_tokens)
    drafter: Drafter = resolve(DRAFTERS, drafter_name(request, runtime, target))(context)
    return Decoding(
        engine=engine,
        prompt_ids=prompt_ids,
        drafter=drafter,
        max_new_tokens=max_new_tokens,
        stop_ids=prompt_format.stop_ids,
        sampling=SamplingParams(request.temperature, request.seed),
        constraint=_constraint(request, prompt_format, job),
        find_stop=prompt_format.stop_finder(job),
        cancelled=cancelled,
        owner=request.owner,
        deadline=None if request.timeout_s is None else time.monotonic() + request.timeout_s,
    )


def _constraint(request: ApplyRequest, prompt_format: PromptFormat, job: EditJob) -> Constraint | None:
    if request.constrain == "none":
        return None
    constraint = prompt_format.constraint(job)
    if constraint is None and request.constrain == "sources":
        raise UnsupportedParameter(
            f"the prompt format {prompt_format.name} has no constraint to the sources",
            value="sources",
            limit="none",
            remedy="leave `constrain` out, or use the embedded model",
        )
    return constraint


def drafter_name(request: ApplyRequest, runtime: Runtime, target: Target) -> str:
    if target.undrafted:
        return "none"
    return request.drafter or runtime.default_drafter


def _or_fallback(job: EditJob, outcome: Outcome) -> Outcome:
    """The certain merge in the place of a target's answer that fails a check which the merge passes."""
    if _has_error(checked(job, outcome.merged)) and _is_clean(checked(job, job.prediction.text)):
        note = "the model's output failed a check"
        return outcome._replace(
            merged=job.prediction.text, strategy="fallback", confidence=None, line_logprobs=None, note=note
        )
    return outcome


def checked(job: EditJob, merged: str) -> tuple[Verdict, ...]:
    return run_checks(CheckInput(job.original, merged, job.update, job.prediction, job.language, FinishReason.STOP))


def _has_error(verdicts: tuple[Verdict, ...]) -> bool:
    return any(verdict.severity == "error" for verdict in verdicts)


def _is_clean(verdicts: tuple[Verdict, ...]) -> bool:
    return all(verdict.is_pass for verdict in verdicts)


def strategy_verdicts(job: EditJob, outcome: Outcome) -> Iterator[Verdict]:
    """What the caller should know of how the answer came about."""
    if outcome.strategy == "fallback":
        yield Verdict("fallback", "warning", f"{outcome.note}; this is the predicted merge")
    if outcome.target is not None and outcome.target.is_replay:
        yield Verdict("replay", "warning", REPLAYED)
    if job.instruction.strip() and not _is_instruction_read(outcome):
        yield Verdict("instruction", "warning", "whoever decided reads the update alone, not the instruction")
    if outcome.target is not None and outcome.target.undrafted:
        yield Verdict("drafts", "pass", f"decoded without drafts: {outcome.target.undrafted}")
    if outcome.strategy == "exact" and job.prediction.certainty is not Certainty.CERTAIN:
        yield Verdict(
            "merge_certainty", "warning", "the merge is likely, not certain: " + "; ".join(job.prediction.reasons)
        )


def _is_instruction_read(outcome: Outcome) -> bool:
    if outcome.target is None or outcome.strategy == "fallback":
        return False
    return outcome.target.prompt_format.takes_instructions
