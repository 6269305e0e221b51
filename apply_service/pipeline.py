"""One request from parse to result: the page to read first.

    validate -> detect the edit's format -> predict the merge -> (prompt -> decode with drafts) -> restore bytes ->
    checks -> result

`run` is a generator, the only path: streaming clients forward its token events, others wait for the last one.  Which
program or model decided is the result's `strategy`.  Sees no HTTP, no files, no torch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from apply_service.checks import run_checks
from apply_service.decoding.verify import Decoding
from apply_service.edits.detect import detect_format
from apply_service.edits.diff_text import unified_diff_text
from apply_service.edits.fidelity import SourceText, encode, normalise, restore
from apply_service.edits.ranges import text_edits
from apply_service.errors import (
    ApplyError,
    BadEncoding,
    CheckFailed,
    ContextLimitExceeded,
    EmptyUpdate,
    InstructionUnsupported,
    InvalidField,
    NeedsMoreContext,
    NulByte,
    StaleBase,
    Truncated,
    UnknownDrafter,
    UnknownModel,
    UnsupportedParameter,
)
from apply_service.protocols import CheckInput, Constraint, Drafter, EditJob, Engine, PromptFormat, SamplingParams
from apply_service.registry import CHECKS, DRAFTERS, EDIT_FORMATS, names, resolve
from apply_service.results import attribute_ops, hash_bytes, origin_spans
from apply_service.syntax.languages import detect_language
from apply_service.types import (
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    DecodeStats,
    FinalEvent,
    FinishReason,
    LineOp,
    Prediction,
    RanStrategy,
    Strategy,
    TokenEvent,
    Verdict,
)

SPARE_TOKENS = 64
MAX_TEMPERATURE = 2.0
STRATEGY_VERDICTS = ("fallback", "merge_certainty", "instruction")
"""Verdicts on how the answer came about, beside the checks of its text."""
INSTRUCTION_ONLY = "instruction"


@dataclass(frozen=True, slots=True)
class Target:
    """A model ready to decide: its engine and the prompt format it was trained for."""

    name: str
    engine: Engine
    prompt_format: PromptFormat


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
    note: str = ""
    """Why a fallback took the target's place."""


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._started
        self._started = now


def run(
    request: ApplyRequest, runtime: Runtime, cancelled: Callable[[], bool] = lambda: False
) -> Generator[ApplyEvent, None, None]:
    """Apply one edit.  Yields provisional token events, then exactly one final event; closing it frees the session.

    Raises:
        ApplyError: the request's one terminal event where it has no result; nothing yielded before it is an answer.
    """
    watch = Stopwatch()
    source = validate(request, runtime)
    language = detect_language(name=request.language, path=request.path)
    format_name, job = read_edit(request, language)
    watch.lap("predict_s")
    outcome = yield from decide(request, runtime, job, cancelled)
    watch.lap("decide_s")
    yield FinalEvent(finish(request, source, format_name, job, outcome, watch))


# -- before the target ------------------------------------------------------------------------------------------------
def validate(request: ApplyRequest, runtime: Runtime) -> SourceText:
    """Refuse what can't be applied, before any work.

    Raises:
        RequestError: the class says which field and why.
    """
    if not request.update.strip() and not request.instruction.strip():
        raise EmptyUpdate("there is no edit", value=request.update, remedy="send `update` or `instruction`")
    for name, text in (
        ("original", request.original),
        ("update", request.update),
        ("instruction", request.instruction),
    ):
        if "\0" in text:
            raise NulByte(
                f"`{name}` holds a NUL character", value=text.index("\0"), remedy="send text, not binary data"
            )
    _refuse_unknown_names(request, runtime)
    _refuse_bad_values(request)
    source = SourceText.of(request.original, request.encoding)
    if request.base_sha256 is not None and request.base_sha256.lower() != hash_bytes(encode(request.original, source)):
        raise StaleBase(
            "the original is not the one the edit was made for",
            value=request.base_sha256,
            limit=hash_bytes(encode(request.original, source)),
            remedy="read the file again and repeat the edit",
        )
    return source


def _refuse_unknown_names(request: ApplyRequest, runtime: Runtime) -> None:
    if request.model is not None and request.model not in runtime.models:
        raise UnknownModel(
            "this service has no such model",
            value=request.model,
            limit=list(runtime.models),
            remedy="name one of these",
        )
    if request.drafter is not None and request.drafter not in DRAFTERS:
        raise UnknownDrafter(
            "no such drafter", value=request.drafter, limit=list(names(DRAFTERS)), remedy="name one of these"
        )
    if unknown := sorted(request.on_verdict.keys() - {*CHECKS, *STRATEGY_VERDICTS}):
        limit = [*names(CHECKS), *STRATEGY_VERDICTS]
        raise InvalidField("`on_verdict` names unknown checks", value=unknown, limit=limit, remedy="name one of these")


