"""Calls a running service.  This module uses only the standard library, so that the command line starts fast.

The client sends what `api.schema` reads, and reads what `api.answer` writes; a test compares the two sides.  Errors of
the server are raised here as the same classes.  `Unreachable` is raised if the server can't be reached or is no apply
service, and `DeadlineExceeded` if it is silent for too long.  Proxies set in the environment are not used.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit

from apply_service.batch import BatchItem, BatchMode, BatchResult, PatchRequest
from apply_service.errors import ApplyError, DeadlineExceeded, ServiceError, SettingsError, Unreachable
from apply_service.types import (
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    DecodeStats,
    Failure,
    FinalEvent,
    FinishReason,
    Hunk,
    LikePlace,
    LineRange,
    OtherReading,
    PassCount,
    Position,
    Span,
    TextEdit,
    TextRange,
    TokenEvent,
    Utf8Columns,
    Verdict,
)

T = TypeVar("T")
Json = Mapping[str, Any]

APPLY_PATH = "/v1/apply"
BATCH_PATH = "/v1/apply/batch"
DEFAULT_TIMEOUT_S = 120.0
GRACE_S = 5.0
"""The client waits for an answer this much longer than the deadline.  The server enforces the deadline."""
DECODE_TIMES = ("prefill_s", "decode_s", "draft_s")


@dataclass(frozen=True, slots=True)
class Model:
    """A model name that requests may give."""

    id: str
    alias_of: str | None = None
    """The model that this name means; None if it is a model's own name."""


@dataclass(frozen=True, slots=True)
class ServerReadiness:
    """The state of a service that takes requests."""

    model: str
    queue_length: int
    queue_limit: int


