"""Takes one request from its edit to its answer.  Read this module first.

    read_request   validate -> find the edit in the reply -> predict the merge
    decide         a program, or a target that verifies drafts (`strategies`)
    finish         check -> fall back on the prediction if that is better -> restore the original's bytes -> answer

`run` does all three, and every request goes through it.  `run` is a generator: streaming clients forward its token
events, and other clients wait for the last event.  The engine packs the passes of all running requests together.
`read_request` and `finish` are pure, so a service can run them in worker processes.  This module knows nothing of HTTP,
files or torch.  A *merger* is a program that merges an edit; a *reading* is one way to merge it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple, get_args

from apply_service.checks.relation import is_edit, refuse_unrelated
from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass, drive_alone
from apply_service.drafting.drafter import check_drafter
from apply_service.engine.record import Signals
from apply_service.errors import (
    REPORT_FAULT,
    ApplyError,
    BadEncoding,
    CheckFailed,
    EmptyUpdate,
    Exchanged,
    InvalidField,
    StaleBase,
    Truncated,
    UnknownModel,
)
from apply_service.formats.carry_over import carry_over
from apply_service.formats.whole_file import beside_snippet
from apply_service.merge.rank.doubt import chance_of, chances_of_hunks, choose_reading, other_readings, reading_id
from apply_service.merge.regions import find_regions
from apply_service.protocols import EditContext, EditJob, PredictMerge
from apply_service.registry import CHECKS, EDIT_FORMATS, resolve
from apply_service.reply.found import FoundEdit
from apply_service.reply.reader import name_finding, read_reply
from apply_service.strategies import (
    STRATEGY_VERDICTS,
    Outcome,
    ReadEdit,
    decide,
    may_fall_back,
    needs_target,
    strategy_verdicts,
)
from apply_service.syntax.languages import detect_language
from apply_service.target import Runtime, Steps
from apply_service.text.diff import LINE, TextHunk, text_hunks, unified_diff_text
from apply_service.text.fidelity import (
    SourceText,
    hash_of,
    normalise,
    ops_from_texts,
    refuse_altered,
    refuse_nul,
    restore,
    with_mark,
    with_own_ends,
)
from apply_service.text.markers import is_marker
from apply_service.types import (
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    ConfidenceKind,
    FinalEvent,
    FinishReason,
    Hunk,
    LineOp,
    Origin,
    Prediction,
    Span,
    Strategy,
    Verdict,
    keep_all,
)

BY_MERGER = ("exact", "confirmed", "fallback")
"""Strategies whose text is a merger's reading.  The chance that such a reading is right was measured."""
INSTRUCTION_ONLY = "instruction"
READ_AS_CODE = ("lazy_snippet", "whole_file")
READS_BYTES = frozenset({"unified_diff"})
"""Formats whose edits specify line ends.  Their reader gets the texts with the original line ends."""
MAX_TEMPERATURE = 2.0
ONE_OF = "name one of these"
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
DEFAULT_RULES: Mapping[str, str] = {"truncation": "fail"}
"""The rules for checks that the request gives no rule for: an answer is never half a file."""
LEAST = 1e-300
"""Replaces a probability that is too small for a logarithm."""


