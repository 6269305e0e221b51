"""Defines all errors of the service, as one tree.  `api.errors` has their HTTP statuses.

ApplyError
|-- RequestError    the caller can mend the request
|-- ResultError     there is an answer, but not one to hand out
|-- ServiceError    the service's state, not the request
|-- FileError       the command line's files
|-- ModelError
`-- SettingsError
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import ClassVar

REPORT_FAULT = "this is a fault of the service: please report it"
REPORT_LOG = f"{REPORT_FAULT} with what its log says"


class ApplyError(Exception):
    """Base of the tree.  `code` is stable.  `value` is the offending value, `limit` what is allowed, and `remedy` what
    the caller can do."""

    code: ClassVar[str] = "error"
    usual_remedy: ClassVar[str] = ""

    def __init_subclass__(cls, *, code: str | None = None, remedy: str | None = None) -> None:
        if code is not None:
            cls.code = code
        if remedy is not None:
            cls.usual_remedy = remedy

    def __init__(self, message: str, *, value: object = None, limit: object = None, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.value = value
        self.limit = limit
        self.remedy = remedy or self.usual_remedy
        self.readings: list[dict[str, object]] = []
        """What an unclear edit may mean: its readings (ways to merge it), in the form of answers.  A request chooses
        one by its field `reading`."""
        self.failures: list[dict[str, object]] = []
        """The parts of an edit whose quotes do not fit the file, in the form of answers."""
        self.source_sha256 = ""
        """The SHA-256 of the file that `failures` are about."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields of the error in JSON."""
        fields = {name: getattr(self, name) for name in ("code", "message", "value", "limit", "remedy")}
        more = {name: told for name in ("readings", "failures", "source_sha256") if (told := getattr(self, name))}
        return fields | more


def shorten(value: object, max_chars: int) -> str:
    """Return an error's value or limit in a form for people to read.  A text stays as it is, anything else becomes
    JSON; both are cut after `max_chars`."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= max_chars else text[:max_chars] + "..."


# A table: a row is a class and what it means.
# fmt: off
# ruff: noqa: E501, E701
class RequestError(ApplyError, code="bad_request"): """The request cannot be served as it is."""
class NotFound(RequestError, code="not_found"): """There is nothing at this path."""
class MethodNotAllowed(RequestError, code="method_not_allowed"): """The path does not take this method."""
class UnsupportedMediaType(RequestError, code="unsupported_media_type"): """The body is not declared as JSON."""
class RequestTimeout(RequestError, code="request_timeout"): """The client took too long to send its body."""
class Unauthorized(RequestError, code="unauthorized"): """The API key is missing, or is not a key of the service."""
class OriginRefused(RequestError, code="origin_refused"): """Web pages of this origin, or under this host name, may not call the service."""
class EmptyUpdate(RequestError, code="empty_update"): """Neither an update nor an instruction was sent."""
class UnknownField(RequestError, code="unknown_field"): """The request has a field that does not exist."""
class InvalidField(RequestError, code="invalid_field"): """A field is missing, of the wrong type, or out of range."""
class UnsupportedParameter(RequestError, code="unsupported_parameter"): """The field exists, but not for this kind of request."""
class UnknownModel(RequestError, code="unknown_model"): """The service has no such model."""
class UnknownDrafter(RequestError, code="unknown_drafter"): """There is no such drafter."""
class UnknownEditFormat(RequestError, code="unknown_edit_format"): """There is no such edit format."""
class UnknownReading(RequestError, code="unknown_reading"): """The edit has no such reading for this file."""
class BadEncoding(RequestError, code="bad_encoding"): """The bytes are not in the named encoding, or this encoding cannot hold the result."""
class NulByte(RequestError, code="nul_byte"): """The text holds a NUL character."""
class StaleBase(RequestError, code="stale_base"): """The original is not the text that the edit was made for."""
class EditConflict(RequestError, code="edit_conflict"): """The file has changed since its base in the lines that the edit changes."""
class TooLarge(RequestError, code="too_large"): """Body, original or update exceed a limit of the service."""
class ContextLimitExceeded(RequestError, code="context_limit"): """File and edit exceed the context of the model."""
class MalformedEdit(RequestError, code="malformed_edit"): """The update is not in the format that was declared or detected."""
class NeedsMoreContext(RequestError, code="needs_more_context"): """The edit does not say where it belongs; the anchors are named."""
class Unrelated(RequestError, code="unrelated"): """The edit has nothing in common with the file."""
class Exchanged(RequestError, code="exchanged"): """The original looks like the edit, and the update looks like the file."""
class InstructionUnsupported(RequestError, code="instruction_unsupported"): """The model follows no instructions."""
class NotAnEdit(RequestError, code="not_an_edit"): """The chat or prompt holds no edit of a file, and nothing else is answered here."""
class AmbiguousTags(RequestError, code="ambiguous_tags"): """The file or the edit holds the tags themselves, so that they can be read in two ways."""

class ResultError(ApplyError, code="bad_result"): """There is no answer that could be handed out."""
class Truncated(ResultError, code="truncated"): """The output reached its token limit or lacks its end."""
class CheckFailed(ResultError, code="check_failed"): """A check found something, and the caller wants that to be an error."""
class AlteredBytes(ResultError, code="altered_bytes"): """Bytes outside the edit would not be the original's."""
class StreamReplaced(ResultError, code="stream_replaced"): """The text that was streamed before the end is not the answer."""

