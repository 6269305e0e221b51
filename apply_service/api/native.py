"""Serves the native dialect: `POST /v1/apply` (JSON in, JSON or server-sent events out) and `POST /v1/apply/batch`.

A batch is answered as a whole.  It is cancelled if the client goes away.  A malformed request is an error with a
status; an error in one file of a batch is reported with that file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial

from fastapi import APIRouter, Request, Response

from apply_service.api.answer import VERDICT, BatchAnswer, HunkEvent, NativeAnswer, RepairAnswer
from apply_service.api.calls import this_call
from apply_service.api.dialect import admissible, documented, read_call, respond, sse_event, state_of, watch_client
from apply_service.api.errors import NATIVE
from apply_service.api.schema import BatchRequest, NativeRequest
from apply_service.batch import BatchResult
from apply_service.batch.repair import repair_call
from apply_service.batch.run import apply_edits, apply_patch_request, share_deadline
from apply_service.errors import ApplyError
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent

EVENTS = ("token", "hunk", "verdict", "final", "error")
ERRORS = {"/": NATIVE}
router = APIRouter()


class NativeReply:
    """The `ReplyWriter` that writes results as `NativeAnswer`s, with the file's bytes if the file came as bytes."""

    error_event = "error"
    errors = NATIVE

    def __init__(self, *, with_bytes: bool) -> None:
        self._with_bytes = with_bytes

    def whole(self, result: ApplyResult) -> str:
        return NativeAnswer.of(result, with_bytes=self._with_bytes).model_dump_json()

    def frames(self, event: ApplyEvent) -> Iterator[bytes]:
        """Yield the frames of an event.  Hunks and verdicts come before the final event, which repeats them, so that
        clients can show them one by one."""
        if not isinstance(event, FinalEvent):
            passes = [one._asdict() for one in event.passes]
            yield sse_event(json.dumps({"text": event.text, "passes": passes}, ensure_ascii=False), "token")
            return
        result = event.result
        for hunk in result.hunks:
            edits = result.edits[hunk.first_edit : hunk.end_edit]
            yield sse_event(HunkEvent(hunk=hunk, edits=list(edits)).model_dump_json(), "hunk")
        for verdict in result.verdicts:
            yield sse_event(VERDICT.dump_json(verdict).decode(), "verdict")
        yield sse_event(self.whole(result), "final")


@router.post(**documented("/v1/apply", NativeRequest, NativeAnswer, EVENTS), summary="Apply one edit to one file")
async def apply(request: Request) -> Response:
    """With `stream: true`, the answer is a stream of events.  First come `token` events (`{text, passes}`) with the
    merged text piece by piece.  They are **provisional**: only the final event is an answer.  Then come `hunk` events
    (`{hunk, edits}`) and `verdict` events, which the final event repeats, and one `final` event (the answer as below).
    At any time, an `error` event (the error body) may end the stream.
    """
    call = await read_call(request, NativeRequest.parse)
    reply = NativeReply(with_bytes=call.original_b64 is not None)
    return await respond(request, call.to_request(), reply, stream=call.stream)


@router.post(**documented("/v1/repair", NativeRequest, RepairAnswer), summary="Mend a call that failed")
async def repair(request: Request) -> Response:
    """Returns the same kind of call with quotes that fit the file, or the error of the edit, with `failures` that say
    why the quotes can't fit. Nothing is applied. Takes search/replace blocks, diffs, patches, JSON edits, conflict
    markers and lines by number and hash."""
    service, settings = state_of(request)
    call = await read_call(request, NativeRequest.parse)
    edit = admissible(call.to_request(), settings)
    n_chars = len(edit.original) + len(edit.update)
    result = await service.call(partial(repair_call, edit), n_chars, timeout_s=settings.default_timeout_s)
    return Response(RepairAnswer.model_validate(result).model_dump_json(), media_type="application/json")


@router.post(
    **documented("/v1/apply/batch", BatchRequest, BatchAnswer),
    summary="Apply edits to several files, or one patch over all of them",
)
async def batch(request: Request) -> Response:
    """The status is 200 whenever the batch could be tried. The field `status` tells what became of the batch, and each
    file tells what became of it. A verdict of severity error fails its file unless `on_verdict` accepts it. A file
    without a result has only its verdicts."""
    service, settings = state_of(request)
    call = await read_call(request, partial(BatchRequest.parse, max_edits=settings.max_batch_edits))
    if len(call.edits or []) > 1:
        this_call().count_edits(len(call.edits or []) - 1)  # the request itself was counted as the first

    async def apply_batch() -> BatchResult:
        if call.edits is not None:
            requests = [admissible(edit, settings) for edit in call.to_requests()]
            timed = share_deadline(requests, settings.default_timeout_s, settings.max_timeout_s)
            return await apply_edits(partial(service.submit, is_patient=True), timed, call.mode)
        patch = call.to_patch()
        texts = [patch.patch, *(source.text for source in patch.files)]
        for text in texts:
            admissible(ApplyRequest(text), settings)
        n_chars = sum(map(len, texts))  # decides whether it runs in a worker process
        return await service.call(partial(apply_patch_request, patch), n_chars, timeout_s=settings.default_timeout_s)

    work, ends = asyncio.create_task(apply_batch()), list[ApplyError]()

    def give_up(error: ApplyError) -> None:
        ends.append(error)
        work.cancel()

    watcher = watch_client(request, give_up)
    try:
        result = await work
    except asyncio.CancelledError:
        if ends:
            raise ends[0] from None
        raise
    finally:
        watcher.cancel()
        work.cancel()
    return Response(BatchAnswer.of(result, call).model_dump_json(), media_type="application/json")
