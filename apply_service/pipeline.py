"""One request from parse to result: the page to read first.

    validate -> read the reply -> predict the merge -> (prompt -> decode with drafts) -> restore bytes ->
    checks -> result

`run` is a generator, the only path: streaming clients forward its token events, others wait for the last one, and the
engine packs the passes of all requests that run at the time.  Which
program or model decided is the result's `strategy`.  Sees no HTTP, no files, no torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apply_service.confidence import confidence_in
from apply_service.decoding.scheduler import Need, drive_alone
from apply_service.decoding.verify import Step
from apply_service.doubt import chance_of
from apply_service.edits.diff_text import unified_diff_text
from apply_service.edits.fidelity import (
    SourceText,
    encode,
    normalise,
    refuse_altered,
    restore,
    with_mark,
    with_own_ends,
)
from apply_service.edits.ranges import text_hunks
from apply_service.edits.reply import name_finding, read_reply
from apply_service.errors import (
    ApplyError,
    CheckFailed,
    DeadlineExceeded,
    Truncated,
)
from apply_service.protocols import EditJob
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.results import attribute_ops, confident_hunks, hash_bytes, origin_spans
from apply_service.runtime import Runtime
from apply_service.strategies import Outcome, checked, decide, strategy_verdicts
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


Running = Generator[ApplyEvent | Need, tuple[Step | None, ...] | None, None]


def run(
    request: ApplyRequest,
    runtime: Runtime,
    cancelled: Callable[[], bool] = lambda: False,
    read: ReadEdit | None = None,
) -> Running:
    """Apply one edit, taking turns with others.  `read`: where it was read before, by `read_request`.

    Yields provisional token events, then exactly one final event; in between, whenever it needs a pass of the target,
    its decodings: whoever drives it runs the pass, for many requests at once, and sends in what it committed; or that
    it waits for a target elsewhere (`decoding.scheduler`).  Closing it frees the session.

    Raises:
        ApplyError: the request's one terminal event where it has no result; nothing yielded before it is an answer.
    """
    began = time.monotonic()
    source, format_name, job, seconds = read_request(request, runtime) if read is None else read
    watch = Stopwatch({"predict_s": seconds})
    request = _with_deadline(request, runtime, job, began)
    _refuse_late(request)
    outcome = yield from decide(request, runtime, job, cancelled)
    watch.lap("decide_s")
    result = finish(request, source, format_name, job, outcome, watch)
    _refuse_late(request)
    yield FinalEvent(result)


def answer_without_target(request: ApplyRequest, runtime: Runtime) -> ApplyResult | ReadEdit:
    """The answer, where a program gives it, else the edit as it was read, for `run`.  Raises as `run` does."""
    read = read_request(request, runtime)
    if _needs_target(request, read.job):
        return read
    return next(event.result for event in run(request, runtime, read=read) if isinstance(event, FinalEvent))


# -- before the target ------------------------------------------------------------------------------------------------
class ReadEdit(NamedTuple):
    """A request that was found good, and what a program makes of its edit."""

    source: SourceText
    format_name: str
    job: EditJob
    seconds: float


def read_request(request: ApplyRequest, runtime: Runtime) -> ReadEdit:
    """The part of `run` that looks into the edit: no target has a part in it.  Raises as `run` does."""
    began = time.perf_counter()
    source = validate(request, runtime)
    language = detect_language(name=request.language, path=request.path)
    format_name, job = read_edit(request, language)
    return ReadEdit(source, format_name, job, time.perf_counter() - began)


def _needs_target(request: ApplyRequest, job: EditJob) -> bool:
    return request.strategy == "model" or (request.strategy == "auto" and not job.prediction.determined)


def _with_deadline(request: ApplyRequest, runtime: Runtime, job: EditJob, began: float) -> ApplyRequest:
    """Where nobody accepted it earlier, its deadline counts from `began` on; loading the model it needs does not."""
    if request.deadline is not None or request.timeout_s is None:
        return request
    before = time.monotonic()
    if _needs_target(request, job):
        runtime.load(request.model or runtime.models[0])
    return replace(request, deadline=began + request.timeout_s + time.monotonic() - before)


def _refuse_late(request: ApplyRequest) -> None:
    if request.deadline is not None and time.monotonic() > request.deadline:
        raise DeadlineExceeded(
            "the deadline passed before the edit was applied",
            value=request.timeout_s,
            limit=request.timeout_s,
            remedy="allow more time or send a smaller edit",
        )


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
    request: ApplyRequest, source: SourceText, format_name: str, job: EditJob, outcome: Outcome, watch: Stopwatch
) -> ApplyResult:
    """Restore the original's bytes, run the checks, and put the answer together.

    Raises:
        AlteredBytes: a byte outside the edit would change.
        CheckFailed, Truncated: a check that the caller wants to fail has findings; truncation is one unless told
            otherwise, as an answer is never half a file.
    """
    ops = attribute_ops(job.original, outcome.merged, job.prediction)
    merged_code = restore(request.original, ops, job.prediction.ends if ops is job.prediction.ops else None)
    refuse_altered(request.original, merged_code, ops)
    watch.lap("restore_s")
    found = checked(job, outcome.merged)
    merged = Merged(ops, merged_code, found, (*strategy_verdicts(job, outcome), *found))
    _raise_failed(merged.verdicts, {"truncation": "fail", **request.on_verdict})
    watch.lap("checks_s")
    result = _answer(request, source, format_name, job, outcome, merged)
    watch.lap("answer_s")
    return replace(result, timings_s={**watch.seconds, "total_s": sum(watch.seconds.values())})


@dataclass(frozen=True, slots=True)
class Merged:
    """What was decided, put back into the original's bytes, and what the checks found: on the text alone, and all."""

    ops: tuple[LineOp, ...]
    code: str
    found: tuple[Verdict, ...]
    verdicts: tuple[Verdict, ...]


