"""Gives each error its HTTP status and its JSON in the native dialect, and translates the errors of libraries.

The native JSON is `{"error": {code, message, value, limit, remedy}}`.  Another dialect has its own `ErrorShape` beside
its routes.  Only this module translates errors of pydantic and Starlette into those of `errors.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import apply_service.errors as errors
from apply_service.errors import ApplyError, BadEncoding, InvalidField, UnknownField
from apply_service.types import Failure, OtherReading

KINDS_BY_STATUS: Mapping[int, tuple[type[ApplyError], ...]] = {
    401: (errors.Unauthorized,),
    403: (errors.OriginRefused,),
    404: (errors.NotFound, errors.UnknownModel),
    405: (errors.MethodNotAllowed,),
    408: (errors.RequestTimeout,),
    409: (errors.StaleBase, errors.EditConflict),
    413: (errors.TooLarge, errors.ContextLimitExceeded),
    415: (errors.UnsupportedMediaType,),
    422: (errors.RequestError, errors.ResultError),
    429: (errors.Overloaded, errors.RateLimited),
    499: (errors.Cancelled,),
    500: (errors.ApplyError, errors.AlteredBytes, errors.EngineFailure),
    502: (errors.Unreachable, errors.RemoteFailure),
    503: (errors.ServiceError, errors.ModelError),
    504: (errors.DeadlineExceeded,),
}
"""Other classes have the status of their base class."""
STATUS = {kind: status for status, kinds in KINDS_BY_STATUS.items() for kind in kinds}
NEVER_SENT = (errors.FileError, errors.SettingsError, errors.Unreachable)
"""Errors of the command line only."""
RETRY_AFTER_S = 1
"""How long clients should wait after an overload."""
MAX_VALUE_CHARS = 200
"""An error quotes at most this much of the offending value."""
OWN_WORDS = ("message", "remedy")
"""What the service says itself.  It is never cut."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorDetail(_Shape):
    code: str
    message: str
    value: Any = Field(description="What offended.")
    limit: Any = Field(description="What would have been allowed.")
    remedy: str
    readings: list[OtherReading] = Field(
        default_factory=list,
        description="What an edit that is not clear may mean, likeliest first; only there. `reading` takes one.",
    )
    failures: list[Failure] = Field(
        default_factory=list, description="The parts of an edit whose quotes do not fit; only there."
    )
    source_sha256: str | None = Field(
        default=None, description="SHA-256 of the file that the failures speak of; only beside them."
    )


class ErrorBody(_Shape):
    """Every error has this shape."""

    error: ErrorDetail


# -- out ---------------------------------------------------------------------------------------------------------------
class ErrorShape:
    """The form of errors in a dialect: status, code, headers and JSON.  This class is the native form; other dialects
    override parts of it."""

    model: type[BaseModel] = ErrorBody

    def status(self, kind: type[ApplyError]) -> int:
        """Return the HTTP status of a class of errors."""
        return next(STATUS[base] for base in kind.__mro__ if base in STATUS)

    def code(self, kind: type[ApplyError]) -> str:
        return kind.code

    def headers(self, error: ApplyError) -> dict[str, str]:
        """Return the headers of the response to an error."""
        headers = {}
        if isinstance(error, errors.Unauthorized):
            headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, errors.Overloaded | errors.NotReady):
            headers["Retry-After"] = str(RETRY_AFTER_S)
        return headers

    def body(self, error: ApplyError) -> dict[str, Any]:
        """Return the body of the response to an error.  It can always be encoded as JSON."""
        return {"error": details_of(error)}

    def json(self, error: ApplyError) -> str:
        # ASCII only: an offending value may hold lone surrogates, which UTF-8 cannot encode.
        return json.dumps(self.body(error), ensure_ascii=True)

    def codes_by_status(self) -> dict[int, list[str]]:
        """Return the codes of each status, for the documentation."""
        table: dict[int, list[str]] = {}
        for kind in error_kinds():
            if not kind.__subclasses__() and not issubclass(kind, NEVER_SENT):
                table.setdefault(self.status(kind), []).append(self.code(kind))
        return dict(sorted(table.items()))


