"""The synchronous client, over the standard library alone: the command line starts in milliseconds with it.

The server's errors come back as the classes that were raised there.  A server that cannot be reached, or does not speak
the dialect, is `Unreachable`; one that is silent for longer than the deadline is `DeadlineExceeded`.  Proxies of the
environment are not used.  What it can ask is in `wire`; `async_http` is its twin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar

from apply_service.batch import BatchMode, BatchResult, PatchRequest
from apply_service.clients import wire
from apply_service.clients.wire import Call, Endpoint, EventReader, Model, Readiness
from apply_service.errors import ApplyError
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult

CHUNK_BYTES = 65536
T = TypeVar("T")


class HttpClient:
    """Talks to one server; each call has a connection of its own, so threads may share a client.

    Every method raises ApplyError.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = wire.DEFAULT_TIMEOUT_S) -> None:
        """`url`: where the service is, for instance http://127.0.0.1:8765.  `timeout_s`: deadline of a request that
        names none.  Raises SettingsError: that is no http or https URL, or no key."""
        self._endpoint = Endpoint(url, api_key, timeout_s)

    def apply(self, request: ApplyRequest, *, idempotency_key: str | None = None) -> ApplyResult:
        """Apply one edit."""
        return self._send(wire.apply_call(request, idempotency_key))

    def stream(self, request: ApplyRequest) -> Generator[ApplyEvent]:
        """Provisional token events, then the final event.  Closing the iterator stops the decoding."""
        call, reader = wire.apply_call(request, is_streamed=True), EventReader()
        with self._open(call) as response:
            if response.status != HTTPStatus.OK:
                call.read(response.status, response.read())
            while not reader.has_ended and (data := response.read1(CHUNK_BYTES)):
                yield from reader.feed(data)
            reader.finish()

    def apply_batch(
        self,
        requests: Sequence[ApplyRequest],
        *,
        mode: BatchMode = "all_or_nothing",
        idempotency_key: str | None = None,
    ) -> BatchResult:
        """Apply several edits, each of a file of its own."""
        return self._send(wire.batch_call(requests, mode, self._endpoint.timeout_s, idempotency_key))

    def apply_patch(self, request: PatchRequest) -> BatchResult:
        """Apply one patch over several files."""
        return self._send(wire.patch_call(request))

    def models(self) -> tuple[Model, ...]:
        """The names that requests may give, the service's own model first."""
        return self._send(wire.MODELS)

    def health(self) -> Readiness:
        """What a service that takes requests says of itself.  Raises NotReady where it takes none."""
        return self._send(wire.READY)

    def is_ready(self) -> bool:
        """Whether the server would take a request now."""
        try:
            self.health()
        except ApplyError:
            return False
        return True

    def post(
        self, payload: Mapping[str, object] | bytes, *, path: str = wire.APPLY_PATH, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request that is JSON already, as an object or as text; the answer's JSON object."""
        return self._send(wire.json_call(path, payload, timeout_s))

    def _send(self, call: Call[T]) -> T:
        with self._open(call) as response:
            return call.read(response.status, response.read())

    @contextlib.contextmanager
    def _open(self, call: Call[Any]) -> Iterator[HTTPResponse]:
        endpoint = self._endpoint
        connect = HTTPSConnection if endpoint.parts.scheme == "https" else HTTPConnection
        with (
            endpoint.translated(TimeoutError, (HTTPException,)),
            contextlib.closing(connect(endpoint.parts.netloc, timeout=endpoint.wait_s(call))) as connection,
        ):
            with contextlib.suppress(BrokenPipeError):  # refused while sending; the answer says why
                connection.request(call.method, endpoint.target(call), call.body, endpoint.headers(call))
            with contextlib.closing(connection.getresponse()) as response:
                yield response
