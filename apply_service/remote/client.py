"""Calls a remote server, with the address, key and abilities from the settings.  A failed call is retried only if no
part of an answer has come.

Calls run in an event loop in a separate thread.  Other threads wait for the texts and replies.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
from anyio.from_thread import start_blocking_portal

from apply_service.errors import ApplyError, DeadlineExceeded, RemoteFailure, SettingsError
from apply_service.remote.messages import AGAIN, REPORT, Reply, Transcript, error_of, is_passing
from apply_service.settings import ENV_KEY, VLLM, Settings

ERROR_BYTES = 65536
"""At most this many bytes of an error's body are read."""

# -- the address and the key ------------------------------------------------------------------------------------------
VLLM_TAKES = frozenset({"usage", "logprobs", "seed", "vllm_xargs"})
"""The parameters that every vLLM server takes.  Without our plug-in, it ignores `vllm_xargs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One server, and how to call it."""

    url: str
    """The base URL.  It ends with the version, without a slash."""
    key: str | None = field(default=None, repr=False)
    takes: frozenset[str] = frozenset()
    """The parameters that the server takes beyond plain chat completions (the words of the setting `remote_takes`)."""
    n_retries: int = 3
    backoff_s: float = 0.5
    """The maximum wait before the first retry.  The maximum doubles with each retry."""
    connect_timeout_s: float = 10.0
    silence_timeout_s: float = 60.0
    total_timeout_s: float = 120.0
    """The deadline of requests that set no deadline."""
    max_bytes: int = 64 * 2**20
    """The maximum number of bytes of an answer, including the framing of its events."""

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str] | None = None) -> Endpoint:
        """Return the server of the settings.  Raises SettingsError if the URL is missing or is not that of a server, or
        if the key (or its environment variable) is unusable."""
        is_vllm = settings.engine == VLLM
        url = _url(settings.vllm_url, "vllm_url") if is_vllm else _url(settings.remote_url, "remote_url")
        environment = os.environ if environment is None else environment
        key = settings.remote_key
        variable = key.removeprefix(ENV_KEY) if key is not None and key.startswith(ENV_KEY) else None
        if variable is not None:
            key = environment.get(variable, "")
        if not (key is None or (key.isascii() and key.isprintable() and key.strip() == key != "")):
            # The key itself is not quoted.
            limit = "printable ASCII, or env:NAME of a variable that holds it"
            remedy = "Set remote_key to the key, or to env:NAME with the name of a variable that holds it."
            raise SettingsError("remote_key holds no usable key.", value=variable, limit=limit, remedy=remedy)
        return cls(
            # The setting of a vLLM server lacks the version.
            url=f"{url}/v1" if is_vllm and not urlsplit(url).path else url,
            key=key,
            takes=frozenset(settings.remote_takes) | (VLLM_TAKES if is_vllm else frozenset()),
            n_retries=settings.remote_retries,
            silence_timeout_s=settings.remote_silence_timeout_s,
            total_timeout_s=settings.default_timeout_s,
        )

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}


def _url(url: str | None, name: str) -> str:
    if url is None:
        remedy = f"Set {name} (--{name.replace('_', '-')})."
        raise SettingsError(f"A remote model needs {name}.", limit="https://HOST/v1", remedy=remedy)
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_server = is_server and not (parts.query or parts.fragment or parts.username is not None)
    except ValueError:
        is_server = False
    if not is_server:
        raise SettingsError(
            f"{name} is not the URL of a server.",
            # A URL with a password is not repeated, because errors go to logs.
            value=None if "@" in url else url,
            limit="http(s)://HOST:PORT/v1",
            remedy=f"Write {name} as http://HOST:PORT/v1, without a key; a key is set in remote_key.",
        )
    return url.rstrip("/")


