"""The native dialect: `POST /v1/apply`, JSON in, JSON or server-sent events out.

What it shares with the other dialects is in `dialect`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fastapi import APIRouter, Request, Response

from apply_service.api import sse
from apply_service.api.answer import EditOut, HunkEvent, HunkOut, NativeAnswer, VerdictOut
from apply_service.api.body import read_call
from apply_service.api.dialect import documented_responses, respond
from apply_service.api.errors import error_json
from apply_service.api.schema import NativeRequest, request_body
from apply_service.errors import ApplyError
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyEvent, ApplyResult, FinalEvent

PATH = "/v1/apply"
EVENTS = ("token", "hunk", "verdict", "final", "error")
STREAM_TEXT = (
    "With `stream: true`: `token` events (`{text}`: the merged text piece by piece, **provisional**: only the final "
    "event is an answer), then `hunk` events (`{hunk, edits}`) and `verdict` events, which say what the final event "
    "says, and one `final` event (the answer as below); or at any time one `error` event (the error body)."
)


def native_router(service: Service, settings: Settings) -> APIRouter:
    """The dialect's routes."""
    router = APIRouter()

    @router.post(
        PATH,
        summary="Apply one edit to one file",
        description=STREAM_TEXT,
        response_model=None,
        responses=documented_responses(PATH, NativeAnswer, events=EVENTS),
        openapi_extra={"requestBody": request_body(NativeRequest)},
    )
    async def apply(request: Request) -> Response:
        call = await read_call(request, settings.max_body_bytes, NativeRequest.parse, service)
        reply = NativeReply(with_bytes=call.original_b64 is not None)
        return await respond(request, call.to_request(), reply, stream=call.stream, service=service, settings=settings)

    return router


class NativeReply:
    """The dialect's `Reply`: a result as `NativeAnswer`, with the file's bytes where it came as bytes."""

    def __init__(self, *, with_bytes: bool) -> None:
        self._with_bytes = with_bytes

    def whole(self, result: ApplyResult) -> str:
        return NativeAnswer.of(result, with_bytes=self._with_bytes).model_dump_json()

    def frames(self, event: ApplyEvent) -> Iterator[bytes]:
        if isinstance(event, FinalEvent):
            yield from _details(event.result)
            yield sse.format_event("final", self.whole(event.result))
        else:
            yield sse.format_event("token", json.dumps({"text": event.text}, ensure_ascii=False))

    def error_frame(self, error: ApplyError) -> bytes:
        return sse.format_event("error", error_json(error))


def _details(result: ApplyResult) -> Iterator[bytes]:
    """What the final event says in one, piece by piece before it: clients can show hunks without reading all of it."""
    for hunk in result.hunks:
        edits = [EditOut.model_validate(edit) for edit in result.edits[hunk.first_edit : hunk.end_edit]]
        yield sse.format_event("hunk", HunkEvent(hunk=HunkOut.model_validate(hunk), edits=edits).model_dump_json())
    for verdict in result.verdicts:
        yield sse.format_event("verdict", VerdictOut.model_validate(verdict).model_dump_json())
