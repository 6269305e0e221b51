"""Every way in which a request can fail, as one tree.  Knows no HTTP; `api.errors` gives each its status.

ApplyError
|-- RequestError            the caller can mend it
|   |-- NotFound  MethodNotAllowed  UnsupportedMediaType  RequestTimeout
|   |-- Unauthorized  OriginRefused  IdempotencyConflict
|   |-- EmptyUpdate  UnknownField  InvalidField  UnsupportedParameter
|   |-- UnknownModel  UnknownDrafter  UnknownEditFormat
|   |-- BadEncoding  NulByte  StaleBase  TooLarge  ContextLimitExceeded
|   |-- MalformedEdit  NeedsMoreContext  InstructionUnsupported
|   `-- NotAnEdit  AmbiguousTags
|-- ResultError             there is an answer, but not one to hand out
|   |-- Truncated  CheckFailed  StreamReplaced
|-- ServiceError            the service's state, not the request
|   |-- Overloaded  RateLimited  DeadlineExceeded  Cancelled  EngineFailure  NotReady  Unreachable
|   |-- RemoteFailure
|-- FileError               the command line's files
|   |-- FileNotReadable  FileNotWritable  FileChanged  NoBackup  OutsideRoots
|-- ModelError
|   |-- ModelNotLoadable  ModelTooLarge  RemoteCodeRefused  MissingDependency
`-- SettingsError
"""

from __future__ import annotations

import json
from typing import ClassVar


class ApplyError(Exception):
    """Base of the tree.  `code` is stable and machine-readable; `value` is what offended, `limit` what would have been
    allowed, `remedy` what the caller can do."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, value: object = None, limit: object = None, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.value = value
        self.limit = limit
        self.remedy = remedy

    def as_dict(self) -> dict[str, object]:
        """The error as it goes over the wire: code, message, value, limit, remedy."""
        return {
            "code": self.code,
            "message": self.message,
            "value": self.value,
            "limit": self.limit,
            "remedy": self.remedy,
        }


def shorten(value: object, max_chars: int) -> str:
    """An error's value or limit as people read it: a text as it is, anything else as JSON, cut where it is longer."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= max_chars else text[:max_chars] + "..."


class RequestError(ApplyError):
    """The request cannot be served as it is."""

    code = "bad_request"


class NotFound(RequestError):
    """There is nothing at this path."""

    code = "not_found"


class MethodNotAllowed(RequestError):
    """The path does not take this method."""

    code = "method_not_allowed"


class UnsupportedMediaType(RequestError):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"


class RequestTimeout(RequestError):
    """The client took too long to send its body."""

    code = "request_timeout"


class Unauthorized(RequestError):
    """The API key is missing or not one of the service's."""

    code = "unauthorized"


class OriginRefused(RequestError):
    """A web page of this origin, or by this host name, may not call the service."""

    code = "origin_refused"


class IdempotencyConflict(RequestError):
    """The Idempotency-Key was used for another request before."""

    code = "idempotency_conflict"


class EmptyUpdate(RequestError):
    """Neither an update nor an instruction was sent."""

    code = "empty_update"


class UnknownField(RequestError):
    """The request has a field that does not exist."""

    code = "unknown_field"


class InvalidField(RequestError):
    """A field is missing, of the wrong type, or out of range."""

    code = "invalid_field"


class UnsupportedParameter(RequestError):
    """The field exists, but not for this way of asking."""

    code = "unsupported_parameter"


class UnknownModel(RequestError):
    """The service has no such model."""

    code = "unknown_model"


class UnknownDrafter(RequestError):
    """There is no such drafter."""

    code = "unknown_drafter"


class UnknownEditFormat(RequestError):
    """There is no such edit format."""

    code = "unknown_edit_format"


class BadEncoding(RequestError):
    """The bytes are not in the encoding named, or it cannot hold the result."""

    code = "bad_encoding"


