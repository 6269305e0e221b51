"""Exit codes: what a script can tell from how a command ended."""

from __future__ import annotations

from collections.abc import Mapping

import apply_service.errors as errors
from apply_service.errors import ApplyError

OK = 0
REFUSED = 1
BAD_REQUEST = 2
FILE = 3
UNAVAILABLE = 4
NEEDS_MORE_CONTEXT = 5
INTERRUPTED = 130
READER_GONE = 141

MEANINGS: Mapping[int, str] = {
    OK: "done; every check passed or only warned",
    REFUSED: "there is an answer, but a check failed, or it was cut off; what failed was not written",
    BAD_REQUEST: "bad request, option or setting",
    FILE: "a file cannot be read or written, changed meanwhile, or has no backup; nothing was written",
    UNAVAILABLE: "model or service unavailable, overloaded or too late",
    NEEDS_MORE_CONTEXT: "the edit does not say where it belongs",
    INTERRUPTED: "interrupted",
    READER_GONE: "whoever read the output went away",
}


def exit_code(error: ApplyError) -> int:
    """The exit code of an error."""
    if isinstance(error, errors.NeedsMoreContext):
        return NEEDS_MORE_CONTEXT
    if isinstance(error, errors.FileError | errors.StaleBase):
        return FILE
    if isinstance(error, errors.UnknownModel | errors.ServiceError | errors.ModelError):
        return UNAVAILABLE
    if isinstance(error, errors.ResultError):
        return REFUSED
    return BAD_REQUEST
