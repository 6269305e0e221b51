"""One native request as JSON -> its answer as JSON: by a server where one is named, else in this process.

Both take the same request and give the same answer, so a command neither knows nor cares which it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from apply_service.errors import ApplyError
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, ApplyResult

if TYPE_CHECKING:
    from apply_service.strategies import Runtime


def answer_request(body: bytes, settings: Settings, timeout_s: float | None) -> dict[str, Any]:
    """The native answer to a native request.  Raises ApplyError."""
    if settings.server is not None:
        return _ask_server(body, settings.server, settings, timeout_s)
    return _answer_here(body, settings)


def _ask_server(body: bytes, url: str, settings: Settings, timeout_s: float | None) -> dict[str, Any]:
    from apply_service.clients.http import HttpClient

    return HttpClient(url, timeout_s=settings.default_timeout_s).post(body, timeout_s=timeout_s)


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
