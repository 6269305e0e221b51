"""The asynchronous client, over httpx2 (extra `client`).

What it can ask, and what answers mean, is in `wire`; `http` is its twin.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Self, TypeVar

from apply_service.batch import BatchMode, BatchResult, PatchRequest
from apply_service.clients import wire
from apply_service.clients.wire import Call, Endpoint, EventReader, Model, Readiness
from apply_service.errors import ApplyError, MissingDependency
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult

try:
    import httpx2
except ImportError as error:
    raise MissingDependency(
        "The asynchronous client needs httpx2.", value="httpx2", remedy="pip install 'apply-service[client]'"
    ) from error

FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
T = TypeVar("T")


class AsyncHttpClient:
    """Talks to one server over kept connections.  An async context manager; leaving it closes them.

    Every method raises ApplyError; a task that is cancelled stops the decoding of what it waited for.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = wire.DEFAULT_TIMEOUT_S) -> None:
        """As `HttpClient`.  Raises SettingsError."""
        self._endpoint = Endpoint(url, api_key, timeout_s)
        self._http = httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=None))

    async def apply(self, request: ApplyRequest, *, idempotency_key: str | None = None) -> ApplyResult:
        """Apply one edit."""
        return await self._send(wire.apply_call(request, idempotency_key))

    async def stream(self, request: ApplyRequest) -> AsyncGenerator[ApplyEvent]:
        """Provisional token events, then the final event.  Closing the iterator stops the decoding."""
        call, reader = wire.apply_call(request, is_streamed=True), EventReader()
        async with self._open(call) as response:
            if response.status_code != HTTPStatus.OK:
                call.read(response.status_code, await response.aread())
            async for data in response.aiter_bytes():
                for event in reader.feed(data):
                    yield event
                if reader.has_ended:
                    return
            reader.finish()

    async def apply_batch(
        self,
        requests: Sequence[ApplyRequest],
        *,
        mode: BatchMode = "all_or_nothing",
        idempotency_key: str | None = None,
    ) -> BatchResult:
        """Apply several edits, each of a file of its own."""
        return await self._send(wire.batch_call(requests, mode, self._endpoint.timeout_s, idempotency_key))

    async def apply_patch(self, request: PatchRequest) -> BatchResult:
        """Apply one patch over several files."""
        return await self._send(wire.patch_call(request))

    async def models(self) -> tuple[Model, ...]:
        """The names that requests may give, the service's own model first."""
        return await self._send(wire.MODELS)

    async def health(self) -> Readiness:
        """What a service that takes requests says of itself.  Raises NotReady where it takes none."""
        return await self._send(wire.READY)

    async def is_ready(self) -> bool:
        """Whether the server would take a request now."""
        try:
            await self.health()
        except ApplyError:
            return False
        return True

    async def post(
        self, payload: Mapping[str, object] | bytes, *, path: str = wire.APPLY_PATH, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request that is JSON already, as an object or as text; the answer's JSON object."""
        return await self._send(wire.json_call(path, payload, timeout_s))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, call: Call[T]) -> T:
        async with self._open(call) as response:
            return call.read(response.status_code, await response.aread())

    @contextlib.asynccontextmanager
    async def _open(self, call: Call[Any]) -> AsyncIterator[httpx2.Response]:
        endpoint = self._endpoint
        url = f"{endpoint.parts.scheme}://{endpoint.parts.netloc}{endpoint.target(call)}"
        options = {"content": call.body, "headers": endpoint.headers(call), "timeout": endpoint.wait_s(call)}
        with endpoint.translated(httpx2.TimeoutException, FAILURES):
            async with self._http.stream(call.method, url, **options) as response:  # type: ignore[arg-type]
                yield response
