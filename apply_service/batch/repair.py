"""Mends a failed call: writes the same kind of call with quotes that fit the file as it is.

Misquoted parts are applied to the file's own lines, and the call is written anew from the result.  Nothing is guessed:
if a part has no `next` (an edit that would fit), its error stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from apply_service.errors import ApplyError, NeedsMoreContext, UnsupportedParameter
from apply_service.formats.write_call import write_call
from apply_service.pipeline import read_request
from apply_service.target import Runtime, no_target
from apply_service.text.fidelity import SourceText, hash_of, normalise
from apply_service.types import ApplyRequest, Certainty

QUOTING = ("search_replace", "v4a_patch", "unified_diff", "hashline", "json_edit", "conflict_markers")
"""Formats that quote the file."""


@dataclass(frozen=True, slots=True)
class RepairedCall:
    """A call that fits the file."""

    update: str
    """The mended call, or the call as it was sent if that call fitted."""
    format: str
    fits: bool
    """Whether the call fitted as it was sent."""
    mended: tuple[str, ...]
    """The parts whose quotes were mended."""
    already_applied: bool
    source_sha256: str
    reasons: tuple[str, ...]
    """What is in question: for each mended quote the lines of the file that were taken for it."""


def repair_call(request: ApplyRequest) -> RepairedCall:
    """Return the request's call with quotes that fit the request's file.

    Raises NeedsMoreContext with `failures` if a part can't be mended, UnsupportedParameter if the call's format quotes
    nothing, and any other ApplyError that the edit itself raises.
    """
    request = replace(request, strategy="exact", reading=None)
    runtime = Runtime(no_target)
    job = read_request(request, runtime).job
    found = job.prediction
    if job.format not in QUOTING:
        message, remedy = "only calls that quote the file can be mended", "send a call of one of these formats"
        raise UnsupportedParameter(message, value=job.format, limit=list(QUOTING), remedy=remedy)
    digest = hash_of(request.original, SourceText.of(request.original, request.encoding))
    mended = tuple(one.part for one in found.failures if one.next is not None)
    if len(mended) < len(found.failures) or (found.certainty is Certainty.GUESS and not mended):
        error = NeedsMoreContext(
            f"the call can't be mended: {'; '.join(found.reasons)}", remedy="read the file again, and make a new call"
        )
        error.failures, error.source_sha256 = [one.as_dict() for one in found.failures], digest
        raise error
    fits, is_made = found.certainty is Certainty.CERTAIN, found.text == job.original
    update: str | None = request.update
    if not (fits or is_made):
        update = write_call(job.format, normalise(request.update), job.original, found.text, request.path or "file")
    if update is None or not (fits or is_made or _does(replace(request, update=update), found.text)):
        message, remedy = "the file can't be quoted in this format", "send the whole file, or another format"
        raise NeedsMoreContext(message, remedy=remedy)
    return RepairedCall(update, job.format, fits, mended, is_made, digest, found.reasons)


def _does(request: ApplyRequest, wanted: str) -> bool:
    """Tell whether a call surely gives the text `wanted`.  It may not, if lines of the file look like marks of the
    call's format."""
    try:
        found = read_request(request, Runtime(no_target)).job.prediction
    except ApplyError:
        return False
    return found.text == wanted and found.certainty is Certainty.CERTAIN
