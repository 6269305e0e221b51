"""Errors as each dialect's clients expect them: the same facts in three shapes, chosen by the path that was asked.

Native: `{"error": {code, message, value, limit, remedy}}`.  OpenAI-like paths add `type` and `param`, and the message
says the remedy, as clients show nothing else.  `/v1/code/` is flat: `error` is the message itself, the rest beside it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from apply_service.api.answer import ErrorBody
from apply_service.api.errors import RETRY_AFTER_S, error_body, headers_of, status_of
from apply_service.errors import ApplyError, Overloaded, UnknownField

FLAT_PATHS = ("/v1/code/",)
OPENAI_PATHS = (
    "/v1/chat/",
    "/v1/completions",
    "/v1/models",
    "/v1/apply/chat/",
    "/v1/apply/completions",
    "/v1/apply/models",
)


class OpenAIErrorDetail(BaseModel):
    model_config = ConfigDict(extra="forbid")

    message: str = Field(description="What is wrong, and what to do.")
    type: str = Field(description="`invalid_request_error`, `rate_limit_error` or `server_error`.")
    param: str | None = Field(description="The field at fault, where it does not exist.")
    code: str = Field(description="The stable code, as in the table of errors.")
    value: Any
    limit: Any
    remedy: str


class OpenAIErrorBody(BaseModel):
    """An error on the OpenAI-like paths."""

    model_config = ConfigDict(extra="forbid")

    error: OpenAIErrorDetail


class FlatErrorBody(BaseModel):
    """An error on `/v1/code/apply`."""

    model_config = ConfigDict(extra="forbid")

    error: str = Field(description="What is wrong, and what to do.")
    message: str = Field(description="What is wrong.")
    code: str = Field(description="The stable code, as in the table of errors.")
    value: Any
    limit: Any
    remedy: str


def openai_error(error: ApplyError) -> dict[str, Any]:
    """`{"error": {message, type, param, code, ...}}`, always encodable as JSON."""
    details: Any = error_body(error)["error"]
    kind = _type_of(status_of(error))
    param = error.value if isinstance(error, UnknownField) else None
    return {"error": {**details, "message": _with_remedy(details), "type": kind, "param": param}}


def flat_error(error: ApplyError) -> dict[str, Any]:
    """`{"error": message, code, ...}`, always encodable as JSON."""
    details: Any = error_body(error)["error"]
    return {"error": _with_remedy(details), **details}


def error_body_of(error: ApplyError, path: str) -> dict[str, Any]:
    """The error's body at this path."""
    return _shape(path)(error)


def error_response(error: ApplyError, path: str) -> Response:
    """The answer that an error is at this path: status, headers and body."""
    # ASCII only: an offending value may hold lone surrogates, which UTF-8 cannot.
    body = json.dumps(error_body_of(error, path), ensure_ascii=True)
    headers = headers_of(error) | (_rate_headers(error) if path.startswith(FLAT_PATHS) else {})
    return Response(body, status_code=status_of(error), headers=headers, media_type="application/json")


def error_model(path: str) -> type[BaseModel]:
    """The documented shape of errors at this path."""
    if path.startswith(FLAT_PATHS):
        return FlatErrorBody
    return OpenAIErrorBody if path.startswith(OPENAI_PATHS) else ErrorBody


def _rate_headers(error: ApplyError) -> dict[str, str]:
    """What Relace's clients read of a 429.  A key's own rate limit is told by the layer that keeps it."""
    if not isinstance(error, Overloaded):
        return {}
    reset = str(int(time.time()) + RETRY_AFTER_S)
    return {"X-RateLimit-Limit": str(error.limit), "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}


def _shape(path: str) -> Callable[[ApplyError], dict[str, Any]]:
    if path.startswith(FLAT_PATHS):
        return flat_error
    return openai_error if path.startswith(OPENAI_PATHS) else error_body


def _with_remedy(details: Mapping[str, Any]) -> str:
    message, remedy = details["message"], details["remedy"]
    return f"{message.rstrip('.')}. {remedy[:1].upper()}{remedy[1:]}" if remedy else message


def _type_of(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