class HttpClient:
    """Talks to one server.  Each call opens a connection, so threads may share a client.  All methods raise
    ApplyError."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """`url`: for instance http://127.0.0.1:8765.  `timeout_s`: the deadline of requests that have none of their
        own.  Raises SettingsError if the URL or the key is malformed."""
        try:
            self._parts = urlsplit(url)
            is_address = bool(self._parts.hostname) and self._parts.port != 0
        except ValueError:
            is_address = False
        if not is_address or self._parts.scheme not in ("http", "https") or self._parts.query or self._parts.fragment:
            limit, remedy = "http://HOST:PORT", "Correct --server."
            raise SettingsError("That is not the URL of a service.", value=url, limit=limit, remedy=remedy)
        if not (api_key is None or (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key != "")):
            # The key itself is not quoted, because errors are logged.
            limit = "printable ASCII without blanks around"
            raise SettingsError("That is not an API key.", limit=limit, remedy="Correct it.")
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._api_key = api_key
        self._connections: set[HTTPConnection] = set()

    def apply(self, request: ApplyRequest) -> ApplyResult:
        """Apply one edit."""
        return self._send(APPLY_PATH, decode_answer, encode_request(request), request.timeout_s)

    def stream(self, request: ApplyRequest) -> Generator[ApplyEvent]:
        """Yield provisional token events, then the final event.  Closing the iterator stops the decoding."""
        name = ""
        with self._open(APPLY_PATH, encode_request(request) | {"stream": True}, request.timeout_s) as response:
            if response.status != HTTPStatus.OK:
                _read(response, decode_answer)
            # Lines end with \n only, because text may contain other separators.
            while (line := response.readline()).endswith(b"\n"):
                field, _, value = line.decode().removesuffix("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data" and name == "error":
                    raise decode_error(json.loads(value))
                elif field == "data" and name == "token":
                    content = json.loads(value)
                    passes = ([one[count] for count in PassCount._fields] for one in content.get("passes", ()))
                    yield TokenEvent(content["text"], tuple(map(PassCount._make, passes)))
                elif field == "data" and name == "final":
                    yield FinalEvent(decode_answer(json.loads(value)))
                    return  # events with other names were skipped: a newer server may send them
            raise ConnectionError("the stream was cut off")

    def apply_batch(self, requests: Sequence[ApplyRequest], *, mode: BatchMode = "all_or_nothing") -> BatchResult:
        """Apply several edits, each to a different file.  Each has its own deadline on the server."""
        timeout_s = sum(self._timeout_s if one.timeout_s is None else one.timeout_s for one in requests)
        payload = {"mode": mode, "edits": [encode_request(one) for one in requests]}
        return self._send(BATCH_PATH, decode_batch, payload, timeout_s)

    def apply_patch(self, request: PatchRequest) -> BatchResult:
        """Apply one patch over several files."""
        files = [{"path": one.path, "original": one.text, "encoding": one.encoding} for one in request.files]
        rules = dict(request.on_verdict)
        payload = {"mode": request.mode, "patch": request.patch, "files": files, "on_verdict": rules}
        return self._send(BATCH_PATH, decode_batch, payload | {"diff": request.diff})

    def models(self) -> tuple[Model, ...]:
        """Return the models that are served: the service's own first, and aliases last."""
        cards = self._send("/v1/models", lambda answer: [(card["id"], card.get("alias_of")) for card in answer["data"]])
        return tuple(Model(*card) for card in cards)

    def health(self) -> ServerReadiness:
        """Return the state of a service that takes requests.  Raises NotReady if it takes none."""
        names = [item.name for item in fields(ServerReadiness)]
        return self._send("/readyz", lambda answer: ServerReadiness(*(answer[name] for name in names)))

    def is_ready(self) -> bool:
        """Tell whether the server would take a request now."""
        try:
            self.health()
        except ApplyError:
            return False
        return True

    def post(
        self, payload: Mapping[str, object] | bytes, *, path: str = APPLY_PATH, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a JSON object, or one already encoded, and return the JSON object of the answer."""
        return self._send(path, lambda answer: answer, payload, timeout_s)

    def close(self) -> None:
        """Break off the calls of other threads.  The server then cancels these calls."""
        for connection in tuple(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _send(
        self,
        path: str,
        decode: Callable[[dict[str, Any]], T],
        payload: Mapping[str, object] | bytes | None = None,
        timeout_s: float | None = None,
    ) -> T:
        with self._open(path, payload, timeout_s) as response:
            return _read(response, decode)

    @contextlib.contextmanager
    def _open(
        self, path: str, payload: Mapping[str, object] | bytes | None, timeout_s: float | None
    ) -> Iterator[HTTPResponse]:
        """Yield the server's response.  Errors of the connection and of reading the answer become ApplyErrors."""
        connect = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        wait_s = (self._timeout_s if timeout_s is None else timeout_s) + GRACE_S
        connection = connect(self._parts.netloc, timeout=wait_s)
        headers = {} if payload is None else {"Content-Type": "application/json"}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        method, target = "GET" if payload is None else "POST", self._parts.path.rstrip("/") + path
        self._connections.add(connection)
        try:
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the server refuses while we are sending; its answer says why
                body = json.dumps(payload).encode() if isinstance(payload, Mapping) else payload
                connection.request(method, target, body, headers)
            with contextlib.closing(connection.getresponse()) as response:
                yield response
        except TimeoutError as error:
            message, remedy = "The server did not answer in time.", "Allow more time."
            raise DeadlineExceeded(message, value=self._url, remedy=remedy) from error
        except (HTTPException, OSError) as error:
            message = f"The server cannot be reached: {str(error) or type(error).__name__}."
            remedy = "Start one with `apply-service serve`, or correct the URL."
            raise Unreachable(message, value=self._url, remedy=remedy) from error
        except (KeyError, TypeError, ValueError) as error:
            message = "The server at this URL does not answer like an apply service."
            raise Unreachable(message, value=self._url, remedy="Correct the URL.") from error
        finally:
            self._connections.discard(connection)
            connection.close()


# -- to JSON and back --------------------------------------------------------------------------------------------------
# The functions below raise KeyError, TypeError or ValueError for JSON that is not an answer of this service.
def encode_request(request: ApplyRequest) -> dict[str, object]:
    """Return the request's JSON object, without the owner and without fields that have their default."""
    encoded: dict[str, object] = {"original": request.original}
    for item in fields(request):
        value, default = getattr(request, item.name), getattr(ApplyRequest(""), item.name)
        if value != default and item.name != "owner":
            encoded[item.name] = dict(value) if isinstance(value, Mapping) else value
    return encoded


def decode_answer(answer: Json) -> ApplyResult:
    """Return the result in an answer's JSON object."""
    usage, timings_s = answer["usage"], answer["timings_s"]
    accepted, rejected = usage["accepted_prediction_tokens"], usage["rejected_prediction_tokens"]
    counts = {item.name: usage[item.name] for item in fields(DecodeStats) if item.name in usage}
    counts |= {"accepted_tokens": accepted, "drafted_tokens": None if accepted is None else accepted + rejected}
    known = {name: value for name, value in counts.items() if value is not None}
    known |= {name: timings_s[name] for name in DECODE_TIMES}
    edits = []
    for edit in answer["edits"]:
        places = TextRange(*(Position(**edit["range"][name]) for name in ("start", "end")))
        edits.append(TextEdit(places, edit["newText"], Utf8Columns(**edit["utf8_columns"])))
    values = {item.name: answer[item.name] for item in fields(ApplyResult) if item.name in answer}
    values |= {
        "finish_reason": FinishReason(answer["finish_reason"]),
        "certainty": Certainty(answer["certainty"]),
        "reasons": tuple(answer["reasons"]),
        "verdicts": _decode_verdicts(answer["verdicts"]),
        "edits": tuple(edits),
        "spans": tuple(Span(**span) for span in answer["spans"]),
        "windows": tuple(LineRange(**lines) for lines in answer["windows"]),
        "readings": tuple(OtherReading(**reading) for reading in answer.get("readings", ())),
        "failures": tuple(
            Failure(**{**failure, "candidates": tuple(LikePlace(**place) for place in failure["candidates"])})
            for failure in answer.get("failures", ())
        ),
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


def decode_error(body: Json) -> ApplyError:
    """Return the error in an error body, as an instance of the class that has its code.  An unknown code becomes a
    ServiceError."""
    error = body["error"]
    kinds: list[type[ApplyError]] = [ApplyError]
    for kind in kinds:  # the loop appends the subclasses of each
        kinds += kind.__subclasses__()
    kind = {kind.code: kind for kind in reversed(kinds)}.get(error["code"], ServiceError)
    decoded = kind(error["message"], value=error["value"], limit=error["limit"], remedy=error["remedy"])
    decoded.readings, decoded.failures = error.get("readings", []), error.get("failures", [])
    decoded.source_sha256 = error.get("source_sha256") or ""
    return decoded


def _decode_verdicts(verdicts: list[Json]) -> tuple[Verdict, ...]:
    return tuple(Verdict(**{**one, "lines": one["lines"] and tuple(one["lines"])}) for one in verdicts)


def _read(response: HTTPResponse, decode: Callable[[dict[str, Any]], T]) -> T:
    """Return the decoded answer.  Raises the error that the server reports, and the errors of `decode`."""
    answer = json.loads(response.read())
    if not isinstance(answer, dict):
        raise TypeError
    if response.status != HTTPStatus.OK:
        raise decode_error(answer)
    return decode(answer)
