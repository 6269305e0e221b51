"""One request from its edit to its answer: the page to read first.

    read_request   validate -> find the edit in the reply -> predict the merge
    decide         a program, or a target that verifies drafts (`strategies`)
    finish         check -> fall back on the prediction where that is better -> restore the original's bytes -> answer

`run` does all three.  It is a generator, and the only path: streaming clients forward its token events, others wait
for the last one, and the engine packs the passes of all requests that run at the time.  `read_request` and `finish`
are pure, so that a service may have them done in worker processes.  Knows no HTTP, no files, no torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from apply_service.checks import run_checks
from apply_service.confidence import confidence_in
from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass, drive_alone
from apply_service.decoding.verify import Step
from apply_service.doubt import chance_of
from apply_service.edits.diff import text_hunks, unified_diff_text
from apply_service.edits.fidelity import (
    SourceText,
    encode,
    normalise,
    refuse_altered,
    restore,
    with_mark,
    with_own_ends,
)
from apply_service.edits.reply import name_finding, read_reply
from apply_service.errors import ApplyError, CheckFailed, Truncated
from apply_service.protocols import CheckInput, EditJob
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.results import attribute_ops, confident_hunks, hash_bytes, origin_spans
from apply_service.runtime import Runtime
from apply_service.strategies import Outcome, decide, may_fall_back, needs_target, strategy_verdicts
from apply_service.syntax.languages import detect_language
from apply_service.types import (
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    FinalEvent,
    FinishReason,
    LineOp,
    Prediction,
    Verdict,
)
from apply_service.validation import validate

BY_MERGER = ("exact", "confirmed", "lattice", "fallback")
"""Strategies whose text is a reading of the merger, which has counted how often it is right."""
INSTRUCTION_ONLY = "instruction"
READS_BYTES = frozenset({"unified_diff"})
"""Formats whose edits tell line ends: their reader gets the texts as they came."""


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._started
        self._started = now


class ReadEdit(NamedTuple):
    """A valid request, and what a program makes of its edit.  Can be sent to another process."""

    source: SourceText
    format_name: str
    job: EditJob
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class InWorker:
    """The last item of a run whose answer is to be made in a worker process: what to call there."""

    call: Callable[[], ApplyResult]


Running = Generator[ApplyEvent | NextPass | InWorker, tuple[Step | None, ...] | None, None]


def run(
    request: ApplyRequest,
    runtime: Runtime,
    deadline: Deadline | None = None,
    edit: ReadEdit | None = None,
    *,
    finishes_in_worker: bool = False,
) -> Running:
    """Apply one edit, taking turns with others.  `edit`: what `read_request` gave, where it was called before.

    Yields provisional token events, then exactly one final event; in between, whenever it needs a pass of the target,
    its decodings: whoever drives it runs the pass, for many requests at once, and sends in what that committed
    (`decoding.scheduler`).  Closing it frees its slots.

    Raises:
        ApplyError: the request's one terminal event where it has no result; nothing yielded before it is an answer.
    """
    edit = read_request(request, runtime) if edit is None else edit
    if deadline is None:  # nobody accepted the request before; the time that a model takes to load does not count
        if needs_target(request, edit.job):
            runtime.load(request.model or runtime.models[0])
        deadline = Deadline(request.timeout_s, spent_s=edit.seconds)
    deadline.check()
    watch = Stopwatch({"predict_s": edit.seconds})
    outcome = yield from decide(request, runtime, edit.job, deadline)
    watch.lap("decide_s")
    if finishes_in_worker:
        yield InWorker(partial(finish, request, edit, outcome, watch.seconds))
        return
    result = finish(request, edit, outcome, watch.seconds)
    deadline.check()
    yield FinalEvent(result)


# -- before the target ------------------------------------------------------------------------------------------------
def read_request(request: ApplyRequest, runtime: Runtime) -> ReadEdit:
    """Validate a request, find its edit in the reply, and predict the merge.  Raises ApplyError."""
    began = time.perf_counter()
    source = validate(request, runtime)
    language = detect_language(name=request.language, path=request.path)
    format_name, job = read_edit(request, language)
    return ReadEdit(source, format_name, job, time.perf_counter() - began)


def read_edit(request: ApplyRequest, language: str | None) -> tuple[str, EditJob]:
    """The edit's format, and the job with the predicted merge in it."""
    original, update = normalise(request.original), normalise(request.update)
    if not update.strip():
        job = EditJob(original, update, request.instruction, request.path, language, unchanged(original))
        return INSTRUCTION_ONLY, job
    reply = read_reply(update, original=original, path=request.path, language=language, named=request.format)
    original_read, update_read = original, reply.update
    if reply.format in READS_BYTES:
        original_read = with_mark(request.original, request.encoding)
        update_read = with_own_ends(reply.update, request.update)
    prediction = resolve(EDIT_FORMATS, reply.format)().predict(
        original_read,
        update_read,
        language=language,
        path=request.path,
        instruction="\n".join(said for said in (request.instruction, reply.prose) if said),
    )
    left_out = name_finding(reply, prediction)
    findings = reply.findings if left_out is None else (*reply.findings, left_out)
    return reply.format, EditJob(
        original, reply.update, request.instruction, request.path, language, prediction, findings
    )


def unchanged(original: str) -> Prediction:
    """What a program can say of an instruction: nothing; the original is the draft."""
    ops = tuple(LineOp("keep", i, None, line) for i, line in enumerate(original.split("\n")))
    return Prediction(ops, (), Certainty.GUESS, ("an instruction determines no text",))