NATIVE = ErrorShape()


def details_of(error: ApplyError) -> dict[str, Any]:
    """Return the values of `ErrorDetail`."""
    details: dict[str, Any] = {
        name: value if name in OWN_WORDS and isinstance(value, str) else _jsonable(value)
        for name, value in error.as_dict().items()
    }
    for name in ("readings", "failures"):
        if told := getattr(error, name):
            details[name] = told  # diffs and edits are long, and are not cut
    return details


def with_remedy(details: Mapping[str, Any]) -> str:
    """Return the message followed by the remedy, for clients that show only the message."""
    message, remedy = details["message"], details["remedy"]
    return f"{message.rstrip('.')}. {remedy[:1].upper()}{remedy[1:]}" if remedy else message


def error_kinds(kind: type[ApplyError] = ApplyError) -> Iterator[type[ApplyError]]:
    """Yield the classes of `errors.py`, base classes first.  Classes of other programs are left out."""
    if kind.__module__ == ApplyError.__module__:
        yield kind
    for child in kind.__subclasses__():
        yield from error_kinds(child)


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


# -- in ----------------------------------------------------------------------------------------------------------------
def from_validation(error: ValidationError, model: type[BaseModel]) -> ApplyError:
    """Return the first finding of pydantic about a `model` as an ApplyError.  An unknown field comes first, because a
    typo explains the other findings."""
    findings: Sequence[Mapping[str, Any]] = error.errors(include_url=False)
    finding = next((f for f in findings if f["type"] == "extra_forbidden"), findings[0])
    parts = [str(part) for part in finding["loc"]]
    # pydantic's path also names the types that it tried
    name = ".".join(part for part in parts if part != "str" and not part.startswith("list[")) or "body"
    if finding["type"] == "extra_forbidden":
        for part in parts[:-1]:  # find the model that the unknown field is in
            field = model.model_fields.get(part)
            model = model if field is None else next(_models_in(field.annotation), model)
        known = list(model.model_fields)
        return UnknownField(f"unknown field {name!r}", value=name, limit=known, remedy="remove it or correct its name")
    if "hex escape" in finding["msg"] or finding["type"] == "string_unicode":
        remedy = (
            "send valid Unicode; the bytes of a file can be sent to POST /v1/apply as original_b64, with `encoding`"
        )
        return BadEncoding(
            f"{name} contains half of a surrogate pair, which is not valid Unicode", value=name, remedy=remedy
        )
    if finding["type"] == "json_invalid":
        why = str(finding["ctx"]["error"]).replace("EOF while parsing", "it ends within")
        return InvalidField(f"the body is not valid JSON: {why}", value="body", remedy="send one JSON object")
    if finding["type"] == "missing":
        return InvalidField(f"field {name!r} is missing", value=name, remedy=f"send {name}")
    what = f"bad value for {name!r}" if parts else "bad request"
    said = finding["msg"]
    return InvalidField(
        f"{what}: {said}",
        value=finding.get("input"),
        limit=said,
        remedy=f"correct {name}; /openapi.json says what it takes",
    )


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def from_status(status: int, path: str, method: str) -> ApplyError:
    """Return an error of the framework (unknown path, wrong method) as an ApplyError."""
    if status == 404:
        return errors.NotFound(f"there is nothing at {path}", value=path, remedy="use a path that /openapi.json lists")
    if status == 405:
        remedy = "use a method that the Allow header of this answer names"
        return errors.MethodNotAllowed(f"{path} does not take {method}", value=method, remedy=remedy)
    phrase = HTTPStatus(status).phrase
    return InvalidField(
        f"the request cannot be served: {phrase}", value=phrase, remedy="compare the request with /openapi.json"
    )