# -- the calls --------------------------------------------------------------------------------------------------------
class Passing(Exception):
    """A failure before any part of an answer, so that a retry may help.  `error` is raised if no retry is left."""

    def __init__(self, error: ApplyError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


class Call(NamedTuple):
    """One running call.

    `texts` gives the pieces of the answer as they come.  `reply` gives the whole answer, or raises the call's
    ApplyError.  Any thread may cancel `reply`, which closes the connection and ends `texts`.
    """

    texts: Iterator[str]
    reply: Future[Reply]


class RemoteClient:
    """Calls one server and keeps its connections.  Close the client if the process goes on without it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._ending = ExitStack()
        # The portal ends when this client is closed or garbage-collected, or when the process ends.
        self._portal = self._ending.enter_context(start_blocking_portal())
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(endpoint.silence_timeout_s, connect=endpoint.connect_timeout_s, pool=None),
            limits=httpx2.Limits(max_connections=None),
            follow_redirects=False,  # the key must not go to another server
            trust_env=False,
        )

    def close(self) -> None:
        """Stop all calls and close all connections."""
        self._portal.call(self._http.aclose)
        self._portal.call(self._portal.stop, True)
        self._ending.close()

    def call(self, body: Mapping[str, Any], *, limit_chars: int | None, timeout_s: float) -> Call:
        """Begin a call, and return without waiting for it.  `limit_chars`: the maximum number of characters of the
        answer; None for no limit."""
        texts: SimpleQueue[str | None] = SimpleQueue()
        content = json.dumps(body).encode()  # ASCII only: a file may hold lone surrogates, which UTF-8 cannot
        future = self._portal.start_task_soon(self._ask, content, texts.put, limit_chars, timeout_s)
        future.add_done_callback(lambda _: texts.put(None))
        return Call(iter(texts.get, None), future)

    async def _ask(
        self, content: bytes, on_text: Callable[[str], None], limit_chars: int | None, timeout_s: float
    ) -> Reply:
        """Return the reply.  Try again until an answer begins, or until no retry or no time is left."""
        endpoint, loop = self.endpoint, asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                for n_tried in range(endpoint.n_retries + 1):
                    try:
                        return await self._try(content, on_text, Transcript(limit_chars))
                    except Passing as passing:
                        wait_s, longest_s = passing.wait_s, endpoint.backoff_s * 2**n_tried
                        if wait_s is None:
                            wait_s = random.uniform(longest_s / 2, longest_s)
                        if n_tried == endpoint.n_retries or loop.time() + wait_s >= deadline:
                            raise passing.error from passing
                        await asyncio.sleep(wait_s)
        except TimeoutError as error:
            raise self._late("The remote server did not finish its answer in time.", timeout_s) from error
        raise AssertionError("the last retry's error is raised")

    async def _try(self, content: bytes, on_text: Callable[[str], None], transcript: Transcript) -> Reply:
        """Send the request once, and return the reply.

        Raises:
            Passing: no part of an answer came, but a retry may help.
            ApplyError: the request was refused, or the answer is too large, late or incomplete.
        """
        url, limit, n_bytes, refused = self.endpoint.url, self.endpoint.max_bytes, 0, bytearray()
        headers = {"Content-Type": "application/json", **self.endpoint.headers}
        asked = self._http.stream("POST", f"{url}/chat/completions", content=content, headers=headers)
        try:
            async with asked as response:
                status = response.status_code
                async for piece in response.aiter_bytes():
                    n_bytes += len(piece)
                    if status != HTTPStatus.OK:
                        refused += piece
                        if n_bytes > ERROR_BYTES:
                            break
                    elif n_bytes > limit:
                        message, remedy = "The remote server's answer is too large.", "Use another model."
                        raise RemoteFailure(message, value=n_bytes, limit=limit, remedy=remedy)
                    else:
                        for text in transcript.feed(piece):
                            on_text(text)
                if status != HTTPStatus.OK:
                    refusal = error_of(status, bytes(refused))
                    if is_passing(status):
                        raise Passing(refusal, asked_wait_s(response.headers.get("Retry-After")))
                    raise refusal
        except httpx2.ConnectTimeout as error:
            raise Passing(_unreachable("no connection in time", url)) from error
        except httpx2.TimeoutException as error:
            raise self._late("The remote server was silent for too long.", self.endpoint.silence_timeout_s) from error
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            name = type(error).__name__
            if n_bytes:
                raise RemoteFailure("The remote server's answer broke off.", value=name, remedy=AGAIN) from error
            if isinstance(error, httpx2.DecodingError | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
                raise _unreachable(name, url) from error
            raise Passing(_unreachable(name, url)) from error
        return transcript.finish()

    def _late(self, message: str, limit_s: float) -> DeadlineExceeded:
        return DeadlineExceeded(
            message, value=self.endpoint.url, limit=limit_s, remedy="Allow more time, or use a faster model."
        )


def asked_wait_s(header: str | None) -> float | None:
    """Return the seconds in a Retry-After header; None if the header has no seconds.  Dates are not read."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return max(0.0, seconds) if seconds < float("inf") else None


def served_models(endpoint: Endpoint) -> list[str]:
    """Return the names of the models that the server lists, for a diagnosis.

    Raises RemoteFailure or Overloaded if the server can't be reached, refuses, or lists no models.
    """
    url = endpoint.url + "/models"
    try:
        response = httpx2.get(url, headers=endpoint.headers, timeout=endpoint.connect_timeout_s, trust_env=False)
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        raise _unreachable(type(error).__name__, url) from error
    if response.status_code != HTTPStatus.OK:
        raise error_of(response.status_code, response.content)
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteFailure("The remote server does not list its models.", value=url, remedy=REPORT) from error


def _unreachable(why: str, url: str) -> RemoteFailure:
    message = f"The remote server cannot be reached ({why})."
    return RemoteFailure(message, value=url, remedy="Start the server, or correct its URL.")
