"""Keeps the state of each HTTP request: its id, key, results, errors and log line.

Logs hold names and numbers, never code.  `CallMiddleware` is the outermost layer.  It keeps the request's `HttpCall` in
a context variable.  The layers below, the log formatters and the request's tickets (its edits in the queue) read it.
"""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.errors import NATIVE, ErrorShape
from apply_service.api.keys import NO_KEY, Key
from apply_service.api.pages import NO_PAGE
from apply_service.errors import REPORT_LOG, ApplyError, EngineFailure, Unauthorized
from apply_service.serving.ticket import Ticket
from apply_service.settings import Settings
from apply_service.types import ApplyResult, FinalEvent

REQUEST_ID = "X-Request-Id"
SLASHES = re.compile("/+")
GOOD_ID = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}")
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
EXPECTED = frozenset({503, 504})
"""Statuses that are not the service's fault: the service is stopping, or a deadline has passed."""

log = logging.getLogger("apply_service.access")


@dataclass(slots=True)
class HttpCall:
    """One request in progress.  The engine's thread also appends results and errors."""

    request_id: str
    key: Key = NO_KEY
    is_known: bool = False
    """Whether the caller has a key of the service, or may call without one.  Other callers reach only some paths."""
    results: list[ApplyResult] = field(default_factory=list)
    errors: list[ApplyError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Additional headers of the response."""
    count_edits: Callable[[int], None] = lambda _: None
    """Called with a number of further edits; counts them against the key's rate limit (see `limits`)."""
    is_revoked: bool = False
    """Whether the key has been revoked since the request began."""
    on_revoked: Callable[[ApplyError], object] = lambda _: None
    """Called with an error; ends whatever the request has in progress with this error."""

    def revoke(self) -> None:
        """Record that the key has been revoked, and end what is in progress."""
        self.is_revoked = True
        self.on_revoked(_revoked())

    def refuse_revoked(self) -> None:
        """Raise Unauthorized if the key has been revoked."""
        if self.is_revoked:
            raise _revoked()

    def note_error(self, error: ApplyError) -> None:
        """Add an error unless it was added before."""
        if not any(error is known for known in self.errors):
            self.errors.append(error)


def _revoked() -> Unauthorized:
    return Unauthorized("this API key has been removed from the service", remedy="send another key")


current_call: ContextVar[HttpCall | None] = ContextVar("apply_call", default=None)
"""The call of the current task or ticket; None outside of a request."""


def this_call() -> HttpCall:
    """Return the current call.  Only code that runs below `CallMiddleware` may use this function."""
    call = current_call.get()
    assert call is not None, "CallMiddleware is the outermost layer"
    return call


def note_outcome(ticket: Ticket) -> None:
    """Add the result or error of an edit to its call."""
    if (call := current_call.get()) is None:
        return
    if isinstance(ticket.terminal, FinalEvent):
        call.results.append(ticket.terminal.result)
    elif isinstance(ticket.terminal, ApplyError):
        call.note_error(ticket.terminal)


def error_response(error: ApplyError, shape: ErrorShape) -> Response:
    """Return the response for an error, in the form (`shape`) that the API dialect in use gives to errors."""
    return Response(shape.json(error), shape.status(type(error)), shape.headers(error), media_type="application/json")


class CallMiddleware:
    """Gives every request an id, one log line and one answer, whatever is raised below.  It also catches exceptions
    that are no ApplyError.  Otherwise the server would log their messages, which may quote code."""

    def __init__(
        self,
        app: ASGIApp,
        on_end: Callable[[HttpCall, Scope, int, float], None] = lambda *_: None,
        shape_at: Callable[[str], ErrorShape] = lambda _: NATIVE,
    ) -> None:
        """`on_end` gets the call, its scope, the status (499 if none was sent) and the seconds that the call took.
        `shape_at` returns the form of errors at a path."""
        self._app = app
        self._shape_at = shape_at
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A base URL may end in a slash; clients then write two.
        scope = {**scope, "path": SLASHES.sub("/", scope["path"]).rstrip("/") or "/"}
        given = Headers(scope=scope).get(REQUEST_ID, "")
        call = HttpCall(given if GOOD_ID.fullmatch(given) else uuid.uuid4().hex)
        current_call.set(call)
        status, has_begun, n_bytes, started = 499, False, 0, time.perf_counter()

        async def send_on(message: Message) -> None:
            nonlocal status, has_begun, n_bytes
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                headers = MutableHeaders(scope=message)
                headers.update({REQUEST_ID: call.request_id, **call.headers})
                for name, value in NO_PAGE.items():
                    headers.setdefault(name, value)
            n_bytes += len(message.get("body", b""))
            await send(message)

        async def refuse(error: ApplyError) -> None:
            call.note_error(error)
            if not has_begun:  # an answer that has begun stays unfinished: the connection is then closed
                await error_response(error, self._shape_at(scope["path"]))(scope, receive, send_on)

        try:
            await self._app(scope, receive, send_on)
        except ApplyError as error:
            await refuse(error)
        except Exception as error:
            kind = type(error).__name__
            log.error("request crashed: %s\n%s", kind, "".join(traceback.format_tb(error.__traceback__)))
            await refuse(EngineFailure("the service failed on this request", value=kind, remedy=REPORT_LOG))
        finally:
            seconds = time.perf_counter() - started
            self._on_end(call, scope, status, seconds)
            _log_call(call, scope, status, {"ms": round(seconds * 1000, 2), "bytes_out": n_bytes})


def _log_call(call: HttpCall, scope: Scope, status: int, sizes: dict[str, float]) -> None:
    """Write the log line.  Successful health checks and metrics are logged only at level debug, because they are
    requested every few seconds."""
    level = logging.DEBUG if scope["path"] in PROBES else logging.INFO
    if status >= 500 and status not in EXPECTED:
        level = logging.ERROR
    if not log.isEnabledFor(level):
        return
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        **sizes,
        "caller": call.key.name,
        "client": (scope.get("client") or ("",))[0],
    }
    if call.errors:
        fields["errors"] = [error.code for error in call.errors]
    if call.results:
        fields["edits"] = [
            {name: getattr(result, name) for name in ("strategy", "format", "language", "model")}
            | {
                name: getattr(result.stats, name)
                for name in ("prompt_tokens", "completion_tokens", "passes", "rejections")
                if name not in result.stats.unknown
            }
            | {"findings": [verdict.check for verdict in result.verdicts if not verdict.is_pass]}
            for result in call.results
        ]
    log.log(level, "answered", extra={"fields": fields})


