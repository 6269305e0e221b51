"""Handles the part of a request's path that all dialects share.

A dialect is a set of paths with their own JSON.  It turns a body into an `ApplyRequest`, and writes the answer
(`ReplyWriter`).  In between, every request goes through `respond`.  An error before the first byte has a status; a
later error is the last event of the stream.  The application's state holds `service` and `settings`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from apply_service.api.calls import this_call
from apply_service.api.errors import NATIVE, ErrorShape
from apply_service.api.limits import declared_bytes
from apply_service.deadline import cancelled_error
from apply_service.errors import ApplyError, TooLarge, UnknownModel, UnsupportedMediaType
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent

T = TypeVar("T")

SSE = "text/event-stream"
SSE_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Tells proxies not to store or buffer a stream."""
PARSED_AT_ONCE = 64 * 1024
"""Bodies larger than this are not parsed on the event loop: at this size, the slowest JSON takes 40 ms."""
DRAIN_FACTOR = 4
"""An oversized body is read and dropped up to this multiple of the limit, unless it declares a larger size.  Many
clients don't see an answer that arrives while they are still sending."""
LARGE_CHARS = 500_000
"""Writing an answer with this much text as JSON takes ten milliseconds."""
LARGE_EDIT_CHARS = 1000
"""Writing a text edit or a hunk takes as long as writing this much text."""


class ReplyWriter(Protocol):
    """Writes the answer to one request in one dialect.  `whole` writes it as JSON, `frames` as a stream: any number of
    frames for each event.  Both raise ApplyError if the dialect can't hand out the answer."""

    error_event: str
    """The name of the event that ends a stream with an error; may be empty."""
    errors: ErrorShape

    def whole(self, result: ApplyResult) -> str: ...
    def frames(self, event: ApplyEvent) -> Iterable[bytes]: ...


def sse_event(data: str, name: str = "") -> bytes:
    """Return one server-sent event; `data` is a JSON text without line breaks."""
    return f"event: {name}\ndata: {data}\n\n".encode() if name else f"data: {data}\n\n".encode()


# -- in ----------------------------------------------------------------------------------------------------------------
async def read_call(request: Request, parse: Callable[[bytes], T]) -> T:
    """Parse the body with `parse`, in a worker process if it is large.

    Raises:
        UnsupportedMediaType: the body is not declared as JSON (which a web page can't send to other origins), or is
            compressed.
        TooLarge: the body has more than `max_body_bytes`.
        Cancelled: the client went away while sending.
        ApplyError: the errors of `parse`, or DeadlineExceeded if parsing takes too long.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        remedy = "send the header Content-Type: application/json"
        raise UnsupportedMediaType("the body must be JSON", value=kind, limit="application/json", remedy=remedy)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        remedy = "leave the header Content-Encoding out, and send the JSON as it is"
        raise UnsupportedMediaType("the body must not be compressed", value=encoding, limit="identity", remedy=remedy)
    service, settings = state_of(request)
    max_bytes, chunks, n_bytes = settings.max_body_bytes, list[bytes](), 0
    if DRAIN_FACTOR * max_bytes < (n_declared := declared_bytes(request.headers)) < math.inf:
        raise _oversized(int(n_declared), max_bytes)
    try:
        async for chunk in request.stream():
            n_bytes += len(chunk)
            if n_bytes <= max_bytes:
                chunks.append(chunk)
            elif n_bytes > DRAIN_FACTOR * max_bytes:
                break
    except ClientDisconnect:
        raise cancelled_error() from None
    if n_bytes > max_bytes:
        raise _oversized(n_bytes, max_bytes)
    body = b"".join(chunks)
    return parse(body) if n_bytes <= PARSED_AT_ONCE else await service.call(partial(parse, body))


def _oversized(n_bytes: int, limit: int) -> TooLarge:
    remedy = "send a smaller file or edit, or raise max_body_bytes"
    return TooLarge("the request body is too large", value=n_bytes, limit=limit, remedy=remedy)


def state_of(request: Request) -> tuple[Service, Settings]:
    """Return the service and the settings of the application."""
    return request.app.state.service, request.app.state.settings


def admissible(wanted: ApplyRequest, settings: Settings) -> ApplyRequest:
    """Return the request with its owner, and with the model's own name in place of an alias.

    Raises:
        TooLarge: original or update have more lines than `max_lines`.
        UnknownModel: there is no such model.
        Unauthorized: the key has been revoked.
    """
    this_call().refuse_revoked()
    for name, text in (("original", wanted.original), ("update", wanted.update)):
        if (n_lines := text.count("\n") + 1) > settings.max_lines:
            remedy = "send only a part of it, or raise max_lines"
            raise TooLarge(f"{name} has too many lines", value=n_lines, limit=settings.max_lines, remedy=remedy)
    names = model_names(settings)
    if wanted.model is not None and wanted.model not in names:
        remedy = "name one of these, or leave `model` out"
        raise UnknownModel("this service has no such model", value=wanted.model, limit=list(names), remedy=remedy)
    model = None if wanted.model is None else names[wanted.model]
    return replace(wanted, model=model, owner=this_call().key.name)


def model_names(settings: Settings) -> dict[str, str]:
    """Return a model for each name that a request may use; the models' own names come first, then aliases."""
    own = {name: name for name in settings.model_sources}
    pairs = (entry.partition("=") for entry in settings.model_aliases)  # an alias without `=` means the default model
    return own | {alias: model or settings.model for alias, _, model in pairs if alias not in own}


