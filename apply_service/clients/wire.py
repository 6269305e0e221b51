"""The native dialect seen from the client: requests to JSON; JSON to results, batches, streams and errors.

The mirror of what `api` reads and writes, without its libraries, so that a command that asks a server starts in
milliseconds.  A test holds the two sides against each other.  What is no answer of this service raises KeyError,
TypeError or ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from apply_service.batch import BatchItem, BatchResult, PatchRequest
from apply_service.errors import ApplyError, ServiceError
from apply_service.types import (
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    DecodeStats,
    FinalEvent,
    FinishReason,
    Hunk,
    LineRange,
    Position,
    Span,
    TextEdit,
    TokenEvent,
    Verdict,
)

Json = Mapping[str, Any]
DECODE_TIMES = ("prefill_s", "decode_s", "draft_s")


@dataclass(frozen=True, slots=True)
class Model:
    """A name that requests may give."""

    id: str
    alias_of: str | None = None
    """The model that answers for this name; None where it is one."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """A service that takes requests."""

    model: str
    queue_length: int
    queue_limit: int


# -- requests ----------------------------------------------------------------------------------------------------------
def encode_request(request: ApplyRequest) -> dict[str, object]:
    """The request's JSON object, without what stands at its default and without the owner, which the server finds."""
    encoded: dict[str, object] = {"original": request.original}
    for item in fields(request):
        value, default = getattr(request, item.name), getattr(ApplyRequest(""), item.name)
        if value != default and item.name != "owner":
            encoded[item.name] = dict(value) if isinstance(value, Mapping) else value
    return encoded


def encode_patch(request: PatchRequest) -> dict[str, object]:
    return {
        "mode": request.mode,
        "patch": request.patch,
        "files": [{"path": one.path, "original": one.text, "encoding": one.encoding} for one in request.files],
        "on_verdict": dict(request.on_verdict),
        "diff": request.diff,
    }


# -- answers -----------------------------------------------------------------------------------------------------------
def decode_answer(answer: Json) -> ApplyResult:
    """The result in an answer's JSON object."""
    values = {item.name: answer[item.name] for item in fields(ApplyResult) if item.name in answer}
    values |= {
        "finish_reason": FinishReason(answer["finish_reason"]),
        "certainty": Certainty(answer["certainty"]),
        "reasons": tuple(answer["reasons"]),
        "verdicts": _decode_verdicts(answer["verdicts"]),
        "edits": tuple(_decode_edit(edit) for edit in answer["edits"]),
        "spans": tuple(Span(**span) for span in answer["spans"]),
        "windows": tuple(LineRange(**lines) for lines in answer["windows"]),
        "hunks": tuple(Hunk(**hunk) for hunk in answer["hunks"]),
        "stats": _decode_stats(answer["usage"], answer["timings_s"]),
        "timings_s": {name: s for name, s in answer["timings_s"].items() if name not in DECODE_TIMES},
    }
    return ApplyResult(**values)


def decode_batch(answer: Json) -> BatchResult:
    items = []
    for item in answer["items"]:
        values = {name: item[name] for name in ("path", "action", "status", "source", "new_mode", "diff")}
        result = None if item["answer"] is None else decode_answer(item["answer"])
        error = None if item["error"] is None else decode_error(item)
        items.append(BatchItem(**values, verdicts=_decode_verdicts(item["verdicts"]), result=result, error=error))
    return BatchResult(answer["mode"], tuple(items))


def decode_models(answer: Json) -> tuple[Model, ...]:
    return tuple(Model(card["id"], card.get("alias_of")) for card in answer["data"])


def decode_readiness(answer: Json) -> Readiness:
    return Readiness(answer["model"], answer["queue_length"], answer["queue_limit"])


def decode_error(body: Json) -> ApplyError:
    """The error in an error body, of the class that has its code; a code from a newer server is a ServiceError."""
    error = body["error"]
    kind = ERRORS_BY_CODE.get(error["code"], ServiceError)
    return kind(error["message"], value=error["value"], limit=error["limit"], remedy=error["remedy"])


def _decode_verdicts(verdicts: list[Json]) -> tuple[Verdict, ...]:
    pairs = [None if one["lines"] is None else (one["lines"][0], one["lines"][1]) for one in verdicts]
    return tuple(Verdict(**{**one, "lines": lines}) for one, lines in zip(verdicts, pairs, strict=True))


def _decode_edit(edit: Json) -> TextEdit:
    start, end = Position(**edit["range"]["start"]), Position(**edit["range"]["end"])
    columns = edit["utf8_columns"]
    return TextEdit(start, end, edit["newText"], columns["start"], columns["end"])


def _decode_stats(usage: Json, timings_s: Mapping[str, float]) -> DecodeStats:
    accepted, rejected = usage["accepted_prediction_tokens"], usage["rejected_prediction_tokens"]
    counts = {item.name: usage[item.name] for item in fields(DecodeStats) if item.name in usage}
    counts |= {"accepted_tokens": accepted, "drafted_tokens": None if accepted is None else accepted + rejected}
    known = {name: value for name, value in counts.items() if value is not None}
    known |= {name: timings_s[name] for name in DECODE_TIMES}
    return DecodeStats(**known, unknown=frozenset(counts.keys() - known.keys()))


def _error_classes(kind: type[ApplyError]) -> Iterator[type[ApplyError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _error_classes(child)


ERRORS_BY_CODE: Mapping[str, type[ApplyError]] = {kind.code: kind for kind in _error_classes(ApplyError)}


# -- streams -----------------------------------------------------------------------------------------------------------
class EventReader:
    """Server-sent events, in whatever pieces they arrive.  Lines end at `\\n` alone: text may hold other separators.

    An event of a kind that this client does not know is skipped: a newer server may send more.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._name = ""
        self.has_ended = False
        """Whether the final event has been read; nothing follows it."""

    def feed(self, data: bytes) -> Iterator[ApplyEvent]:
        """The events that these bytes complete.  Raises the stream's own terminal ApplyError."""
        first, *others = data.split(b"\n")
        self._rest.append(first)
        if not others:
            return
        lines = [b"".join(self._rest), *others]
        self._rest = [lines.pop()]
        for line in lines:
            field, _, value = line.decode().partition(": ")
            if field == "event":
                self._name = value
            elif field == "data":
                content = json.loads(value)
                if self._name == "error":
                    raise decode_error(content)
                if self._name == "token":
                    yield TokenEvent(content["text"])
                elif self._name == "final":
                    self.has_ended = True
                    yield FinalEvent(decode_answer(content))

    def finish(self) -> None:
        """Call it at the end of the bytes.  Raises ConnectionError where the stream was cut off."""
        if not self.has_ended:
            raise ConnectionError("the stream was cut off")
