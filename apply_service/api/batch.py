"""`POST /v1/apply/batch`: several files in one request, all or nothing or each for itself.

Answered whole; a client that goes away cancels what is left of it.  What makes a request malformed is an error with a
status, as everywhere; what goes wrong with one file is told at that file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from apply_service.api.answer import ErrorBody
from apply_service.api.auth import caller_of
from apply_service.api.batch_schema import BatchAnswer, BatchRequest
from apply_service.api.body import read_call
from apply_service.api.errors import codes_by_status
from apply_service.api.limits import count_edits
from apply_service.api.model_names import resolve_model
from apply_service.api.schema import refuse_too_many_lines
from apply_service.batch.edits import apply_edits, share_deadline
from apply_service.batch.patch import apply_patch_request
from apply_service.batch.requests import PatchRequest
from apply_service.batch.results import BatchResult
from apply_service.deadline import cancelled_error
from apply_service.errors import TooLarge
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest

PATH = "/v1/apply/batch"
TEXT = (
    "The status is 200 whenever the batch could be tried; what became of it is `status`, and what became of each file "
    "stands at the file. A verdict of severity error fails its file unless `on_verdict` accepts it. Without a result "
    "nothing of a file is handed out, its verdicts aside."
)


def batch_router(service: Service, settings: Settings) -> APIRouter:
    """The route of batches."""
    router = APIRouter()

    @router.post(
        PATH,
        summary="Apply edits to several files, or one patch over all of them",
        description=TEXT,
        response_model=None,
        responses=documented_responses(),
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": request_schema()}}}
        },
    )
    async def apply_batch(request: Request) -> Response:
        parse = partial(_parsed, max_edits=settings.max_batch_edits)
        call = await read_call(request, settings.max_body_bytes, parse, service)
        count_edits(request.scope, len(call.edits or []))
        owner = caller_of(request.scope).name
        result = await _unless_gone(request, _answer(call, owner, service, settings))
        return Response(BatchAnswer.of(result, call).model_dump_json(), media_type="application/json")

    return router


async def _answer(call: BatchRequest, owner: str, service: Service, settings: Settings) -> BatchResult:
    if call.patch is not None:
        patch = call.to_patch()
        _refuse_long_patch(patch, settings.max_lines)
        return await _apply_patch(patch, service, settings)
    edits = call.to_requests()
    requests = [replace(edit, owner=owner, model=resolve_model(edit.model, settings)) for edit in edits]
    for request in requests:
        refuse_too_many_lines(request, settings.max_lines)
    timed = share_deadline(requests, settings.default_timeout_s, settings.max_timeout_s)
    return await apply_edits(partial(service.submit, is_patient=True), timed, call.mode)


async def _apply_patch(patch: PatchRequest, service: Service, settings: Settings) -> BatchResult:
    """In a process beside the engine, where there are any.  Raises DeadlineExceeded, as an edit without a deadline."""
    n_chars = len(patch.patch) + sum(len(source.text) for source in patch.files)
    return await service.call(partial(apply_patch_request, patch), n_chars, timeout_s=settings.default_timeout_s)


def _parsed(body: bytes, *, max_edits: int) -> BatchRequest:
    call = BatchRequest.parse(body)
    n_edits = len(call.files if call.edits is None else call.edits)
    if n_edits > max_edits:
        raise TooLarge(
            "The batch holds too many edits.",
            value=n_edits,
            limit=max_edits,
            remedy="Send several batches, or raise max_batch_edits.",
        )
    return call


def _refuse_long_patch(patch: PatchRequest, limit: int) -> None:
    for source in patch.files:
        refuse_too_many_lines(ApplyRequest(source.text), limit)
    refuse_too_many_lines(ApplyRequest("", patch.patch), limit)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, BatchResult]) -> BatchResult:
    """The result of the work, which is cancelled where the client disconnects.  Raises Cancelled then."""
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_call_when_gone(request.receive, task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        if watcher.done():
            raise cancelled_error() from None
        raise
    finally:
        watcher.cancel()
        task.cancel()


async def _call_when_gone(receive: Callable[[], Awaitable[Any]], callback: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    callback()


def documented_responses() -> dict[int | str, dict[str, Any]]:
    """Every status that the route can answer, with the error codes it stands for."""
    answers: dict[int | str, dict[str, Any]] = {200: {"description": "What became of each file.", "model": BatchAnswer}}
    for status, codes in codes_by_status().items():
        answers[status] = {"description": "Error codes: " + ", ".join(codes) + ".", "model": ErrorBody}
    return answers


def request_schema() -> dict[str, Any]:
    """The request's schema in one piece: references into `$defs` would point nowhere inside the OpenAPI page."""
    schema = BatchRequest.model_json_schema()
    shapes = schema.pop("$defs")

    def inline(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inline(shapes[value["$ref"].rsplit("/", 1)[-1]])
            return {key: inline(item) for key, item in value.items()}
        return [inline(item) for item in value] if isinstance(value, list) else value

    inlined: dict[str, Any] = inline(schema)
    return inlined