def _answer(
    request: ApplyRequest, source: SourceText, format_name: str, job: EditJob, outcome: Outcome, merged: Merged
) -> ApplyResult:
    """The answer, but for its times."""
    hunks = text_hunks(request.original, merged.code)
    confidence = confidence_in(
        request,
        outcome.target,
        raw=outcome.confidence,
        agreement=outcome.agreement,
        prediction=job.prediction,
        checks=merged.found,
        chance=chance_of(job.prediction, outcome.merged) if outcome.strategy in BY_MERGER else None,
    )
    return ApplyResult(
        merged_code=merged.code,
        strategy=outcome.strategy,
        windows=outcome.windows,
        invented_lines=outcome.invented_lines,
        finish_reason=FinishReason.STOP,
        format=format_name,
        language=job.language,
        model=None if outcome.target is None else outcome.target.name,
        drafter=outcome.drafter,
        certainty=job.prediction.certainty,
        reasons=job.prediction.reasons,
        agreement=outcome.agreement,
        determinism=None if outcome.target is None else outcome.target.determinism,
        verdicts=merged.verdicts,
        edits=tuple(edit for hunk in hunks for edit in hunk.edits),
        spans=origin_spans(merged.ops, is_from_model=outcome.target is not None),
        confidence=confidence.answer,
        confidence_kind=confidence.kind,
        source_sha256=hash_bytes(encode(request.original, source)),
        result_sha256=hash_bytes(encode(merged.code, source)),
        encoding=request.encoding,
        seed=request.seed,
        stats=outcome.stats,
        timings_s={},
        diff=unified_diff_text(request.original, merged.code, request.path or "file") if request.diff else None,
        hunks=confident_hunks(hunks, merged.code, outcome.line_logprobs, confidence.of_hunk),
    )


def _raise_failed(verdicts: tuple[Verdict, ...], on_verdict: Mapping[str, str]) -> None:
    failed = [v for v in verdicts if v.severity in ("warning", "error") and on_verdict.get(v.check) == "fail"]
    if failed:
        kind = Truncated if failed[0].check == "truncation" else CheckFailed
        raise kind(
            f"{failed[0].check}: {failed[0].message}",
            value=sorted({v.check for v in failed}),
            remedy=f'correct the edit, or accept the finding: on_verdict {{"{failed[0].check}": "warn"}}',
        )


def run_alone(
    request: ApplyRequest, runtime: Runtime, cancelled: Callable[[], bool] = lambda: False
) -> Generator[ApplyEvent]:
    """`run` for callers with one request at a time: its events alone.  Raises as `run` does."""
    return drive_alone(run(request, runtime, cancelled))


def apply(request: ApplyRequest, runtime: Runtime) -> ApplyResult:
    """`run_alone` for callers that only want the answer."""
    for event in run_alone(request, runtime):
        if isinstance(event, FinalEvent):
            return event.result
    raise ApplyError("the pipeline ended without a result")
