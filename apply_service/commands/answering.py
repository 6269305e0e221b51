"""A native request or batch as JSON -> its answer as JSON: by a server where one is named, else in this process.

Both take the same request and give the same answer, so a command neither knows nor cares which it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from apply_service.errors import ApplyError
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, ApplyResult

if TYPE_CHECKING:
    from apply_service.api.schema import BatchRequest
    from apply_service.batch.results import BatchResult
    from apply_service.clients.http import HttpClient
    from apply_service.runtime import Runtime


def answer_request(body: bytes, settings: Settings, timeout_s: float | None) -> dict[str, Any]:
    """The native answer to a native request.  Raises ApplyError."""
    if settings.server is not None:
        return _client(settings.server, settings).post(body, timeout_s=timeout_s)
    return _answer_here(body, settings)


def answer_batch(body: bytes, settings: Settings, n_files: int) -> dict[str, Any]:
    """The answer to a batch.  Raises ApplyError."""
    if settings.server is not None:
        from apply_service.clients.calls import BATCH_PATH

        # The server ends each edit by its own deadline, which may be the longest it allows.
        wait_s = max(1, n_files) * settings.max_timeout_s
        return _client(settings.server, settings).post(body, path=BATCH_PATH, timeout_s=wait_s)
    return _answer_batch_here(body, settings)


def _client(url: str, settings: Settings) -> HttpClient:
    from apply_service.clients.http import HttpClient

    return HttpClient(url, api_key=settings.api_key, timeout_s=settings.default_timeout_s)


def _answer_here(body: bytes, settings: Settings) -> dict[str, Any]:
    from apply_service.api.answer import NativeAnswer
    from apply_service.api.schema import NativeRequest
    from apply_service.build import build_runtime

    call = NativeRequest.parse(body)
    result = _run(call.to_request(), build_runtime(settings))
    answer: dict[str, Any] = json.loads(
        NativeAnswer.of(result, with_bytes=call.original_b64 is not None).model_dump_json()
    )
    return answer


def _answer_batch_here(body: bytes, settings: Settings) -> dict[str, Any]:
    from apply_service.api.answer import BatchAnswer
    from apply_service.api.schema import BatchRequest
    from apply_service.batch.patch import apply_patch_request

    call = BatchRequest.parse(body)
    result = apply_patch_request(call.to_patch()) if call.patch is not None else _run_edits(call, settings)
    answer: dict[str, Any] = json.loads(BatchAnswer.of(result, call).model_dump_json())
    return answer


def _run_edits(call: BatchRequest, settings: Settings) -> BatchResult:
    import asyncio
    from dataclasses import replace
    from functools import partial

    from apply_service.batch.edits import apply_edits, share_deadline
    from apply_service.build import build_runtime, open_service

    requests = share_deadline(call.to_requests(), settings.default_timeout_s, settings.max_timeout_s)
    with open_service(build_runtime(settings), replace(settings, small_edit_workers=0)) as service:
        return asyncio.run(apply_edits(partial(service.submit, is_patient=True), requests, call.mode))


def _run(request: ApplyRequest, runtime: Runtime) -> ApplyResult:
    """In this thread: an interrupt stops it, and no thread is left in a forward pass when the process ends."""
    from apply_service.pipeline import apply
    from apply_service.task import crash_error

    try:
        return apply(request, runtime)
    except ApplyError:
        raise
    except Exception as error:
        raise crash_error(error) from error