@dataclass(slots=True)
class Stopwatch:
    """Measures the seconds of each stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=lambda: time.perf_counter())

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._started
        self._started = now


@dataclass(frozen=True, slots=True)
class InWorker:
    """The last item of a run that ends in a worker process: the function to call there."""

    call: Callable[[], ApplyResult]


Running = Generator[ApplyEvent | NextPass | InWorker, Steps, None]


def run(
    request: ApplyRequest,
    runtime: Runtime,
    deadline: Deadline | None = None,
    edit: ReadEdit | None = None,
    *,
    finishes_in_worker: bool = False,
) -> Running:
    """Apply one edit; many runs can take turns.  `edit`: the result of `read_request`, if it was called before.

    Yields provisional token events, then exactly one final event (with `finishes_in_worker`, an `InWorker` instead).
    Whenever the run needs a pass of the target, it yields a `NextPass`.  The caller then runs one pass for many
    requests at once, and sends the committed tokens back (`decoding.scheduler`).  Closing the generator frees its
    slots.

    Raises:
        ApplyError: the request has no result.  The events yielded before it are not an answer.
    """
    edit = read_request(request, runtime) if edit is None else edit
    if deadline is None:  # the caller set none; it starts here, because loading a model does not count
        if edit.needs_target:
            runtime.load(request.model or runtime.models[0])
        deadline = Deadline(request.timeout_s, spent_s=sum(edit.seconds.values()))
    deadline.check()
    watch = Stopwatch(dict(edit.seconds))
    outcome = yield from decide(request, runtime, edit, deadline)
    watch.lap("decide_s")
    if finishes_in_worker:
        yield InWorker(partial(finish, request, edit, outcome, watch.seconds))
        return
    result = finish(request, edit, outcome, watch.seconds)
    deadline.check()
    yield FinalEvent(result)


# -- before the target ------------------------------------------------------------------------------------------------
def read_request(request: ApplyRequest, runtime: Runtime) -> ReadEdit:
    """Validate a request, find its edit in the reply, predict the merge and check it.  Raises ApplyError."""
    watch = Stopwatch()
    source = validate(request, runtime)
    try:
        job = read_edit(request, detect_language(name=request.language, path=request.path))
    except ApplyError as error:
        error.source_sha256 = hash_of(request.original, source) if error.failures else ""
        raise
    refuse_exchanged(request, job)
    edit = ReadEdit(source, job, needs_target=needs_target(request, job, runtime), seconds=watch.seconds)
    watch.lap("predict_s")
    if not job.update.strip():  # an instruction alone may change anything
        return edit
    checks = edit.check(job.prediction.text)
    refuse_unrelated(job, normalise(request.update), checks)
    edit = edit._replace(checks=checks)
    watch.lap("checks_s")
    if edit.needs_target:
        edit = edit._replace(regions=tuple(find_regions(job.prediction, job.original, job.language)))
        watch.lap("predict_s")
    return edit


def validate(request: ApplyRequest, runtime: Runtime) -> SourceText:
    """Refuse a request that can't be applied, before any work.  Raises RequestError; its class and message say which
    field is wrong and why."""
    if not request.update.strip() and not request.instruction.strip():
        raise EmptyUpdate("there is no edit", value=request.update, remedy="send `update` or `instruction`")
    for name in ("original", "update", "instruction"):
        refuse_nul(f"`{name}`", getattr(request, name))
    if request.model is not None and request.model not in runtime.models:
        message, models = "this service has no such model", list(runtime.models)
        raise UnknownModel(message, value=request.model, limit=models, remedy=ONE_OF)
    if request.drafter is not None:
        check_drafter(request.drafter, has_draft_model=runtime.has_draft_model, head=runtime.head)
    refuse_unknown_checks(request.on_verdict)
    refuse_bad_values(request)
    if request.reading is not None and (request.strategy == "model" or not request.update.strip()):
        remedy = "leave out `reading`, or send an `update` with strategy auto or exact"
        raise InvalidField(
            "`reading` chooses between the ways to read an `update`; it can't be used where a model decides",
            value=request.reading,
            remedy=remedy,
        )
    for name in ("update", "instruction"):
        if LONE_SURROGATE.search(getattr(request, name)):
            message = f"`{name}` contains half of a surrogate pair, which is not valid Unicode"
            raise BadEncoding(message, value=name, remedy="send valid Unicode")
    source = SourceText.of(request.original, request.encoding)
    if request.base is not None:
        refuse_nul("`base`", request.base)
        _refuse_base_for_models(request)
    if request.base_sha256 is not None:
        actual = hash_of(request.original if request.base is None else request.base, source)
        if (given := request.base_sha256).lower() != actual:
            message = "the file has changed since the edit was made: its hash is not base_sha256"
            remedy = "read the file again and make a new edit"
            raise StaleBase(message, value=given, limit=actual, remedy=remedy)
    return source


def _refuse_base_for_models(request: ApplyRequest) -> None:
    """Raise InvalidField if a model would decide an edit with a base."""
    if request.strategy == "model" or not request.update.strip():
        message, remedy = "an edit with a `base` is merged by a program", "leave out `base`, or send an `update`"
        raise InvalidField(f"{message}; strategy model and an instruction alone do without", remedy=remedy)


def is_made(job: EditJob, merged: str) -> bool:
    """Tell whether the file already has the edit: every part of it, or every line of a certain or likely snippet."""
    if merged != job.original or not job.update.strip():
        return False
    is_snippet = job.format in ("lazy_snippet", "whole_file")
    return job.prediction.is_made or (is_snippet and job.prediction.certainty is Certainty.CERTAIN)


def refuse_bad_values(request: ApplyRequest) -> None:
    """Raise InvalidField if a choice or a number is out of its range."""
    for name, is_good, limit in (
        ("strategy", request.strategy in get_args(Strategy), list(get_args(Strategy))),
        ("constrain", request.constrain in (None, "sources", "none"), ["sources", "none"]),
        ("conflicts", request.conflicts in ("error", "markers"), ["error", "markers"]),
        ("temperature", 0 <= request.temperature <= MAX_TEMPERATURE, f"0 to {MAX_TEMPERATURE:g}; 0 is greedy"),
        ("max_tokens", request.max_tokens is None or request.max_tokens >= 1, "1 or more"),
    ):
        if not is_good:
            allowed = limit if isinstance(limit, str) else " or ".join(limit)
            value, remedy = getattr(request, name), f"leave it out, or set it to {allowed}"
            raise InvalidField(f"the value of `{name}` is not allowed", value=value, limit=limit, remedy=remedy)


def refuse_unknown_checks(on_verdict: Mapping[str, str]) -> None:
    """Raise InvalidField if a rule names an unknown check, because such a rule would never take effect."""
    known = [*CHECKS, *STRATEGY_VERDICTS]
    if unknown := sorted(on_verdict.keys() - set(known)):
        raise InvalidField("`on_verdict` names unknown checks", value=unknown, limit=known, remedy=ONE_OF)


def read_edit(request: ApplyRequest, language: str | None) -> EditJob:
    """Return the edit, with the predicted merge.  Raises ApplyError."""
    original, update = normalise(request.original), normalise(request.update)
    if request.base is not None and normalise(request.base) != original:
        on_base = read_edit(replace(request, original=request.base, base=None), language)
        with_markers = request.conflicts == "markers"
        carried = carry_over(on_base.original, on_base.prediction, original, with_markers=with_markers)
        return replace(on_base, original=original, prediction=carried)
    of_file = Prediction(keep_all(original), tuple(update.split("\n")), Certainty.CERTAIN, determined=True)
    job = EditJob(original, update, request.instruction, request.path, language, of_file)
    if not update.strip():  # no program can follow an instruction, so the draft is the original
        reasons = ("an instruction does not determine the text",)
        unread = Prediction(of_file.ops, (), Certainty.GUESS, reasons)
        return replace(job, prediction=unread, format=INSTRUCTION_ONLY)
    if request.format in (None, "lazy_snippet", "whole_file") and update.strip("\n") == original.strip("\n"):
        # This text is not read as a reply: parts of the file may look like prose around an edit, or like a patch.
        return replace(job, format=request.format or job.format)
    reply = read_reply(update, original=original, path=request.path, language=language, named=request.format)
    prediction = predict_merge(request, job, reply)
    name = reply.format
    if reply.may_be_file and not prediction.determined:
        prediction = beside_snippet(original, reply.update, prediction)
        name = name if prediction.probability is not None else "whole_file"
    if request.reading is not None:
        prediction = choose_reading(prediction, request.reading)
    left_out = name_finding(reply, prediction)
    findings = reply.findings if left_out is None else (*reply.findings, left_out)
    return replace(job, update=reply.update, prediction=prediction, findings=findings, format=name)


def predict_merge(request: ApplyRequest, job: EditJob, reply: FoundEdit) -> Prediction:
    """Return the merge that the reader of the edit's format predicts.  If the file already has the snippet unchanged,
    the merge changes nothing and is certain.  Raises ApplyError."""
    original_read, update_read = job.original, reply.update
    if reply.format in READS_BYTES:
        original_read = with_mark(request.original, request.encoding)
        update_read = with_own_ends(reply.update, request.update)
    unchanged = replace(job.prediction, update_lines=tuple(update_read.split("\n")))
    is_old = reply.format == "lazy_snippet" and is_there_already(update_read, job.original)
    if is_old and update_read.strip("\n") == job.original.strip("\n"):
        return unchanged
    instruction = "\n".join(said for said in (request.instruction, reply.prose) if said)
    predict: PredictMerge = resolve(EDIT_FORMATS, reply.format)
    read = predict(original_read, update_read, EditContext(request.path, job.language, instruction))
    return unchanged if is_old and read.text == job.original else read


def refuse_exchanged(request: ApplyRequest, job: EditJob) -> None:
    """Raise Exchanged if the caller seems to have exchanged original and update.  That is so if only the original
    looks like an edit, the original is the shorter text, and it can be applied as an edit to the update."""
    is_short = len(job.original) < len(job.update)
    if request.format is not None or job.format not in READ_AS_CODE or not is_short:
        return
    if not is_edit(job.original) or is_edit(job.update):
        return
    turned = replace(request, original=request.update, update=request.original, path=None)
    try:
        is_guess = read_edit(turned, job.language).prediction.certainty is Certainty.GUESS
    except ApplyError:
        return
    if not is_guess:
        raise Exchanged(
            "The file and the snippet are exchanged: the file looks like an edit of the snippet.",
            remedy="Name the file first, then the snippet. If the order is right, say which format the edit has.",
        )


def is_there_already(update: str, original: str) -> bool:
    """Tell whether the file already has every stretch of a lazy snippet (the lines between its markers), unchanged and
    in the same order."""
    text, at = f"\n{original}\n", 0
    for is_mark, lines in groupby(update.split("\n"), is_marker):
        stretch = "\n".join(lines).strip("\n")
        if is_mark or not stretch.strip():
            continue
        found = text.find(f"\n{stretch}\n", at)
        if found < 0:
            return False
        at = found + len(stretch) + 1
    return at > 0


# -- after the target -------------------------------------------------------------------------------------------------
def finish(
    request: ApplyRequest, edit: ReadEdit, outcome: Outcome, seconds: Mapping[str, float] | None = None
) -> ApplyResult:
    """Check the text, restore the original's bytes, and build the answer.  `seconds`: the time of each earlier stage.

    Raises:
        AlteredBytes: a byte outside the edit would change.
        NulByte: the text holds a NUL character.
        CheckFailed, Truncated: a check with the rule `fail` has findings.  Truncation has this rule by default.
    """
    # Half of the lines are the fields of the answer.  The rest is one story, from the decided text to the answer.
    watch, job = Stopwatch(dict(seconds or {})), edit.job
    outcome, checks = settle(request, edit, outcome)
    watch.lap("checks_s")
    ops = attribute_ops(job.original, outcome.merged, job.prediction)
    merged_code = restore(request.original, ops, job.prediction.ends if ops is job.prediction.ops else None)
    refuse_altered(request.original, merged_code, ops)
    refuse_nul("the result", merged_code)  # an edit can name a NUL (JSON's \\u0000) without holding one
    watch.lap("restore_s")
    confidence = confidence_in(request, job.prediction, outcome, checks)
    counted = confidence.answer if confidence.kind == "calibrated" else None
    verdicts = (*strategy_verdicts(job, outcome, counted), *checks)
    refuse_failed(verdicts, {**DEFAULT_RULES, **request.on_verdict})
    hunks = text_hunks(request.original, merged_code)
    target = outcome.target
    result = ApplyResult(
        merged_code=merged_code,
        strategy=outcome.strategy,
        windows=outcome.windows,
        finish_reason=FinishReason.STOP,
        format=job.format,
        language=job.language,
        model=None if target is None else target.name,
        drafter=outcome.drafter,
        certainty=job.prediction.certainty,
        reasons=job.prediction.reasons,
        reading=id_of_reading(job, outcome.merged),
        readings=other_readings(
            job.prediction, outcome.merged, path=(request.path or "file") if request.diff else None
        ),
        failures=job.prediction.failures,
        already_applied=is_made(job, outcome.merged),
        agreement=outcome.agreement,
        determinism=None if target is None else target.determinism,
        verdicts=verdicts,
        edits=tuple(text_edit for hunk in hunks for text_edit in hunk.edits),
        spans=origin_spans(ops, is_from_model=target is not None),
        confidence=confidence.answer,
        confidence_kind=confidence.kind,
        source_sha256=hash_of(request.original, edit.source),
        result_sha256=hash_of(merged_code, edit.source),
        encoding=request.encoding,
        seed=request.seed,
        stats=outcome.stats,
        timings_s=watch.seconds,
        diff=unified_diff_text(request.original, merged_code, request.path or "file") if request.diff else None,
        hunks=confident_hunks(
            hunks,
            merged_code,
            outcome.line_logprobs,
            confidence.of_hunk,
            None if request.reading else counted_chances(job, outcome, hunks),
        ),
    )
    watch.lap("answer_s")
    watch.seconds["total_s"] = sum(watch.seconds.values())  # the answer holds this dictionary
    return result


def settle(request: ApplyRequest, edit: ReadEdit, outcome: Outcome) -> tuple[Outcome, tuple[Verdict, ...]]:
    """Return the text to answer with, and what the checks found.  If a target's text fails a check and the predicted
    merge passes every check, the predicted merge replaces it.  Raises the outcome's error if a fallback fails a
    check."""
    job, checks = edit.job, edit.check(outcome.merged)
    if outcome.error is not None and not all(verdict.is_pass for verdict in checks):
        raise outcome.error
    is_wrong = any(verdict.severity == "error" for verdict in checks)
    if is_wrong and outcome.target is not None and may_fall_back(request, job):
        of_prediction = edit.check(job.prediction.text)
        if all(verdict.is_pass for verdict in of_prediction):
            return outcome.fall_back(job, "the model's output failed a check"), of_prediction
    return outcome, checks


def refuse_failed(verdicts: Sequence[Verdict], rules: Mapping[str, str]) -> None:
    """Raise Truncated or CheckFailed if a check with the rule `fail` has findings."""
    failed = [v for v in verdicts if v.severity in ("warning", "error") and rules.get(v.check) == "fail"]
    if failed:
        kind = Truncated if failed[0].check == "truncation" else CheckFailed
        message = f"{failed[0].check}: {failed[0].message}"
        remedy = f'correct the edit, or accept the finding: on_verdict {{"{failed[0].check}": "warn"}}'
        raise kind(message, value=sorted({v.check for v in failed}), remedy=remedy)


def id_of_reading(job: EditJob, merged: str) -> str | None:
    """Return the id of the reading that gives the text; None if the edit has no such reading."""
    known = (job.prediction.text, *(one.text for one in job.prediction.readings))
    return reading_id(merged) if job.update.strip() and merged in known else None


def attribute_ops(original: str, merged: str, prediction: Prediction) -> tuple[LineOp, ...]:
    """Return the line operations that lead from `original` to `merged`.

    If the prediction has the same text, the prediction's own operations are returned.  Otherwise it is the smallest set
    of operations; an added line that is in the update is credited to the update.
    """
    if merged == prediction.text:
        return prediction.ops
    lines_of_update: dict[str, int] = {}
    for i, line in enumerate(prediction.update_lines):
        lines_of_update.setdefault(line.strip(), i)
    return tuple(
        op._replace(update_line=lines_of_update.get(op.text.strip())) if op.kind == "take" and op.text.strip() else op
        for op in ops_from_texts(original, merged)
    )


def origin_spans(ops: Sequence[LineOp], *, is_from_model: bool) -> tuple[Span, ...]:
    """Return the runs of merged lines that have the same origin.

    An added line that is not a line of the update comes from the model, if a model ran.
    """

    def origin(op: LineOp) -> Origin:
        if op.original_line is not None:
            return "original"
        return "update" if op.update_line is not None or not is_from_model else "model"

    spans, start = [], 0
    for where, run in groupby(origin(op) for op in ops if op.kind != "drop"):
        end = start + len(list(run))
        spans.append(Span(start, end, where))
        start = end
    return tuple(spans)


class Confidence(NamedTuple):
    """The confidence of an answer and its kind; both are None if there is no figure.

    `of_hunk` turns the lowest log probability of a decision in a hunk into the confidence of the hunk.
    """

    answer: float | None
    kind: ConfidenceKind | None
    of_hunk: Callable[[float], float] = math.exp


def confidence_in(
    request: ApplyRequest, prediction: Prediction, outcome: Outcome, checks: Sequence[Verdict]
) -> Confidence:
    """Return the confidence of the answer and of its hunks.

    If the text is a merger's reading, the confidence is the measured chance that such readings are right.  Otherwise it
    is the lowest probability that the target gave to any of its decisions, calibrated if the target has a calibration.
    A reading that the caller chose has no confidence.  `checks`: the verdicts on the text, without other verdicts.
    """
    if request.reading is not None:  # the caller chose the reading and needs no figure
        return Confidence(None, None)
    target, answer, calibration = outcome.target, outcome.confidence, None
    kind: ConfidenceKind | None = None if answer is None else "raw"
    if target is not None and request.temperature == 0 and request.constrain != "none":
        calibration = target.calibration  # fitted to greedy answers under the target's own constraint
    is_clean = all(verdict.is_pass for verdict in checks)
    signals = Signals(outcome.agreement, prediction.certainty, len(prediction.reasons), is_clean)
    if answer is not None and calibration is not None:
        answer, kind = calibration.of_answer(math.log(max(answer, LEAST)), signals), "calibrated"
    if outcome.strategy in BY_MERGER:
        chance = chance_of(prediction, outcome.merged)
        answer, kind = (answer, kind) if chance is None else (chance, "calibrated")
    if calibration is None:
        return Confidence(answer, kind)
    return Confidence(answer, kind, partial(calibration.of_hunk, signals=signals, answer=answer or 0.0))


def counted_chances(job: EditJob, outcome: Outcome, hunks: Sequence[TextHunk]) -> Sequence[float] | None:
    """Return the chance that each hunk of a merger's text is right; None if it was not measured."""
    if outcome.strategy not in BY_MERGER or job.prediction.probability is None:
        return None
    return chances_of_hunks(job.prediction, outcome.merged, [hunk.lines for hunk in hunks])