def watch_client(request: Request, give_up: Callable[[ApplyError], object]) -> asyncio.Task[None]:
    """Return a task that calls `give_up` when the client disconnects.  Revoking the request's key calls `give_up` as
    well.  The body must have been read.  The caller cancels the task when the answer has been sent."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        give_up(cancelled_error())

    this_call().on_revoked = give_up
    return asyncio.create_task(watch())


# -- out ---------------------------------------------------------------------------------------------------------------
async def respond(request: Request, wanted: ApplyRequest, reply: ReplyWriter, *, stream: bool) -> Response:
    """Admit the request and answer it.  The body must have been read.  Raises ApplyError only before the first byte."""
    service, settings = state_of(request)
    ticket = service.submit(admissible(wanted, settings))
    watcher = watch_client(request, ticket.end)

    def write(event: ApplyEvent) -> list[bytes]:
        if stream:
            return list(reply.frames(event))
        return [reply.whole(event.result).encode()] if isinstance(event, FinalEvent) else []

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            async with aclosing(ticket.events_async()) as events:
                async for event in events:
                    if isinstance(event, FinalEvent):
                        n_parts = len(event.result.edits) + len(event.result.hunks)
                        size = len(event.result.merged_code) + LARGE_EDIT_CHARS * n_parts
                    else:
                        size = len(event.text)
                    # A large answer is written on another thread, because other requests wait for this thread.
                    for piece in write(event) if size < LARGE_CHARS else await asyncio.to_thread(write, event):
                        yield piece
        finally:
            watcher.cancel()

    async def guarded() -> AsyncGenerator[bytes]:
        call = this_call()
        try:
            async with aclosing(rest):
                call.refuse_revoked()
                yield first
                async for piece in rest:
                    call.refuse_revoked()
                    yield piece
        except ApplyError as error:
            call.note_error(error)
            yield sse_event(reply.errors.json(error), reply.error_event)

    rest = pieces()
    first = await anext(rest)  # up to here, an error can still have a status
    if stream:
        return StreamingResponse(guarded(), media_type=SSE, headers=SSE_HEADERS)
    await rest.aclose()
    return Response(first, media_type="application/json")


# -- the OpenAPI page --------------------------------------------------------------------------------------------------
def documented(
    path: str,
    body: type[BaseModel],
    answer: type[BaseModel],
    events: Sequence[str] = (),
    errors: ErrorShape = NATIVE,
) -> dict[str, Any]:
    """Return the OpenAPI description of a POST route.  `events`: the kinds of events in its stream, if it has one.  An
    event without a name is a `message`."""
    responses: dict[int | str, Any] = {200: {"description": "The answer.", "model": answer}, **error_responses(errors)}
    if events:
        event = {"event": {"type": "string", "enum": list(events)}, "data": {"type": "string"}}
        schema = {"type": "object", "properties": event, "required": ["data"]}
        responses[200]["content"] = {SSE: {"schema": schema}}
    content = {"application/json": {"schema": body_schema(body)}}
    extra = {"requestBody": {"required": True, "content": content}}
    return {"path": path, "response_model": None, "responses": responses, "openapi_extra": extra}


def error_responses(errors: ErrorShape) -> dict[int | str, Any]:
    """Return the OpenAPI description of each error status, with its codes."""
    return {
        status: {"description": "Error codes: " + ", ".join(codes) + ".", "model": errors.model}
        for status, codes in errors.codes_by_status().items()
    }


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a body, without references to other parts of the OpenAPI page."""
    schema = model.model_json_schema()
    shapes = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            shape = shapes.get(str(node.get("$ref", "")).rsplit("/", 1)[-1])
            rest = {key: inline(value) for key, value in node.items() if key != "$ref"}
            return rest if shape is None else {**inline(shape), **rest}
        return [inline(item) for item in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = inline(schema)
    return inlined
