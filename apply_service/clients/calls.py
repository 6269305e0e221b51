"""What a client can ask, apart from how it is sent: the synchronous and the asynchronous client share all of this.

A `Call` is a request ready to be sent and the way to read its answer; an `Endpoint` knows where it goes, as whom, and
for how long to wait, and turns errors of the transport into ours.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from apply_service.batch import BatchMode, BatchResult, PatchRequest
from apply_service.clients.wire import (
    Model,
    Readiness,
    decode_answer,
    decode_batch,
    decode_error,
    decode_models,
    decode_readiness,
    encode_patch,
    encode_request,
)
from apply_service.errors import DeadlineExceeded, SettingsError, Unreachable
from apply_service.types import ApplyRequest, ApplyResult

APPLY_PATH = "/v1/apply"
BATCH_PATH = "/v1/apply/batch"
DEFAULT_TIMEOUT_S = 120.0
GRACE_S = 5.0
"""The server keeps the deadline itself; the client waits a little longer for it to say so."""

T = TypeVar("T")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.  `decode` raises KeyError, TypeError or ValueError for what is no answer to it."""

    method: str
    path: str
    decode: Callable[[Json], T]
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


def json_call(path: str, payload: Mapping[str, object] | bytes, timeout_s: float | None) -> Call[Json]:
    """A request that is JSON already; its answer's JSON object."""
    return Call("POST", path, lambda answer: answer, payload, timeout_s)


class Endpoint:
    """One server, as one caller."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float) -> None:
        """Raises SettingsError: that is no http or https URL, or the key cannot stand in a header."""
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
