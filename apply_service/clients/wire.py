"""The native dialect seen from the client: requests to JSON, JSON to results, events and errors.

The mirror of `api.schema` and `api.answer` without their libraries, so that a command that asks a server starts in
milliseconds.  A test holds the two sides against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from apply_service.errors import ApplyError, ServiceError
from apply_service.types import (
    ApplyRequest,
    ApplyResult,
    Certainty,
    DecodeStats,
    FinishReason,
    Hunk,
    LineRange,
    Position,
    Span,
    TextEdit,
    Verdict,
)

DECODE_TIMES = ("prefill_s", "decode_s", "draft_s")
NOT_SENT = "owner"
"""The field of a request that the server finds out by itself."""


def encode_request(request: ApplyRequest) -> dict[str, object]:
    """The request's JSON object; what stands at its default is left out, but for `original`."""
    values = {item.name: getattr(request, item.name) for item in fields(request)}
    plain = ApplyRequest(original="")
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if name == "original" or (value != getattr(plain, name) and name != NOT_SENT)
    }


def decode_answer(answer: Mapping[str, Any]) -> ApplyResult:
    """The result in an answer's JSON object.

    Raises:
        KeyError, TypeError, ValueError: it is no answer of this service.
    """
    values = {item.name: answer[item.name] for item in fields(ApplyResult) if item.name in answer}
    values |= {
        "finish_reason": FinishReason(answer["finish_reason"]),
        "certainty": Certainty(answer["certainty"]),
        "reasons": tuple(answer["reasons"]),
        "verdicts": tuple(decode_verdict(verdict) for verdict in answer["verdicts"]),
        "edits": tuple(_decode_edit(edit) for edit in answer["edits"]),
        "spans": tuple(Span(**span) for span in answer["spans"]),
        "windows": tuple(LineRange(**lines) for lines in answer["windows"]),
        "hunks": tuple(Hunk(**hunk) for hunk in answer["hunks"]),
        "stats": _decode_stats(answer["usage"], answer["timings_s"]),
        "timings_s": {name: s for name, s in answer["timings_s"].items() if name not in DECODE_TIMES},
    }
    return ApplyResult(**values)


def decode_error(body: Mapping[str, Any]) -> ApplyError:
    """The error in an error body, of the class that has its code; a code from a newer server is a ServiceError.

    Raises:
        KeyError, TypeError: it is no error body of this service.
    """
    error = body["error"]
    kind = ERRORS_BY_CODE.get(error["code"], ServiceError)
    return kind(error["message"], value=error["value"], limit=error["limit"], remedy=error["remedy"])


def decode_verdict(verdict: Mapping[str, Any]) -> Verdict:
    """Raises as `decode_answer` does."""
    lines = verdict["lines"]
    return Verdict(**{**verdict, "lines": None if lines is None else (lines[0], lines[1])})


def _decode_edit(edit: Mapping[str, Any]) -> TextEdit:
    place, columns = edit["range"], edit["utf8_columns"]
    return TextEdit(
        Position(**place["start"]), Position(**place["end"]), edit["newText"], columns["start"], columns["end"]
    )


def _decode_stats(usage: Mapping[str, Any], timings_s: Mapping[str, float]) -> DecodeStats:
    accepted, rejected = usage["accepted_prediction_tokens"], usage["rejected_prediction_tokens"]
    counts = {item.name: usage[item.name] for item in fields(DecodeStats) if item.name in usage}
    counts |= {"accepted_tokens": accepted, "drafted_tokens": None if accepted is None else accepted + rejected}
    known = {name: value for name, value in counts.items() if value is not None}
    known |= {name: timings_s[name] for name in DECODE_TIMES}
    return DecodeStats(**known, unknown=frozenset(counts.keys() - known.keys()))


def _subclasses(kind: type[ApplyError]) -> Iterator[type[ApplyError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _subclasses(child)


ERRORS_BY_CODE: Mapping[str, type[ApplyError]] = {kind.code: kind for kind in _subclasses(ApplyError)}
