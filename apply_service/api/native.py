"""The native dialect: `POST /v1/apply`, JSON in, JSON or server-sent events out.

Both answers consume the same ticket.  An error before the first event has a status of its own; after it, it is the
stream's last event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from apply_service.api import sse
from apply_service.api.answer import ErrorBody, NativeAnswer
from apply_service.api.body import read_json_body
from apply_service.api.disconnect import cancel_when_gone
from apply_service.api.errors import codes_by_status, error_json
from apply_service.api.schema import NativeRequest, refuse_too_many_lines
from apply_service.errors import ApplyError
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.ticket import Ticket
from apply_service.types import ApplyEvent, FinalEvent

PATH = "/v1/apply"
STREAM_TEXT = (
    "With `stream: true`: `token` events (`{text}`: the merged text piece by piece, **provisional**: only the final "
    "event is an answer), then one `final` event (the answer as below) or one `error` event (the error body)."
)


def native_router(service: Service, settings: Settings) -> APIRouter:
    """The dialect's routes."""
    router = APIRouter()

    @router.post(
        PATH,
        summary="Apply one edit to one file",
        description=STREAM_TEXT,
        response_model=None,
        responses=documented_responses(),
        openapi_extra={"requestBody": _request_body()},
    )
    async def apply(request: Request) -> Response:
        body = await read_json_body(request, settings.max_body_bytes)
        call = NativeRequest.parse(body)
        apply_request = call.to_request()
        refuse_too_many_lines(apply_request, settings.max_lines)
        ticket = service.submit(apply_request)
        watcher = cancel_when_gone(request, ticket)
        if call.stream:
            return await _stream(call, ticket, watcher)
        return await _whole(call, ticket, watcher)

    return router


async def _whole(call: NativeRequest, ticket: Ticket, watcher: asyncio.Task[None]) -> Response:
    try:
        async with aclosing(ticket.events_async()) as stream:
            events = [event async for event in stream]
    finally:
        watcher.cancel()
    return Response(_payload(call, events[-1]), media_type="application/json")


async def _stream(call: NativeRequest, ticket: Ticket, watcher: asyncio.Task[None]) -> Response:
    """Waits for the first event: until then, an error can still have a status."""
    events = ticket.events_async()
    try:
        first = await anext(events)
    except BaseException:
        watcher.cancel()
        raise
    return StreamingResponse(_frames(call, first, events, watcher), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


async def _frames(
    call: NativeRequest, first: ApplyEvent, events: AsyncGenerator[ApplyEvent], watcher: asyncio.Task[None]
) -> AsyncGenerator[bytes]:
    try:
        yield _frame(call, first)
        async for event in events:
            yield _frame(call, event)
    except ApplyError as error:
        yield sse.format_event("error", error_json(error))
    finally:
        watcher.cancel()
        await events.aclose()


def _frame(call: NativeRequest, event: ApplyEvent) -> bytes:
    return sse.format_event("final" if isinstance(event, FinalEvent) else "token", _payload(call, event))


def _payload(call: NativeRequest, event: ApplyEvent) -> str:
    if isinstance(event, FinalEvent):
        return NativeAnswer.of(event.result, with_bytes=call.original_b64 is not None).model_dump_json()
    return json.dumps({"text": event.text}, ensure_ascii=False)


# -- documentation -----------------------------------------------------------------------------------------------------
def documented_responses() -> dict[int | str, dict[str, Any]]:
    """Every status that the route can answer, with the error codes it stands for."""
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The merged file.",
            "model": NativeAnswer,
            "content": {sse.MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    }
    for status, codes in codes_by_status().items():
        answers[status] = {"description": "Error codes: " + ", ".join(codes) + ".", "model": ErrorBody}
    return answers


def _request_body() -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": NativeRequest.model_json_schema()}}}
