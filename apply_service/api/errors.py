"""Errors on their way out: which status each class gets, and the one JSON shape they all have.

Foreign errors (pydantic's, Starlette's) are translated into the tree of `errors.py` here and nowhere else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import apply_service.errors as errors
from apply_service.errors import ApplyError, BadEncoding, InvalidField, UnknownField

STATUS: Mapping[type[ApplyError], int] = {
    errors.RequestError: 422,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.UnsupportedMediaType: 415,
    errors.RequestTimeout: 408,
    errors.Unauthorized: 401,
    errors.OriginRefused: 403,
    errors.IdempotencyConflict: 422,
    errors.EmptyUpdate: 422,
    errors.UnknownField: 422,
    errors.InvalidField: 422,
    errors.UnsupportedParameter: 422,
    errors.UnknownModel: 404,
    errors.UnknownDrafter: 422,
    errors.UnknownEditFormat: 422,
    errors.BadEncoding: 422,
    errors.NulByte: 422,
    errors.StaleBase: 409,
    errors.TooLarge: 413,
    errors.ContextLimitExceeded: 413,
    errors.MalformedEdit: 422,
    errors.NeedsMoreContext: 422,
    errors.InstructionUnsupported: 422,
    errors.NotAnEdit: 422,
    errors.AmbiguousTags: 422,
    errors.ResultError: 422,
    errors.Truncated: 422,
    errors.CheckFailed: 422,
    errors.AlteredBytes: 500,
    errors.StreamReplaced: 422,
    errors.ServiceError: 503,
    errors.Overloaded: 429,
    errors.RateLimited: 429,
    errors.DeadlineExceeded: 504,
    errors.Cancelled: 499,
    errors.EngineFailure: 500,
    errors.NotReady: 503,
    errors.Unreachable: 502,
    errors.RemoteFailure: 502,
    errors.FileError: 500,
    errors.FileNotReadable: 500,
    errors.FileNotWritable: 500,
    errors.FileChanged: 500,
    errors.NoBackup: 500,
    errors.OutsideRoots: 500,
    errors.ModelError: 503,
    errors.ModelNotLoadable: 503,
    errors.ModelTooLarge: 503,
    errors.RemoteCodeRefused: 503,
    errors.MissingDependency: 503,
    errors.SettingsError: 500,
    errors.ApplyError: 500,
}
"""Every class by name; a test holds it against the tree."""

NEVER_SENT = (errors.FileError, errors.SettingsError, errors.Unreachable)
"""The command line's own; the service has no files and is no client."""

ALLOWED: Mapping[str, str] = {
    "model_type": "one JSON object",
    "dict_type": "an object",
    "list_type": "a list",
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "less_than_equal": "at most {le}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of {max_length} or fewer characters",
}
"""pydantic's kinds of findings on the fields that there are, in words of ours; a test holds it against the schema."""

RETRY_AFTER_S = 1
"""After an overload; what else says how long has a time of its own."""
MAX_VALUE_CHARS = 200
"""An error quotes at most so much of what offended."""


def status_of(error: ApplyError) -> int:
    """The HTTP status of an error; a class from outside the tree has that of its base."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def headers_of(error: ApplyError) -> dict[str, str]:
    return {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, errors.Overloaded | errors.NotReady) else {}


def error_body(error: ApplyError) -> dict[str, object]:
    """`{"error": {code, message, value, limit, remedy}}`, always encodable as JSON."""
    return {"error": {name: _jsonable(value) for name, value in error.as_dict().items()}}


def error_json(error: ApplyError) -> str:
    # ASCII only: an offending value may hold lone surrogates, which UTF-8 cannot.
    return json.dumps(error_body(error), ensure_ascii=True)


def codes_by_status() -> dict[int, list[str]]:
    """What each status can mean, for the documentation."""
    table: dict[int, list[str]] = {}
    for kind, status in STATUS.items():
        if not kind.__subclasses__() and not issubclass(kind, NEVER_SENT):
            table.setdefault(status, []).append(kind.code)
    return dict(sorted(table.items()))


def from_validation(findings: Sequence[Mapping[str, Any]], known_fields: Sequence[str]) -> ApplyError:
    """The first of pydantic's findings as an error of ours; unknown fields first, since a typo explains the rest."""
    finding = next((f for f in findings if f["type"] == "extra_forbidden"), findings[0])
    name = _name(finding["loc"])
    if finding["type"] == "extra_forbidden":
        return UnknownField(
            f"Unknown field {name!r}.", value=name, limit=list(known_fields), remedy="Remove it or correct its name."
        )
    if "hex escape" in finding["msg"] or finding["type"] == "string_unicode":
        return BadEncoding(
            f"{name} holds a lone surrogate, which is no Unicode text.",
            value=name,
            remedy="Send well-formed text; a file's bytes go to POST /v1/apply as original_b64 with their encoding.",
        )
    if finding["type"] == "json_invalid":
        why = str(finding["ctx"]["error"]).replace("EOF while parsing", "it ends within")
        return InvalidField(f"The body is not JSON: {why}.", value="body", remedy="Send one JSON object.")
    if finding["type"] == "missing":
        return InvalidField(f"Field {name!r} is missing.", value=name, remedy=f"Send {name}.")
    allowed = _allowed(finding)
    what = f"Bad value for {name!r}: it" if finding["loc"] else "The request"
    return InvalidField(
        f"{what} must be {allowed}.",
        value=finding.get("input"),
        limit=allowed,
        remedy=f"Send {name} as allowed." if finding["loc"] else f"Send {allowed}.",
    )


def from_status(status: int, path: str, method: str) -> ApplyError:
    """An error of the framework (no such path, wrong method) as one of ours."""
    if status == 404:
        return errors.NotFound(
            f"There is nothing at {path}.", value=path, remedy="See /openapi.json for what there is."
        )
    if status == 405:
        return errors.MethodNotAllowed(
            f"{path} does not take {method}.", value=method, remedy="See the Allow header and /openapi.json."
        )
    phrase = HTTPStatus(status).phrase
    return errors.InvalidField(f"The request cannot be served: {phrase}.", value=phrase, remedy="See /openapi.json.")


def _name(loc: Sequence[object]) -> str:
    """The field's path, without the types that pydantic tried on the way."""
    parts = [str(part) for part in loc]
    return ".".join(part for part in parts if part != "str" and not part.startswith("list[")) or "body"


def _allowed(finding: Mapping[str, Any]) -> str:
    """What would have been allowed, in our words."""
    context = {key: _plain_number(value) for key, value in finding.get("ctx", {}).items()}
    return ALLOWED.get(finding["type"], "as documented").format_map(context)


def _plain_number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _jsonable(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= MAX_VALUE_CHARS else value[:MAX_VALUE_CHARS] + "..."
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    return _jsonable(str(value))
