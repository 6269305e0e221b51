"""Calls to one server: sent, retried while nothing of an answer has come, read to the end, or stopped.

Each call runs in the event loop's thread; another thread takes its text piece by piece, and then its reply or error.
Stopping a call closes its connection.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import httpx2

from apply_service.errors import ApplyError, DeadlineExceeded, RemoteFailure
from apply_service.remote.endpoint import Endpoint
from apply_service.remote.event_loop import EventLoop
from apply_service.remote.events import EventData
from apply_service.remote.failures import error_of, is_passing, wait_s
from apply_service.remote.reply import AGAIN, REPORT, Reply, Transcript

CHAT_PATH = "/chat/completions"
ERROR_BYTES = 65536
"""So much of an error's body is read."""


class Passing(Exception):
    """What may be gone a moment later: nothing of an answer has come.  `error` stands where no retry is left."""

    def __init__(self, error: ApplyError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


class Call:
    """One call.  A context manager: leaving it stops it."""

    def __init__(self, texts: SimpleQueue[str | None], future: Future[Reply]) -> None:
        """`texts` as they come, then None."""
        self._texts = texts
        self._future = future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the connection, where the call has not ended.  Any thread may; `texts` ends then."""
        self._future.cancel()

    def texts(self) -> Iterator[str]:
        """The pieces of the answer as they come, each waited for."""
        while (text := self._texts.get()) is not None:
            yield text

    def reply(self) -> Reply:
        """The whole answer, waited for.  Raises the call's ApplyError."""
        return self._future.result()


class RemoteClient:
    """Talks to one server; keeps its connections.  Close it where it does not live as long as the process."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._loop = EventLoop()
        self._http: httpx2.AsyncClient | None = None

    def close(self) -> None:
        """Stop all calls and close all connections."""
        if self._http is not None:
            self._loop.start(self._http.aclose()).result()
        self._loop.close()

    def call(self, body: Mapping[str, Any], *, limit_chars: int | None, timeout_s: float) -> Call:
        """Begin a call; returns at once."""
        texts: SimpleQueue[str | None] = SimpleQueue()
        # ASCII only: a file may hold lone surrogates, which UTF-8 cannot.
        content = json.dumps(body).encode()
        future = self._loop.start(self._ask(content, texts.put, limit_chars, timeout_s))
        future.add_done_callback(lambda _: texts.put(None))
        return Call(texts, future)

    async def _ask(
        self, content: bytes, on_text: Callable[[str], None], limit_chars: int | None, timeout_s: float
    ) -> Reply:
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                for n_tried in range(self.endpoint.n_retries + 1):
                    try:
                        return await self._try(content, on_text, Transcript(limit_chars))
                    except Passing as passing:
                        await self._back_off(passing, n_tried, deadline)
        except TimeoutError as error:
            raise self._late("The remote server did not finish in time.", timeout_s) from error
        raise AssertionError("the last retry's error is raised")

    async def _back_off(self, passing: Passing, n_tried: int, deadline: float) -> None:
        """Wait before the next try.  Raises the error where there is none, or no time for it."""
        longest = self.endpoint.backoff_s * 2**n_tried
        pause_s = random.uniform(longest / 2, longest) if passing.wait_s is None else passing.wait_s
        if n_tried == self.endpoint.n_retries or asyncio.get_running_loop().time() + pause_s >= deadline:
            raise passing.error from passing
        await asyncio.sleep(pause_s)

    async def _try(self, content: bytes, on_text: Callable[[str], None], transcript: Transcript) -> Reply:
        async with self._opened(content) as pieces:
            if not self.endpoint.is_streamed:
                on_text(_taken(transcript, b"".join([piece async for piece in pieces])))
                return transcript.finish()
            events = EventData()
            async for piece in pieces:
                for text in _texts(transcript, events, piece):
                    on_text(text)
        return transcript.finish()

    @asynccontextmanager
    async def _opened(self, content: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of an answer's body.

        Raises:
            Passing: nothing of an answer came, and may come a moment later.
            ApplyError: it was refused, or broke off.
        """
        has_begun = False

        async def pieces(response: httpx2.Response) -> AsyncGenerator[bytes]:
            nonlocal has_begun
            n_bytes = 0
            async for piece in response.aiter_bytes():
                has_begun = has_begun or bool(piece)
                n_bytes += len(piece)
                if n_bytes > self.endpoint.max_bytes:
                    raise _too_large(n_bytes, self.endpoint.max_bytes)
                yield piece

        headers = {"Content-Type": "application/json", **self.endpoint.headers}
        url = self.endpoint.url + CHAT_PATH
        try:
            async with self._client().stream("POST", url, content=content, headers=headers) as response:
                if response.status_code != HTTPStatus.OK:
                    await _raise_refusal(response)
                async with aclosing(pieces(response)) as stream:
                    yield stream
        except httpx2.ConnectTimeout as error:
            raise Passing(self._unreachable("no connection in time")) from error
        except httpx2.TimeoutException as error:
            raise self._late("The remote server was silent for too long.", self.endpoint.silence_timeout_s) from error
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            found = self._broken(error, has_begun=has_begun)
            if has_begun or isinstance(error, httpx2.DecodingError | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
                raise found from error
            raise Passing(found) from error

    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            silence_s = self.endpoint.silence_timeout_s
            self._http = httpx2.AsyncClient(
                timeout=httpx2.Timeout(silence_s, connect=self.endpoint.connect_timeout_s, pool=None),
                limits=httpx2.Limits(max_connections=None),
                follow_redirects=False,  # the key goes nowhere else
                trust_env=False,
            )
        return self._http

    def _broken(self, error: Exception, *, has_begun: bool) -> RemoteFailure:
        if not has_begun:
            return self._unreachable(type(error).__name__)
        return RemoteFailure("The remote server's answer broke off.", value=type(error).__name__, remedy=AGAIN)

    def _unreachable(self, why: str) -> RemoteFailure:
        return RemoteFailure(
            f"The remote server cannot be reached ({why}).",
            value=self.endpoint.url,
            remedy="Start it, or mend the URL.",
        )

    def _late(self, message: str, limit_s: float) -> DeadlineExceeded:
        return DeadlineExceeded(message, value=self.endpoint.url, limit=limit_s, remedy="Allow more time.")


async def _raise_refusal(response: httpx2.Response) -> None:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= ERROR_BYTES:
            break
    error = error_of(response.status_code, body)
    if is_passing(response.status_code):
        raise Passing(error, wait_s(response.headers.get("Retry-After")))
    raise error


def _texts(transcript: Transcript, events: EventData, piece: bytes) -> list[str]:
    try:
        return [text for data in events.feed(piece) if (text := transcript.take(data))]
    except UnicodeDecodeError as error:
        raise RemoteFailure("The remote server's events are not UTF-8.", remedy=REPORT) from error


def _taken(transcript: Transcript, body: bytes) -> str:
    try:
        return transcript.take(body.decode())
    except UnicodeDecodeError as error:
        raise RemoteFailure("The remote server's answer is not UTF-8.", remedy=REPORT) from error


def _too_large(n_bytes: int, limit: int) -> RemoteFailure:
    return RemoteFailure(
        "The remote server's answer is too large.", value=n_bytes, limit=limit, remedy="Raise remote_max_bytes."
    )
