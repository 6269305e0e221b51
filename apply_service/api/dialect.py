"""What all dialects share: a request is admitted, its events awaited, and its answer sent whole or as a stream.

A dialect reads its own bodies into an `ApplyRequest` and writes its own answers (a `Reply`); between the two every
request goes through `respond`.  An error before the first bytes has a status of its own; after them, it is the stream's
last frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from apply_service.api import sse
from apply_service.api.auth import caller_of
from apply_service.api.calls import note_error
from apply_service.api.disconnect import cancel_when_gone
from apply_service.api.error_shapes import error_model
from apply_service.api.errors import codes_by_status
from apply_service.api.model_names import resolve_model
from apply_service.api.schema import refuse_too_many_lines
from apply_service.errors import ApplyError
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.ticket import Ticket
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent

T = TypeVar("T")

LARGE_CHARS = 500_000
"""An answer of so much text takes some ten milliseconds to write as JSON."""

LARGE_HUNK_CHARS = 300
"""A hunk with its edits takes about as long as so much text."""


class Reply(Protocol):
    """How one dialect writes the answer to one request.  One object a request."""

    def whole(self, result: ApplyResult) -> str:
        """The answer's JSON.  Raises ApplyError where the dialect cannot hand it out."""
        ...

    def frames(self, event: ApplyEvent) -> Iterable[bytes]:
        """What the stream says of an event; nothing where the event is held back.  Raises ApplyError likewise."""
        ...

    def error_frame(self, error: ApplyError) -> bytes:
        """The stream's last words where it cannot end well."""
        ...


async def respond(
    request: Request, wanted: ApplyRequest, reply: Reply, *, stream: bool, service: Service, settings: Settings
) -> Response:
    """Admit the request and answer it; the body must have been read.  Raises ApplyError before the first byte."""
    refuse_too_many_lines(wanted, settings.max_lines)
    model, owner = resolve_model(wanted.model, settings), caller_of(request.scope).name
    ticket = service.submit(replace(wanted, model=model, owner=owner))
    watcher = cancel_when_gone(request, ticket)
    if stream:
        return await _stream(ticket, reply, watcher)
    return await _whole(ticket, reply, watcher)


async def _whole(ticket: Ticket, reply: Reply, watcher: asyncio.Task[None]) -> Response:
    try:
        async with aclosing(ticket.events_async()) as stream:
            events = [event async for event in stream]
    finally:
        watcher.cancel()
    final = events[-1]
    assert isinstance(final, FinalEvent), "a ticket ends in a final event or an error"
    body = await _written(final.result, partial(reply.whole, final.result))
    return Response(body, media_type="application/json")


async def _written(result: ApplyResult, write: Callable[[], T]) -> T:
    """What `write` makes of the result: of a large one on another thread, as others wait for this one."""
    if len(result.merged_code) + LARGE_HUNK_CHARS * len(result.hunks) < LARGE_CHARS:
        return write()
    return await asyncio.to_thread(write)


async def _stream(ticket: Ticket, reply: Reply, watcher: asyncio.Task[None]) -> Response:
    """Waits for the first frame: until then, an error can still have a status."""
    frames = _frames(ticket, reply, watcher)
    first = await anext(frames)
    return StreamingResponse(_guarded(first, frames, reply), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


async def _frames(ticket: Ticket, reply: Reply, watcher: asyncio.Task[None]) -> AsyncGenerator[bytes]:
    """Closing it, or its end, ends the request and its watcher."""
    try:
        async with aclosing(ticket.events_async()) as events:
            async for event in events:
                frames = reply.frames(event)
                if isinstance(event, FinalEvent):
                    frames = await _written(event.result, partial(list, frames))
                for frame in frames:
                    yield frame
    finally:
        watcher.cancel()


async def _guarded(first: bytes, frames: AsyncGenerator[bytes], reply: Reply) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(frames):
            yield first
            async for frame in frames:
                yield frame
    except ApplyError as error:
        note_error(error)
        yield reply.error_frame(error)


def documented_responses(path: str, answer: type[BaseModel], *, events: Sequence[str] = ()) -> dict[int | str, Any]:
    """Every status that the route can answer, with the error codes it stands for, for the OpenAPI page.  `events` are
    the kinds of the stream's events; none where the route has no stream."""
    responses: dict[int | str, Any] = {200: {"description": "The answer.", "model": answer}}
    if events:
        responses[200]["content"] = {sse.MEDIA_TYPE: {"schema": _event_schema(events)}}
    for status, codes in codes_by_status().items():
        responses[status] = {"description": "Error codes: " + ", ".join(codes) + ".", "model": error_model(path)}
    return responses


def _event_schema(events: Sequence[str]) -> dict[str, Any]:
    """One event of a stream; an event without a name is a `message`."""
    properties = {"event": {"type": "string", "enum": list(events)}, "data": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["data"]}
