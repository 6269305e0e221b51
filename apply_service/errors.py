"""Every way in which a request can fail, as one tree.  Knows no HTTP; `api.errors` gives each its status.

ApplyError
|-- RequestError            the caller can mend it
|   |-- NotFound  MethodNotAllowed  UnsupportedMediaType
|   |-- EmptyUpdate  UnknownField  InvalidField  UnsupportedParameter
|   |-- UnknownModel  UnknownDrafter  UnknownEditFormat  UnknownLanguage
|   |-- BadEncoding  NulByte  StaleBase  TooLarge  ContextLimitExceeded
|   `-- MalformedEdit  NeedsMoreContext  InstructionUnsupported
|-- ResultError             there is an answer, but not one to hand out
|   |-- Truncated  CheckFailed
|-- ServiceError            the service's state, not the request
|   |-- Overloaded  DeadlineExceeded  Cancelled  EngineFailure  NotReady  Unreachable
|-- FileError               the command line's files
|   |-- FileNotReadable  FileNotWritable  FileChanged  NoBackup
|-- ModelError
|   |-- ModelNotLoadable  RemoteCodeRefused  MissingDependency
`-- SettingsError
"""

from __future__ import annotations

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


class RequestError(ApplyError):
    code = "bad_request"


class NotFound(RequestError):
    code = "not_found"


class MethodNotAllowed(RequestError):
    code = "method_not_allowed"


class UnsupportedMediaType(RequestError):
    code = "unsupported_media_type"


class EmptyUpdate(RequestError):
    code = "empty_update"


class UnknownField(RequestError):
    code = "unknown_field"


class InvalidField(RequestError):
    code = "invalid_field"


class UnsupportedParameter(RequestError):
    code = "unsupported_parameter"


class UnknownModel(RequestError):
    code = "unknown_model"


class UnknownDrafter(RequestError):
    code = "unknown_drafter"


class UnknownEditFormat(RequestError):
    code = "unknown_edit_format"


class UnknownLanguage(RequestError):
    code = "unknown_language"


class BadEncoding(RequestError):
    code = "bad_encoding"


class NulByte(RequestError):
    code = "nul_byte"


class StaleBase(RequestError):
    code = "stale_base"


class TooLarge(RequestError):
    code = "too_large"


class ContextLimitExceeded(RequestError):
    code = "context_limit"


class MalformedEdit(RequestError):
    code = "malformed_edit"


class NeedsMoreContext(RequestError):
    code = "needs_more_context"


class InstructionUnsupported(RequestError):
    code = "instruction_unsupported"


class ResultError(ApplyError):
    code = "bad_result"


class Truncated(ResultError):
    code = "truncated"


class CheckFailed(ResultError):
    code = "check_failed"


class ServiceError(ApplyError):
    code = "service_error"


class Overloaded(ServiceError):
    code = "overloaded"


class DeadlineExceeded(ServiceError):
    code = "deadline_exceeded"


class Cancelled(ServiceError):
    code = "cancelled"


class EngineFailure(ServiceError):
    code = "engine_failure"


class NotReady(ServiceError):
    code = "not_ready"


class Unreachable(ServiceError):
    code = "unreachable"


class FileError(ApplyError):
    code = "file_error"


class FileNotReadable(FileError):
    code = "file_not_readable"


class FileNotWritable(FileError):
    code = "file_not_writable"


class FileChanged(FileError):
    code = "file_changed"


class NoBackup(FileError):
    code = "no_backup"


class ModelError(ApplyError):
    code = "model_error"


class ModelNotLoadable(ModelError):
    code = "model_not_loadable"


class RemoteCodeRefused(ModelError):
    code = "remote_code_refused"


class MissingDependency(ModelError):
    code = "missing_dependency"


class SettingsError(ApplyError):
    code = "bad_setting"
