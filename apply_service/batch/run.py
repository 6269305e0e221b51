"""Edits several files in one request: the service applies the edits together, or a program applies one patch without a
model.

Edits are submitted at once, so that they share the engine's passes.  If the queue does not have room for all edits, the
rest wait here until the first edits end.

A unified diff or V4A patch tells what happens to files as a whole (`formats.patch`).  In a reply of another format,
each file that the reply names has its own part, which is applied as in a request of its own.  If a part does not surely
fit, its file fails, and the error gives the anchor that was not found.  No model is asked; to let a model decide, send
the patch as the `update` of an edit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from apply_service.batch import BatchItem, BatchMode, BatchResult, PatchRequest, PatchSource
from apply_service.errors import ApplyError, InvalidField, MalformedEdit, Overloaded, UnsupportedParameter
from apply_service.formats.patch import FailedChange, PatchedFile, apply_changes
from apply_service.pipeline import apply, finish, refuse_unknown_checks
from apply_service.protocols import EditJob
from apply_service.reply.found import OTHER_FILES, FoundEdit
from apply_service.reply.reader import named_files, read_patch_reply
from apply_service.serving.ticket import Ticket
from apply_service.strategies import Outcome, ReadEdit
from apply_service.syntax.languages import detect_language
from apply_service.target import Runtime, no_target
from apply_service.text.diff import FileNames, change_diff_text
from apply_service.text.fidelity import SourceText, normalise, refuse_nul, with_mark, with_own_ends
from apply_service.text.paths import match_files
from apply_service.types import ApplyRequest, ApplyResult

PLAIN_MODES = ("100644", "100755")


def apply_patch_request(request: PatchRequest) -> BatchResult:
    """Return every file that the patch touches, in its order.

    Raises:
        MalformedEdit: the patch is not readable or names no file, or a file begins with two byte-order marks.
        InvalidField: a file is given twice, or `on_verdict` names an unknown check.
        NulByte: the patch or a file holds a NUL character.
    """
    refuse_unknown_checks(request.on_verdict)
    refuse_nul("`patch`", request.patch)
    if request.files:
        refuse_same_paths([source.path for source in request.files])
    sources = {source.path: source for source in request.files}
    reply = read_patch_reply(normalise(request.patch), [normalise(source.text) for source in request.files])
    items: list[BatchItem] = []
    if not reply.is_patch:
        for path, part in _parts(request, reply).items():
            before = sources.get(path)
            answer: ApplyResult | ApplyError
            try:
                answer = apply(replace(_request_of(path, before, part), diff=request.diff), Runtime(load=no_target))
                own = (verdict for verdict in answer.verdicts if verdict.check != OTHER_FILES)
                answer = replace(answer, verdicts=(*reply.findings, *own))
            except ApplyError as error:
                answer = error
            items.append(BatchItem.of(path, answer, request.on_verdict, is_new=before is None))
        return BatchResult.of(request.mode, items)
    patch = with_own_ends(reply.update, request.patch)
    for result in apply_changes(patch, {path: with_mark(one.text, one.encoding) for path, one in sources.items()}):
        if isinstance(result, FailedChange):
            change = result.change
            path = change.new_path or change.path
            items.append(BatchItem(path, change.action, "failed", error=result.error, source=change.path))
        else:
            items.append(_check(result, sources.get(result.source or ""), request, reply))
    return BatchResult.of(request.mode, items)


# -- a reply: each file by itself --------------------------------------------------------------------------------------
def _parts(request: PatchRequest, reply: FoundEdit) -> dict[str, str]:
    """Return the part of a reply for each file that the reply is for, by the caller's names.  If the reply names no
    file, it is for the only file.  Raises MalformedEdit if the reply names no file and there are several."""
    known = [source.path for source in request.files]
    named = reply.parts or dict.fromkeys(named_files(normalise(request.patch), known), request.patch)
    if not named and len(known) == 1:
        return {known[0]: request.patch}
    if not named:
        remedy = "write the path of each file above its edit"
        raise MalformedEdit(
            "the reply does not say which files it edits", value=request.patch[:200], limit=known, remedy=remedy
        )
    parts: dict[str, str] = {}
    for name, alike in match_files(named, known).items():
        path = alike[0] if len(alike) == 1 else name
        parts[path] = parts.get(path, "") + named[name] if reply.parts else request.patch
    return parts


def _request_of(path: str | None, before: PatchSource | None, update: str) -> ApplyRequest:
    return ApplyRequest(
        before.text if before else "",
        update,
        path=path,
        encoding=before.encoding if before else "utf-8",
        strategy="exact",
        on_verdict={"truncation": "warn"},  # the caller's rules are applied later, to all verdicts together
    )


# -- a patch -----------------------------------------------------------------------------------------------------------
def _check(patched: PatchedFile, before: PatchSource | None, request: PatchRequest, reply: FoundEdit) -> BatchItem:
    """Return the file's item, with the answer that the pipeline makes whenever a program has determined the text."""
    path, source, mode = patched.path, patched.source, patched.change.new_mode
    item = BatchItem(path or source, patched.action, "ok", source=source, new_mode=mode)
    try:
        if mode not in (None, *PLAIN_MODES):
            message = f"The patch makes a symbolic link or a submodule (mode {mode}), not a regular file."
            remedy = "Make links and submodules with git."
            raise UnsupportedParameter(message, value=mode, limit=list(PLAIN_MODES), remedy=remedy)
        asked = _request_of(path or source, before, patched.update)
        asked = replace(asked, language=detect_language(name=None, path=asked.path))
        original, update = normalise(asked.original), normalise(asked.update)
        job = EditJob(original, update, "", asked.path, asked.language, patched.prediction, format=reply.format)
        edit = ReadEdit(SourceText.of(asked.original, asked.encoding), job)
        answer = finish(asked, edit, Outcome(patched.prediction.text, "exact"))
    except ApplyError as error:
        return replace(item, status="failed", error=error)
    verdicts = answer.verdicts
    if path is None:  # the file is deleted, so there is no text to check
        verdicts = tuple(verdict for verdict in verdicts if verdict.check == "doubt")
    elif patched.action != "modify" and not answer.edits:  # a new name or mode alone is a change
        verdicts = tuple(verdict for verdict in verdicts if verdict.check != "no_op")
    diff = None
    if request.diff:
        shown_mode = None if source is not None and patched.change.old_mode is None else mode
        names = FileNames(source, path, is_copy=patched.action == "copy", new_mode=shown_mode)
        diff = change_diff_text(asked.original, answer.merged_code, names)
    judged = replace(item, verdicts=verdicts, diff=diff).judged(request.on_verdict)
    if path is None or judged.status != "ok":
        return judged
    verdicts = (*reply.findings, *verdicts)
    return replace(judged, verdicts=verdicts, result=replace(answer, verdicts=verdicts))


