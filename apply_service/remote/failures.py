"""What a server's refusals mean here: foreign statuses and error bodies become errors of ours, in this file alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from apply_service.errors import ApplyError, ContextLimitExceeded, Overloaded, RemoteFailure

MAX_QUOTE_CHARS = 200
CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
CONTEXT_WORDS = re.compile(r"context (?:length|window|size)|maximum context|max_model_len", re.IGNORECASE)
REMEDIES: Mapping[int, str] = {
    401: "Set remote_key to a key that the server takes.",
    403: "Set remote_key to a key that may use this model.",
    404: "Correct the model's name after `remote:`, or remote_url, which ends in the API's version.",
    400: "Leave out of remote_takes what the server does not take.",
    422: "Leave out of remote_takes what the server does not take.",
}


def is_passing(status: int) -> bool:
    """Whether the same request may be answered a moment later."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    )


def error_of(status: int, body: bytes) -> ApplyError:
    """The error that an answer other than 200 means."""
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    code, message = _code_and_message(parsed.get("error", parsed) if isinstance(parsed, dict) else None)
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE) and _is_context(code, message):
        return _too_long()
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Overloaded("The remote server takes no more requests now.", value=status, remedy="Wait a moment.")
    is_about_key = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)  # whose message may quote the key
    quoted = "" if is_about_key or not message else f": {message[:MAX_QUOTE_CHARS]}"
    default = "Try again later." if is_passing(status) else "See the remote server's documentation."
    return RemoteFailure(
        f"The remote server answered {status}{quoted}.", value=code or status, remedy=REMEDIES.get(status, default)
    )


def error_in(error: Any) -> ApplyError:
    """The error that a stream or a body of status 200 tells of."""
    code, message = _code_and_message(error)
    if _is_context(code, message):
        return _too_long()
    return RemoteFailure(
        f"The remote server failed while it wrote{': ' + message[:MAX_QUOTE_CHARS] if message else ''}.",
        value=code,
        remedy="Send the edit again.",
    )


def wait_s(header: str | None) -> float | None:
    """Seconds that a Retry-After asks for, in either of its spellings; None where it asks for none."""
    if header is None:
        return None
    try:
        return max(0.0, float(header)) if float(header) < float("inf") else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _code_and_message(error: Any) -> tuple[str | None, str]:
    """Code and message of an error body, whatever its shape."""
    if isinstance(error, str):
        return None, error
    if not isinstance(error, dict):
        return None, ""
    code = next((error[name] for name in ("code", "type") if isinstance(error.get(name), str)), None)
    message = error.get("message", error.get("detail", ""))
    return code, message if isinstance(message, str) else ""


def _is_context(code: str | None, message: str) -> bool:
    return code in CONTEXT_CODES or CONTEXT_WORDS.search(message) is not None


def _too_long() -> ContextLimitExceeded:
    return ContextLimitExceeded(
        "file and edit exceed the context of the remote model", remedy="use a model with a longer context"
    )
