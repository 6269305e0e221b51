"""The outermost layer of the application: every request gets its id, one log line, its counts and, whatever happens
further in, one answer.

The layers below (`timeouts`, `auth`, `limits`, `idempotency`) refuse a request by raising an ApplyError; here it
becomes a response.  A foreign exception ends here too: the server underneath would log its message, which may quote
code.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
import uuid
from collections.abc import Callable
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.calls import Call, enter_call
from apply_service.errors import ApplyError, EngineFailure
from apply_service.types import ApplyResult

Render = Callable[[ApplyError, str], Response]
"""The response for an error at a path: dialects have shapes of their own."""

OnEnd = Callable[[Call, Scope, int, float], None]
"""Called once a request, with its status (499 where none was sent) and its seconds."""

REQUEST_ID = "X-Request-Id"
GOOD_ID = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}")

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
EXPECTED = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
"""A stop and a deadline are no fault of the service."""

log = logging.getLogger("apply_service.access")


class CallMiddleware:
    """Makes the `Call`, answers what is raised, tells the observer, writes the log line."""

    def __init__(self, app: ASGIApp, *, render: Render, on_end: OnEnd = lambda *_: None) -> None:
        self._app = app
        self._render = render
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(_request_id(Headers(scope=scope)))
        enter_call(call)
        answer = _Answer(call, send)
        started = time.perf_counter()
        try:
            await self._answered(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - started
            self._on_end(call, scope, answer.status, seconds)
            _log_call(call, scope, answer, seconds)

    async def _answered(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            await self._app(scope, receive, answer.send)
        except ApplyError as error:
            await self._refuse(scope, receive, answer, error)
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("request crashed: %s\n%s", type(error).__name__, frames)
            kind = type(error).__name__
            failure = EngineFailure("The service failed on this request.", value=kind, remedy="See its log.")
            await self._refuse(scope, receive, answer, failure)

    async def _refuse(self, scope: Scope, receive: Receive, answer: _Answer, error: ApplyError) -> None:
        """Answer with the error.  Where an answer has begun, leave it unfinished: the connection is then closed."""
        answer.call.note_error(error)
        if not answer.has_begun:
            await self._render(error, scope["path"])(scope, receive, answer.send)


class _Answer:
    """The response as it goes out."""

    def __init__(self, call: Call, send: Send) -> None:
        self.call = call
        self.status = 499
        self.n_bytes = 0
        self.has_begun = False
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers.update({REQUEST_ID: self.call.request_id, **self.call.headers})
        self.n_bytes += len(message.get("body", b""))
        await self._send(message)


def _request_id(headers: Headers) -> str:
    """The caller's own, where it can stand in a header and a log line."""
    given = headers.get(REQUEST_ID, "")
    return given if GOOD_ID.fullmatch(given) else uuid.uuid4().hex


# -- the log line ------------------------------------------------------------------------------------------------------
def _log_call(call: Call, scope: Scope, answer: _Answer, seconds: float) -> None:
    level = _level(scope["path"], answer.status)
    if not log.isEnabledFor(level):
        return
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": scope["path"],
        "status": answer.status,
        "ms": round(seconds * 1000, 2),
        "bytes_out": answer.n_bytes,
        "caller": call.caller,
        "client": (scope.get("client") or ("",))[0],
    }
    if call.errors:
        fields["errors"] = [error.code for error in call.errors]
    if call.results:
        fields["edits"] = [_describe(result) for result in call.results]
    log.log(level, "answered", extra={"fields": fields})


def _level(path: str, status: int) -> int:
    """Probes and scrapes come every few seconds, and say nothing as long as they are answered."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in EXPECTED:
        return logging.ERROR
    return logging.DEBUG if path in PROBES else logging.INFO


def _describe(result: ApplyResult) -> dict[str, object]:
    """An edit in names and numbers; none of its text."""
    counts = ("prompt_tokens", "completion_tokens", "passes", "rejections")
    return {
        "strategy": result.strategy,
        "format": result.format,
        "language": result.language,
        "model": result.model,
        **{name: getattr(result.stats, name) for name in counts if name not in result.stats.unknown},
        "findings": [verdict.check for verdict in result.verdicts if not verdict.is_pass],
    }
