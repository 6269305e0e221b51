"""One patch or reply over several files: applied by the program alone, each file checked as any answer is.

A unified diff or V4A patch says what happens to files as a whole (`edits.patch`); of any other format each file that
the reply names gets its own part of it, as a request of its own would.
A file whose part does not fit for sure fails with the anchor that was not found; no model is asked.  To have one
decide, send the patch as the `update` of an edit of that file.
"""

from __future__ import annotations

from dataclasses import replace

from apply_service.batch.edits import refuse_same_paths
from apply_service.batch.requests import PatchRequest, PatchSource
from apply_service.batch.results import BatchItem, BatchResult, judge, settle
from apply_service.decider import Decider
from apply_service.edits.diff import FileNames, change_diff_text
from apply_service.edits.envelope import match_files
from apply_service.edits.fidelity import MARK, SIGNATURE, SourceText, normalise, with_mark, with_own_ends
from apply_service.edits.patch import FailedChange, PatchedFile, apply_changes, is_v4a
from apply_service.edits.reply import OTHER_FILES, FoundEdit, named_files, read_patch_reply
from apply_service.errors import ApplyError, MalformedEdit, UnsupportedParameter
from apply_service.pipeline import ReadEdit, apply, finish
from apply_service.protocols import EditJob
from apply_service.runtime import Runtime
from apply_service.strategies import Outcome
from apply_service.syntax.languages import detect_language
from apply_service.types import ApplyRequest, ApplyResult, Verdict
from apply_service.validation import refuse_unknown_checks

PLAIN_MODES = ("100644", "100755")
ABOUT_TEXT = frozenset({"no_op"})
"""Checks that find a fault where a change is of names or modes alone."""


def apply_patch_request(request: PatchRequest) -> BatchResult:
    """Every file that the patch touches, in its order.

    Raises:
        MalformedEdit: the patch is not readable or names no file, or a file begins with two byte-order marks.
        InvalidField: a file is there twice, or `on_verdict` names a check that there is none of.
    """
    refuse_unknown_checks(request.on_verdict)
    if request.files:
        refuse_same_paths([source.path for source in request.files])
    reply = read_patch_reply(normalise(request.patch), [normalise(source.text) for source in request.files])
    if not reply.is_patch:
        updates = _updates(request, reply)
        return settle(
            request.mode, [_edited(path, update, request, reply.findings) for path, update in updates.items()]
        )
    patch = replace(request, patch=with_own_ends(reply.update, request.patch))
    texts = {source.path: with_mark(source.text, source.encoding) for source in request.files}
    results = apply_changes(patch.patch, texts)
    items = [_item(result, patch) for result in results]
    return settle(request.mode, [_told(item, reply.findings) for item in items])


# -- each file by itself -----------------------------------------------------------------------------------------------
def _updates(request: PatchRequest, reply: FoundEdit) -> dict[str, str]:
    """The files that a reply is for, as the caller names them, each with what is to be read for it; the only one where
    the reply names none.

    Raises:
        MalformedEdit: it names none, and there are several.
    """
    known = [source.path for source in request.files]
    named = reply.parts or dict.fromkeys(named_files(normalise(request.patch), known), request.patch)
    if not named and len(known) == 1:
        return {known[0]: request.patch}
    if not named:
        raise MalformedEdit(
            "the reply names no file",
            value=request.patch[:200],
            limit=known,
            remedy="write each file's path above its part",
        )
    updates: dict[str, str] = {}
    for name, alike in match_files(named, known).items():
        path = alike[0] if len(alike) == 1 else name
        updates[path] = updates.get(path, "") + named[name] if reply.parts else request.patch
    return updates


def _edited(path: str, update: str, request: PatchRequest, findings: tuple[Verdict, ...]) -> BatchItem:
    """One file after its part of the reply.  `findings`: what the reply holds beside its parts."""
    before = next((source for source in request.files if source.path == path), None)
    item = BatchItem(path, "modify" if before else "create", "ok", source=path if before else None)
    wanted = ApplyRequest(
        before.text if before else "",
        update,
        path=path,
        encoding=before.encoding if before else "utf-8",
        strategy="exact",
        on_verdict={"truncation": "warn"},  # judged with the others
        diff=request.diff,
    )
    try:
        answer = apply(wanted, Runtime(load=_no_model))
    except ApplyError as error:
        return replace(item, status="failed", error=error)
    verdicts = (*findings, *(verdict for verdict in answer.verdicts if verdict.check != OTHER_FILES))
    done = replace(item, verdicts=verdicts, result=replace(answer, verdicts=verdicts, diff=None), diff=answer.diff)
    return judge(done, request.on_verdict)