# -- several edits, each of a file of its own --------------------------------------------------------------------------
Submit = Callable[[ApplyRequest], Ticket]


async def apply_edits(submit: Submit, requests: Sequence[ApplyRequest], mode: BatchMode) -> BatchResult:
    """Apply every edit.  Cancelling this coroutine cancels the edits.

    Raises:
        InvalidField: there is no edit, two are of the same file, or `on_verdict` names an unknown check.
        Overloaded, NotReady: the service takes none of the edits now.
    """
    refuse_same_paths([request.path for request in requests])
    for request in requests:
        refuse_unknown_checks(request.on_verdict)
    # The rule `fail` is applied here, because an error raised by the pipeline would carry no verdicts.
    accepted = [{check: rule for check, rule in one.on_verdict.items() if rule != "fail"} for one in requests]
    asked = [replace(one, on_verdict=rules) for one, rules in zip(requests, accepted, strict=True)]
    items = [
        BatchItem.of(request.path, answer, request.on_verdict, is_new=request.original == "")
        for request, answer in zip(requests, await _answers(submit, asked), strict=True)
    ]
    return BatchResult.of(mode, items)


async def _answers(submit: Submit, requests: Sequence[ApplyRequest]) -> list[ApplyResult | ApplyError]:
    """Return the answers in the order of the requests.  Raises ApplyError if the queue takes none of the requests."""
    answers: dict[int, ApplyResult | ApplyError] = {}
    waiting = deque(enumerate(requests))
    tickets: list[Ticket] = []
    running: set[asyncio.Task[None]] = set()

    async def collect(number: int, ticket: Ticket) -> None:
        try:
            answers[number] = await ticket.result_async()
        except ApplyError as error:
            answers[number] = error

    try:
        while waiting or running:
            while waiting:
                number, request = waiting[0]
                try:
                    tickets.append(submit(request))
                    running.add(asyncio.create_task(collect(number, tickets[-1])))
                except ApplyError as error:
                    if isinstance(error, Overloaded) and running:
                        break
                    if isinstance(error, Overloaded) and not answers:
                        raise
                    answers[number] = error
                waiting.popleft()
            if running:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for ticket in reversed(tickets):  # the last first, so that no ticket starts when another ends
            ticket.cancel()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return [answers[number] for number in range(len(requests))]


def share_deadline(requests: Sequence[ApplyRequest], default_s: float, longest_s: float) -> list[ApplyRequest]:
    """Return the edits.  Edits without a deadline get one that lets them wait for each other, because a deadline counts
    from admission and all edits are admitted at once."""
    shared_s = min(longest_s, default_s * len(requests))
    return [replace(request, timeout_s=shared_s) if request.timeout_s is None else request for request in requests]


def refuse_same_paths(paths: Sequence[str | None]) -> None:
    """Raise InvalidField if there is no file, or a file is named twice."""
    if not paths:
        raise InvalidField("The batch holds no edit.", value=[], limit="1 or more", remedy="Send `edits` or a `patch`.")
    named = [path for path in paths if path is not None]
    if len(set(named)) < len(named):
        path = next(path for i, path in enumerate(named) if path in named[:i])
        raise InvalidField("Two edits of the batch change the same file.", value=path, remedy="Combine them into one.")