class NulByte(RequestError):
    """The text holds a NUL character."""

    code = "nul_byte"


class StaleBase(RequestError):
    """The original is not the one the edit was made for."""

    code = "stale_base"


class TooLarge(RequestError):
    """Body, original or update exceed a limit of the service."""

    code = "too_large"


class ContextLimitExceeded(RequestError):
    """File and edit exceed the context of the model."""

    code = "context_limit"


class MalformedEdit(RequestError):
    """The update is not of the format it was declared or taken to be."""

    code = "malformed_edit"


class NeedsMoreContext(RequestError):
    """The edit does not say where it belongs; the anchors are named."""

    code = "needs_more_context"


class InstructionUnsupported(RequestError):
    """The model follows no instructions."""

    code = "instruction_unsupported"


class NotAnEdit(RequestError):
    """The chat or prompt holds no edit of a file, and nothing else is answered here."""

    code = "not_an_edit"


class AmbiguousTags(RequestError):
    """The file or the edit holds the tags themselves, so that they can be read in two ways."""

    code = "ambiguous_tags"


class ResultError(ApplyError):
    """There is no answer that could be handed out."""

    code = "bad_result"


class Truncated(ResultError):
    """The output reached its token limit or lacks its end."""

    code = "truncated"


class CheckFailed(ResultError):
    """A check found something, and the caller wants that to be an error."""

    code = "check_failed"


class AlteredBytes(ResultError):
    """Bytes outside the edit would not be the original's."""

    code = "altered_bytes"


class StreamReplaced(ResultError):
    """The text that was streamed before the end is not the answer."""

    code = "stream_replaced"


class ServiceError(ApplyError):
    """The service cannot answer now."""

    code = "service_error"


class Overloaded(ServiceError):
    """The queue is full."""

    code = "overloaded"


class RateLimited(ServiceError):
    """The caller has sent as many requests as its key may for now."""

    code = "rate_limited"


class DeadlineExceeded(ServiceError):
    """The deadline passed first."""

    code = "deadline_exceeded"


class Cancelled(ServiceError):
    """The caller went away or cancelled."""

    code = "cancelled"


class EngineFailure(ServiceError):
    """The engine crashed on this request; others go on."""

    code = "engine_failure"


class NotReady(ServiceError):
    """The service is starting or shutting down, or its address is taken."""

    code = "not_ready"


class Unreachable(ServiceError):
    """No service answers at the URL."""

    code = "unreachable"


class RemoteFailure(ServiceError):
    """The server that runs the model can't be reached, refused, or gave no whole answer."""

    code = "remote_failure"


class FileError(ApplyError):
    """A file cannot be used."""

    code = "file_error"


class FileNotReadable(FileError):
    """The file cannot be read, or is no regular file."""

    code = "file_not_readable"


class FileNotWritable(FileError):
    """The file, its folder or the place for backups cannot be written."""

    code = "file_not_writable"


class FileChanged(FileError):
    """The file is no longer what it was when it was read, or since the edit."""

    code = "file_changed"


class NoBackup(FileError):
    """There is no edit of this file to take back."""

    code = "no_backup"


class OutsideRoots(FileError):
    """The file is not under a folder that edits are allowed in."""

    code = "outside_roots"


class ModelError(ApplyError):
    """The model cannot be used."""

    code = "model_error"


class ModelNotLoadable(ModelError):
    """The model's files are unusable."""

    code = "model_not_loadable"


class ModelTooLarge(ModelError):
    """The model does not fit into the device's free memory."""

    code = "model_too_large"


class RemoteCodeRefused(ModelError):
    """The model needs Python code of its own, which the settings forbid."""

    code = "remote_code_refused"


class MissingDependency(ModelError):
    """A library or device that was asked for is not there."""

    code = "missing_dependency"


class SettingsError(ApplyError):
    """A setting is unknown or out of range."""

    code = "bad_setting"