def confident_hunks(
    hunks: Sequence[TextHunk],
    merged: str,
    line_logprobs: Mapping[int, float] | None,
    confidence_at: Callable[[float], float] = math.exp,
    chances: Sequence[float] | None = None,
) -> tuple[Hunk, ...]:
    """Return the hunks with their confidence, from the program or the target that decided.

    `line_logprobs`: for each line of the merged text (LF lines), the lowest log probability of a decision; None if no
    target decided.  `confidence_at` turns the lowest log probability in a hunk into a confidence.  `chances`: the
    chance of each hunk of a program's text, if it was measured.
    """
    # `at` maps each line number of an editor, and the end, to the service's line number: a lone `\r` ends no line here.
    has_breaks, at = "\n" in merged, [0]
    for line in LINE.findall(merged) if line_logprobs and chances is None else ():
        at.append(at[-1] + (line.endswith("\n") or not has_breaks))
    found, n_edits = [], 0
    for n, ((a0, a1, b0, b1), edits) in enumerate(hunks):
        confidence = None
        if chances is not None:
            confidence = chances[n]
        elif line_logprobs:
            decided = range(at[b0], at[b1] + (b1 == len(at) - 1) + 1)
            least = min((line_logprobs[line] for line in decided if line in line_logprobs), default=None)
            confidence = None if least is None else confidence_at(least)
        found.append(Hunk(a0, a1, b0, b1, n_edits, n_edits + len(edits), confidence))
        n_edits += len(edits)
    return tuple(found)


# -- callers ----------------------------------------------------------------------------------------------------------
def run_alone(request: ApplyRequest, runtime: Runtime, deadline: Deadline | None = None) -> Generator[ApplyEvent]:
    """Run a request alone, and yield only its events.  Raises what `run` raises."""
    return drive_alone(run(request, runtime, deadline))  # type: ignore[arg-type]


def apply(request: ApplyRequest, runtime: Runtime) -> ApplyResult:
    """Run a request alone, and return its result.  Raises what `run` raises."""
    for event in run_alone(request, runtime):
        if isinstance(event, FinalEvent):
            return event.result
    raise ApplyError("the edit ended without a result", remedy=REPORT_FAULT)


def read_or_apply(request: ApplyRequest, runtime: Runtime) -> ApplyResult | ReadEdit:
    """Return the answer if a program gives it, else the edit to pass to `run`.

    A service calls this function in worker processes.  It uses no target of the runtime.  Raises what `run` raises.
    """
    edit = read_request(request, runtime)
    if edit.needs_target:
        return edit
    (final,) = run(request, runtime, Deadline(), edit)
    assert isinstance(final, FinalEvent), "a program needs no passes"
    return final.result