def _refuse_bad_values(request: ApplyRequest) -> None:
    """What the front ends refuse as well, for callers of the library."""
    if request.strategy not in get_args(Strategy):
        raise InvalidField("no such strategy", value=request.strategy, limit=list(get_args(Strategy)))
    if request.constrain not in (None, "sources", "none"):
        raise InvalidField("no such constraint", value=request.constrain, limit=["sources", "none"])
    if not 0 <= request.temperature <= MAX_TEMPERATURE:
        raise InvalidField("`temperature` is out of range", value=request.temperature, limit=MAX_TEMPERATURE)
    if request.max_tokens is not None and request.max_tokens < 1:
        raise InvalidField("`max_tokens` must be positive", value=request.max_tokens, limit="1 or more")
    for name, text in (("update", request.update), ("instruction", request.instruction)):
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise BadEncoding(f"`{name}` holds a lone surrogate", value=name, remedy="send well-formed text")


def read_edit(request: ApplyRequest, language: str | None) -> tuple[str, EditJob]:
    """The edit's format, and the job with the predicted merge in it."""
    original, update = normalise(request.original), normalise(request.update)
    if update.strip():
        format_name = detect_format(update, named=request.format)
        edit_format = resolve(EDIT_FORMATS, format_name)()
        prediction = edit_format.predict(original, update, language=language, path=request.path)
    else:
        format_name, prediction = INSTRUCTION_ONLY, unchanged(original)
    return format_name, EditJob(original, update, request.instruction, request.path, language, prediction)


def unchanged(original: str) -> Prediction:
    """What a program can say of an instruction: nothing; the original is the draft."""
    ops = tuple(LineOp("keep", i, None, line) for i, line in enumerate(original.split("\n")))
    return Prediction(ops, (), Certainty.GUESS, ("an instruction determines no text",))


# -- who decides ------------------------------------------------------------------------------------------------------
def decide(
    request: ApplyRequest, runtime: Runtime, job: EditJob, cancelled: Callable[[], bool]
) -> Generator[TokenEvent, None, Outcome]:
    """The strategies, as in the README's table."""
    if request.strategy == "exact":
        return _by_program(job)
    if request.strategy == "auto" and job.prediction.determined:
        return Outcome(job.prediction.text, "exact", DecodeStats())
    may_fall_back = request.strategy == "auto" and job.prediction.certainty is Certainty.CERTAIN
    try:
        outcome = yield from _by_target(request, runtime, job, cancelled)
    except (ContextLimitExceeded, Truncated) as error:
        if may_fall_back and request.max_tokens is None and _is_clean(_checked(job, job.prediction.text)):
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


def _by_target(
    request: ApplyRequest, runtime: Runtime, job: EditJob, cancelled: Callable[[], bool]
) -> Generator[TokenEvent, None, Outcome]:
    target = runtime.load(request.model or runtime.models[0])
    if not job.update.strip() and not target.prompt_format.takes_instructions:
        raise InstructionUnsupported(
            f"{target.name} merges edits but does not follow instructions",
            value=request.instruction[:200],
            remedy="send an `update`, or use an instruct model",
        )
    decoding = open_decoding(request, runtime, job, target, cancelled)
    stream = target.prompt_format.open_stream()
    decision_logprobs: list[float] = []
    with closing(decoding.steps()) as steps:
        for step in steps:
            if step.logprobs is not None:
                decision_logprobs += [lp for lp, decided in zip(step.logprobs, step.decisions, strict=True) if decided]
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
    confidence = math.exp(min(decision_logprobs)) if decision_logprobs else None
    merged = target.prompt_format.decode_output(decoding.output_ids)
    agreement = merged == job.prediction.text
    return Outcome(merged, "model", decoding.stats, target, drafter_name(request, runtime), agreement, confidence)