# -- after the target -------------------------------------------------------------------------------------------------
def finish(
    request: ApplyRequest, edit: ReadEdit, outcome: Outcome, seconds: Mapping[str, float] | None = None
) -> ApplyResult:
    """Check the text, restore the original's bytes, and put the answer together.  `seconds`: by earlier stage.

    Raises:
        AlteredBytes: a byte outside the edit would change.
        CheckFailed, Truncated: a check that the caller wants to fail has findings; truncation is one unless told
            otherwise, as an answer is never half a file.
    """
    watch, job = Stopwatch(dict(seconds or {})), edit.job
    checks = _check(job, outcome.merged)
    if outcome.error is not None and not _is_clean(checks):
        raise outcome.error
    if outcome.target is not None and may_fall_back(request, job) and _has_error(checks):
        of_prediction = _check(job, job.prediction.text)
        if _is_clean(of_prediction):
            outcome, checks = outcome.fall_back(job, "the model's output failed a check"), of_prediction
    watch.lap("checks_s")
    ops = attribute_ops(job.original, outcome.merged, job.prediction)
    merged_code = restore(request.original, ops, job.prediction.ends if ops is job.prediction.ops else None)
    refuse_altered(request.original, merged_code, ops)
    watch.lap("restore_s")
    verdicts = (*strategy_verdicts(job, outcome), *checks)
    _raise_failed(verdicts, {"truncation": "fail", **request.on_verdict})
    result = _answer(request, edit, outcome, merged_code, ops, checks, verdicts, watch.seconds)
    watch.lap("answer_s")
    watch.seconds["total_s"] = sum(watch.seconds.values())
    return result


def _answer(
    request: ApplyRequest,
    edit: ReadEdit,
    outcome: Outcome,
    merged_code: str,
    ops: Sequence[LineOp],
    checks: tuple[Verdict, ...],
    verdicts: tuple[Verdict, ...],
    seconds: dict[str, float],
) -> ApplyResult:
    """What callers get of a text that has passed.  `checks` count for the confidence, `verdicts` are all that is said;
    `seconds` is handed out as it is and may still grow."""
    job = edit.job
    hunks = text_hunks(request.original, merged_code)
    confidence = confidence_in(
        request,
        outcome.target,
        raw=outcome.confidence,
        agreement=outcome.agreement,
        prediction=job.prediction,
        checks=checks,
        chance=chance_of(job.prediction, outcome.merged) if outcome.strategy in BY_MERGER else None,
    )
    target, diff = outcome.target, None
    if request.diff:
        diff = unified_diff_text(request.original, merged_code, request.path or "file")
    return ApplyResult(
        merged_code=merged_code,
        strategy=outcome.strategy,
        windows=outcome.windows,
        invented_lines=outcome.invented_lines,
        finish_reason=FinishReason.STOP,
        format=edit.format_name,
        language=job.language,
        model=None if target is None else target.name,
        drafter=outcome.drafter,
        certainty=job.prediction.certainty,
        reasons=job.prediction.reasons,
        agreement=outcome.agreement,
        determinism=None if target is None else target.determinism,
        verdicts=verdicts,
        edits=tuple(text_edit for hunk in hunks for text_edit in hunk.edits),
        spans=origin_spans(ops, is_from_model=target is not None),
        confidence=confidence.answer,
        confidence_kind=confidence.kind,
        source_sha256=hash_bytes(encode(request.original, edit.source)),
        result_sha256=hash_bytes(encode(merged_code, edit.source)),
        encoding=request.encoding,
        seed=request.seed,
        stats=outcome.stats,
        timings_s=seconds,
        diff=diff,
        hunks=confident_hunks(hunks, merged_code, outcome.line_logprobs, confidence.of_hunk),
    )


def _check(job: EditJob, merged: str) -> tuple[Verdict, ...]:
    return run_checks(CheckInput(job.original, merged, job.update, job.prediction, job.language, FinishReason.STOP))


def _is_clean(verdicts: tuple[Verdict, ...]) -> bool:
    return all(verdict.is_pass for verdict in verdicts)


def _has_error(verdicts: tuple[Verdict, ...]) -> bool:
    return any(verdict.severity == "error" for verdict in verdicts)


def _raise_failed(verdicts: tuple[Verdict, ...], on_verdict: Mapping[str, str]) -> None:
    failed = [v for v in verdicts if v.severity in ("warning", "error") and on_verdict.get(v.check) == "fail"]
    if failed:
        kind = Truncated if failed[0].check == "truncation" else CheckFailed
        raise kind(
            f"{failed[0].check}: {failed[0].message}",
            value=sorted({v.check for v in failed}),
            remedy=f'correct the edit, or accept the finding: on_verdict {{"{failed[0].check}": "warn"}}',
        )


# -- callers ----------------------------------------------------------------------------------------------------------
def run_alone(request: ApplyRequest, runtime: Runtime, deadline: Deadline | None = None) -> Generator[ApplyEvent]:
    """`run` for callers with one request at a time: its events alone.  Raises as `run` does."""
    return drive_alone(run(request, runtime, deadline))  # type: ignore[arg-type]


def apply(request: ApplyRequest, runtime: Runtime) -> ApplyResult:
    """`run_alone` for callers that only want the answer."""
    for event in run_alone(request, runtime):
        if isinstance(event, FinalEvent):
            return event.result
    raise ApplyError("the pipeline ended without a result")


def read_or_apply(request: ApplyRequest, runtime: Runtime) -> ApplyResult | ReadEdit:
    """The answer where a program gives it, else the edit as it was read, for `run`: what a service has done in worker
    processes.  The runtime's targets are not asked for.  Raises as `run` does."""
    edit = read_request(request, runtime)
    if needs_target(request, edit.job):
        return edit
    (final,) = run(request, runtime, Deadline(), edit)
    assert isinstance(final, FinalEvent), "a program needs no passes"
    return final.result