# -- how lines are written ---------------------------------------------------------------------------------------------
def configure_logging(settings: Settings) -> None:
    """Log to standard error, with the level and format of the settings."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    for name in ("httpx", "urllib3"):  # they log each of their own requests
        logging.getLogger(name).setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, request_id, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        # ASCII only: a path may hold lone surrogates, which UTF-8 cannot encode.
        return json.dumps({**line, "message": _message(record), **_fields(record)}, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    """`time LEVEL logger: message key=value ...`; values are JSON, so a line stays one line."""

    def format(self, record: logging.LogRecord) -> str:
        words = "".join(f" {name}={json.dumps(value, default=str)}" for name, value in _fields(record).items())
        return f"{_time(record)} {record.levelname} {record.name}: {_message(record)}{words}"


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _message(record: logging.LogRecord) -> str:
    """Return the message.  For an exception, the message gives its type and place, but not its text, which may quote
    code."""
    text = record.getMessage()
    if record.exc_info is not None and record.exc_info[0] is not None:
        frames = traceback.extract_tb(record.exc_info[2])
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        text += f" [{record.exc_info[0].__name__}{place}]"
    return text


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    call = current_call.get()
    given: dict[str, Any] = getattr(record, "fields", {})
    return ({} if call is None else {"request_id": call.request_id}) | given