def open_decoding(
    request: ApplyRequest, runtime: Runtime, job: EditJob, target: Target, cancelled: Callable[[], bool]
) -> Decoding:
    """A decoding ready to run: prompt, draft sources, constraint, limits."""
    prompt_format, engine = target.prompt_format, target.engine
    prompt_ids = prompt_format.encode_prompt(job)
    sources = prompt_format.encode_sources(job)
    drafter: Drafter = resolve(DRAFTERS, drafter_name(request, runtime))(sources)
    left = engine.context_limit - len(prompt_ids)
    longest = len(sources.original.ids) + len(sources.update.ids) + SPARE_TOKENS if job.update.strip() else left
    room = max(len(sources.predicted.ids) + 1, min(longest, left))
    return Decoding(
        engine=engine,
        prompt_ids=prompt_ids,
        drafter=drafter,
        max_new_tokens=room if request.max_tokens is None else request.max_tokens,
        stop_ids=prompt_format.stop_ids,
        sampling=SamplingParams(request.temperature, request.seed),
        constraint=_constraint(request, prompt_format, job),
        find_stop=prompt_format.stop_finder(job),
        cancelled=cancelled,
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


def drafter_name(request: ApplyRequest, runtime: Runtime) -> str:
    return request.drafter or runtime.default_drafter


def _or_fallback(job: EditJob, outcome: Outcome) -> Outcome:
    """The certain merge in the place of a target's answer that fails a check which the merge passes."""
    if _has_error(_checked(job, outcome.merged)) and _is_clean(_checked(job, job.prediction.text)):
        note = "the model's output failed a check"
        return outcome._replace(merged=job.prediction.text, strategy="fallback", confidence=None, note=note)
    return outcome


# -- after the target -------------------------------------------------------------------------------------------------
def finish(
    request: ApplyRequest, source: SourceText, format_name: str, job: EditJob, outcome: Outcome, watch: Stopwatch
) -> ApplyResult:
    """Restore the original's bytes, run the checks, and put the answer together.

    Raises:
        CheckFailed, Truncated: a check that the caller wants to fail has findings; truncation is one unless told
            otherwise, as an answer is never half a file.
    """
    ops = attribute_ops(job.original, outcome.merged, job.prediction)
    merged_code = restore(request.original, ops)
    watch.lap("restore_s")
    verdicts = (*_strategy_verdicts(job, outcome), *_checked(job, outcome.merged))
    _raise_failed(verdicts, {"truncation": "fail", **request.on_verdict})
    watch.lap("checks_s")
    watch.seconds["total_s"] = sum(watch.seconds.values())
    return ApplyResult(
        merged_code=merged_code,
        strategy=outcome.strategy,
        finish_reason=FinishReason.STOP,
        format=format_name,
        language=job.language,
        model=None if outcome.target is None else outcome.target.name,
        drafter=outcome.drafter,
        certainty=job.prediction.certainty,
        reasons=job.prediction.reasons,
        agreement=outcome.agreement,
        determinism=None if outcome.target is None else outcome.target.engine.determinism,
        verdicts=verdicts,
        edits=text_edits(request.original, merged_code),
        spans=origin_spans(ops, is_from_model=outcome.target is not None),
        confidence=outcome.confidence,
        source_sha256=hash_bytes(encode(request.original, source)),
        result_sha256=hash_bytes(encode(merged_code, source)),
        encoding=request.encoding,
        seed=request.seed,
        stats=outcome.stats,
        timings_s=dict(watch.seconds),
        diff=unified_diff_text(request.original, merged_code, request.path or "file") if request.diff else None,
    )


def _checked(job: EditJob, merged: str) -> tuple[Verdict, ...]:
    return run_checks(CheckInput(job.original, merged, job.update, job.prediction, job.language, FinishReason.STOP))


def _has_error(verdicts: tuple[Verdict, ...]) -> bool:
    return any(verdict.severity == "error" for verdict in verdicts)


def _is_clean(verdicts: tuple[Verdict, ...]) -> bool:
    return all(verdict.is_pass for verdict in verdicts)


def _strategy_verdicts(job: EditJob, outcome: Outcome) -> Iterator[Verdict]:
    """What the caller should know of how the answer came about."""
    if outcome.strategy == "fallback":
        yield Verdict("fallback", "warning", f"{outcome.note}; this is the predicted merge")
    if job.instruction.strip() and not _is_instruction_read(outcome):
        yield Verdict("instruction", "warning", "whoever decided reads the update alone, not the instruction")
    if outcome.strategy == "exact" and job.prediction.certainty is not Certainty.CERTAIN:
        yield Verdict(
            "merge_certainty", "warning", "the merge is likely, not certain: " + "; ".join(job.prediction.reasons)
        )


def _is_instruction_read(outcome: Outcome) -> bool:
    return outcome.target is not None and outcome.target.prompt_format.takes_instructions


def _raise_failed(verdicts: tuple[Verdict, ...], on_verdict: Mapping[str, str]) -> None:
    failed = [v for v in verdicts if v.severity in ("warning", "error") and on_verdict.get(v.check) == "fail"]
    if failed:
        kind = Truncated if failed[0].check == "truncation" else CheckFailed
        raise kind(
            f"{failed[0].check}: {failed[0].message}", value=sorted({v.check for v in failed}), remedy="see the verdict"
        )


def apply(request: ApplyRequest, runtime: Runtime) -> ApplyResult:
    """`run` for callers that only want the answer."""
    for event in run(request, runtime):
        if isinstance(event, FinalEvent):
            return event.result
    raise ApplyError("the pipeline ended without a result")