def _no_model(name: str) -> Decider:
    raise UnsupportedParameter("No model takes part in a patch.", value=name, remedy="Send the files as `edits`.")


def _told(item: BatchItem, findings: tuple[Verdict, ...]) -> BatchItem:
    """The item with what the reply holds beside the patch."""
    if item.result is None:
        return item
    verdicts = (*findings, *item.verdicts)
    return replace(item, verdicts=verdicts, result=replace(item.result, verdicts=verdicts))


# -- a patch -----------------------------------------------------------------------------------------------------------


def _item(result: PatchedFile | FailedChange, request: PatchRequest) -> BatchItem:
    if isinstance(result, FailedChange):
        change = result.change
        return BatchItem(
            change.new_path or change.path, change.action, "failed", error=result.error, source=change.path
        )
    item = BatchItem(result.path or result.source, result.action, "ok", source=result.source, new_mode=result.new_mode)
    try:
        _refuse_odd_mode(result)
        result = _without_mark(result, request)
        answer = _answer(result, request)
    except ApplyError as error:
        return replace(item, status="failed", error=error)
    verdicts = tuple(verdict for verdict in answer.verdicts if _speaks_of(verdict, result, answer))
    answer = replace(answer, verdicts=verdicts)
    diff = _diff(result, request) if request.diff else None
    done = replace(item, verdicts=verdicts, result=None if result.path is None else answer, diff=diff)
    return judge(done, request.on_verdict)


def _answer(patched: PatchedFile, request: PatchRequest) -> ApplyResult:
    """The file's answer, as the pipeline makes it of any text that a program has determined."""
    before = next((source for source in request.files if source.path == patched.source), PatchSource("", ""))
    path = patched.path or patched.source
    language = detect_language(name=None, path=path)
    wanted = ApplyRequest(
        before.text,
        patched.update,
        path=path,
        language=language,
        encoding=before.encoding,
        strategy="exact",
        on_verdict={"truncation": "warn"},  # judged with the others
    )
    job = EditJob(normalise(before.text), normalise(patched.update), "", path, language, patched.prediction)
    name = "v4a_patch" if is_v4a(job.update) else "unified_diff"
    edit = ReadEdit(SourceText.of(before.text, before.encoding), name, job)
    return finish(wanted, edit, Outcome(patched.prediction.text, "exact"))


def _speaks_of(verdict: Verdict, patched: PatchedFile, answer: ApplyResult) -> bool:
    """Whether a verdict means this change.  Of a deleted file there is no text to check."""
    if patched.path is None:
        return verdict.check == "doubt"
    return patched.action == "modify" or bool(answer.edits) or verdict.check not in ABOUT_TEXT


def _refuse_odd_mode(patched: PatchedFile) -> None:
    if patched.new_mode not in (None, *PLAIN_MODES):
        raise UnsupportedParameter(
            "The patch makes something other than a regular file.",
            value=patched.new_mode,
            limit=list(PLAIN_MODES),
            remedy="Make links and submodules by other means.",
        )


def _without_mark(patched: PatchedFile, request: PatchRequest) -> PatchedFile:
    """The file's text as that of its source is: the mark stands in the encoding.

    Raises:
        MalformedEdit: the patch leaves nothing of the file, and so no mark.
    """
    encodings = (source.encoding for source in request.files if source.path == patched.source)
    if not next(encodings, "").endswith(SIGNATURE):
        return patched
    if patched.path is not None and not patched.text.startswith(MARK):
        raise MalformedEdit(
            "the patch takes the byte-order mark away",
            value=patched.path,
            remedy="keep it, and remove it by other means",
        )
    return replace(patched, text=patched.text.removeprefix(MARK))


def _diff(patched: PatchedFile, request: PatchRequest) -> str:
    original = next((source.text for source in request.files if source.path == patched.source), "")
    mode = None if patched.source is not None and patched.change.old_mode is None else patched.new_mode
    names = FileNames(patched.source, patched.path, is_copy=patched.action == "copy", new_mode=mode)
    return change_diff_text(original, patched.text, names)