class ServiceError(ApplyError, code="service_error"): """The service cannot answer now."""
class Overloaded(ServiceError, code="overloaded"): """The queue is full."""
class RateLimited(ServiceError, code="rate_limited"): """The caller's key has no requests left for now."""
class DeadlineExceeded(ServiceError, code="deadline_exceeded"): """The deadline passed first."""
class Cancelled(ServiceError, code="cancelled"): """The caller went away or cancelled."""
class EngineFailure(ServiceError, code="engine_failure", remedy=REPORT_FAULT): """The engine crashed on this request; other requests go on."""
class NotReady(ServiceError, code="not_ready"): """The service is starting or shutting down, or its address is taken."""
class Unreachable(ServiceError, code="unreachable"): """No service answers at the URL."""
class RemoteFailure(ServiceError, code="remote_failure"): """The server that runs the model can't be reached, refused the request, or gave no whole answer."""

class FileError(ApplyError, code="file_error"): """A file cannot be used."""
class FileNotReadable(FileError, code="file_not_readable"): """The file cannot be read, or is not a regular file."""
class FileNotWritable(FileError, code="file_not_writable"): """The file, its folder or the place for backups cannot be written."""
class FileChanged(FileError, code="file_changed"): """The file was changed after it was read, or after the edit."""
class NoBackup(FileError, code="no_backup"): """There is no edit of this file to take back."""
class OutsideRoots(FileError, code="outside_roots"): """The file is not under a folder that edits are allowed in."""

class ModelError(ApplyError, code="model_error"): """The model cannot be used."""
class ModelNotLoadable(ModelError, code="model_not_loadable"): """The model's files are unusable."""
class ModelTooLarge(ModelError, code="model_too_large"): """The model does not fit into the device's free memory."""
class RemoteCodeRefused(ModelError, code="remote_code_refused"): """The model needs Python code of its own, which the settings forbid."""
class MissingDependency(ModelError, code="missing_dependency"): """A library or device that was asked for is not there."""

class SettingsError(ApplyError, code="bad_setting"): """A setting is unknown or out of range."""
# fmt: on


def missing_extra(what: str, extra: str) -> MissingDependency:
    """Return the error that `what` needs packages that a plain install leaves out.  Its remedy works for any kind of
    installation: pip keeps the installed package and adds what the extra names.  An environment made by uv has no pip,
    so the remedy names uv there."""
    install = f"{sys.executable} -m pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    command = f"{install} 'apply-service[{extra}]'"
    return MissingDependency(f"{what}, which a plain install leaves out.", value=extra, remedy=f"Run: {command}")
