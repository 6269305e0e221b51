"""What a client can ask and how it reads the answer, apart from the transport: requests to JSON, JSON to results.

The mirror of what `api` reads and writes, without its libraries, so that a command that asks a server starts in
milliseconds; a test holds the two sides against each other.  A `Call` is a request ready to be sent and the way to read
its answer; an `Endpoint` knows where it goes, as whom, and for how long to wait.  To decode what is no answer of this
service raises KeyError, TypeError or ValueError, which the endpoint turns into `Unreachable`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from apply_service.batch import BatchItem, BatchMode, BatchResult, PatchRequest
from apply_service.errors import ApplyError, DeadlineExceeded, ServiceError, SettingsError, Unreachable
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

T = TypeVar("T")
Json = Mapping[str, Any]

APPLY_PATH = "/v1/apply"
BATCH_PATH = "/v1/apply/batch"
DEFAULT_TIMEOUT_S = 120.0
GRACE_S = 5.0
"""The server keeps the deadline itself; the client waits a little longer for it to say so."""
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
    """The request's JSON object, without fields at their default and without the owner, whom the server knows."""
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
    usage, timings_s = answer["usage"], answer["timings_s"]
    accepted, rejected = usage["accepted_prediction_tokens"], usage["rejected_prediction_tokens"]
    counts = {item.name: usage[item.name] for item in fields(DecodeStats) if item.name in usage}
    counts |= {"accepted_tokens": accepted, "drafted_tokens": None if accepted is None else accepted + rejected}
    known = {name: value for name, value in counts.items() if value is not None}
    known |= {name: timings_s[name] for name in DECODE_TIMES}
    edits = []
    for edit in answer["edits"]:
        start, end = Position(**edit["range"]["start"]), Position(**edit["range"]["end"])
        columns = edit["utf8_columns"]
        edits.append(TextEdit(start, end, edit["newText"], columns["start"], columns["end"]))
    values = {item.name: answer[item.name] for item in fields(ApplyResult) if item.name in answer}
    values |= {
        "finish_reason": FinishReason(answer["finish_reason"]),
        "certainty": Certainty(answer["certainty"]),
        "reasons": tuple(answer["reasons"]),
        "verdicts": _decode_verdicts(answer["verdicts"]),
        "edits": tuple(edits),
        "spans": tuple(Span(**span) for span in answer["spans"]),
        "windows": tuple(LineRange(**lines) for lines in answer["windows"]),
        "hunks": tuple(Hunk(**hunk) for hunk in answer["hunks"]),
        "stats": DecodeStats(**known, unknown=frozenset(counts.keys() - known.keys())),
        "timings_s": {name: s for name, s in timings_s.items() if name not in DECODE_TIMES},
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
    return tuple(Verdict(**{**one, "lines": one["lines"] and tuple(one["lines"])}) for one in verdicts)


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


# -- calls -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.  `decode` raises KeyError, TypeError or ValueError for what is no answer to it."""

    method: str
    path: str
    decode: Callable[[dict[str, Any]], T]
    payload: Mapping[str, object] | bytes | None = None
    timeout_s: float | None = None
    """None: the client's own."""
    idempotency_key: str | None = None

    @property
    def body(self) -> bytes | None:
        return json.dumps(self.payload).encode() if isinstance(self.payload, Mapping) else self.payload

    def read(self, status: int, body: bytes) -> T:
        """What an answer says.  Raises the server's error, or as `decode` does."""
        answer = json.loads(body)
        if not isinstance(answer, dict):
            raise TypeError
        if status != HTTPStatus.OK:
            raise decode_error(answer)
        return self.decode(answer)


MODELS: Call[tuple[Model, ...]] = Call("GET", "/v1/models", decode_models)
READY: Call[Readiness] = Call("GET", "/readyz", decode_readiness)


def apply_call(
    request: ApplyRequest, idempotency_key: str | None = None, *, is_streamed: bool = False
) -> Call[ApplyResult]:
    payload = encode_request(request) | ({"stream": True} if is_streamed else {})
    return Call("POST", APPLY_PATH, decode_answer, payload, request.timeout_s, idempotency_key)


def batch_call(
    requests: Sequence[ApplyRequest], mode: BatchMode, timeout_s: float, idempotency_key: str | None
) -> Call[BatchResult]:
    """`timeout_s` is what an edit that names no deadline has; the server ends each by its own."""
    total_s = sum(timeout_s if request.timeout_s is None else request.timeout_s for request in requests)
    payload = {"mode": mode, "edits": [encode_request(request) for request in requests]}
    return Call("POST", BATCH_PATH, decode_batch, payload, total_s, idempotency_key)


def patch_call(request: PatchRequest) -> Call[BatchResult]:
    return Call("POST", BATCH_PATH, decode_batch, encode_patch(request))


def json_call(path: str, payload: Mapping[str, object] | bytes, timeout_s: float | None) -> Call[dict[str, Any]]:
    """A request that is JSON already; its answer's JSON object."""
    return Call("POST", path, lambda answer: answer, payload, timeout_s)


class Endpoint:
    """One server, as one caller."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float) -> None:
        """Raises SettingsError: that is no http or https URL, or the key cannot be a header's value."""
        try:
            self.parts = urlsplit(url)
            is_service = self.parts.scheme in ("http", "https") and bool(self.parts.hostname) and self.parts.port != 0
        except ValueError:
            is_service = False
        if not is_service or self.parts.query or self.parts.fragment:
            raise SettingsError(
                "That is not the URL of a service.", value=url, limit="http://HOST:PORT", remedy="Correct --server."
            )
        if not (api_key is None or (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key != "")):
            # The key itself is not quoted: errors go to logs.
            limit = "printable ASCII without blanks around"
            raise SettingsError("That is not an API key.", limit=limit, remedy="Mend it.")
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._api_key = api_key

    def target(self, call: Call[Any]) -> str:
        """The path to ask, below that of the URL."""
        return self.parts.path.rstrip("/") + call.path

    def headers(self, call: Call[Any]) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if call.payload is not None else {}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        return headers

    def wait_s(self, call: Call[Any]) -> float:
        """For how long the server may be silent."""
        return (self.timeout_s if call.timeout_s is None else call.timeout_s) + GRACE_S

    @contextlib.contextmanager
    def translated(self, timeouts: type[Exception], failures: tuple[type[Exception], ...]) -> Iterator[None]:
        """Errors of a transport, and of the decoding, become errors of ours.  OSErrors are failures everywhere."""
        failures = (*failures, OSError)
        try:
            yield
        except (timeouts, TimeoutError) as error:
            raise DeadlineExceeded(
                "The server did not answer in time.", value=self.url, remedy="Allow more time."
            ) from error
        except failures as error:
            raise Unreachable(
                f"The server cannot be reached: {str(error) or type(error).__name__}.",
                value=self.url,
                remedy="Start one with `apply-service serve`, or correct the URL.",
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable(
                "The server's answer is not one of an apply service.", value=self.url, remedy="Correct the URL."
            ) from error
