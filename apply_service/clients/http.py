"""A typed, synchronous client of the native dialect, over the standard library alone.

The server's errors come back as the classes that were raised there.  A server that cannot be reached, or does not speak
the dialect, is `Unreachable`; one that is silent for longer than the deadline is `DeadlineExceeded`.  Proxies of the
environment are not used.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from apply_service.clients.wire import decode_answer, decode_error, encode_request
from apply_service.errors import ApplyError, DeadlineExceeded, SettingsError, Unreachable
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent, TokenEvent

APPLY_PATH = "/v1/apply"
DEFAULT_TIMEOUT_S = 120.0
GRACE_S = 5.0
"""The server keeps the deadline itself; the client waits a little longer for it to say so."""


class HttpClient:
    """Talks to one server; each call has a connection of its own, so threads may share a client."""

    def __init__(self, url: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """`url`: where the service is, for instance http://127.0.0.1:8765.

        Raises:
            SettingsError: that is no http or https URL.
        """
        self._parts = _split(url)
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s

    def apply(self, request: ApplyRequest) -> ApplyResult:
        """Apply one edit.  Raises ApplyError."""
        answer = self.post(encode_request(request), timeout_s=request.timeout_s)
        with _translated(self._url):
            return decode_answer(answer)

    def stream(self, request: ApplyRequest) -> Generator[ApplyEvent]:
        """Provisional token events, then the final event.  Closing the iterator stops the decoding.  Raises
        ApplyError."""
        payload = {**encode_request(request), "stream": True}
        with _translated(self._url), self._open("POST", APPLY_PATH, payload, request.timeout_s) as response:
            yield from _decode_events(response)

    def post(self, payload: Mapping[str, object] | bytes, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Send a request that is JSON already, as an object or as text; the answer's JSON object."""
        with _translated(self._url), self._open("POST", APPLY_PATH, payload, timeout_s) as response:
            return _read_object(response)

    def is_ready(self) -> bool:
        """Whether the server would take a request now."""
        try:
            with _translated(self._url), self._open("GET", "/readyz", None, None):
                return True
        except ApplyError:
            return False

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, payload: Mapping[str, object] | bytes | None, timeout_s: float | None
    ) -> Iterator[HTTPResponse]:
        """The response to a request, if it is not an error."""
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        wait_s = (self._timeout_s if timeout_s is None else timeout_s) + GRACE_S
        with contextlib.closing(kind(self._parts.netloc, timeout=wait_s)) as connection:
            body = json.dumps(payload).encode() if isinstance(payload, Mapping) else payload
            with contextlib.suppress(BrokenPipeError):  # refused while sending; the answer says why
                connection.request(
                    method, self._parts.path.rstrip("/") + path, body, {"Content-Type": "application/json"}
                )
            with contextlib.closing(connection.getresponse()) as response:
                if response.status != 200:
                    raise decode_error(_read_object(response))
                yield response


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_service = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_service = False
    if not is_service or parts.query or parts.fragment:
        raise SettingsError(
            "That is not the URL of a service.", value=url, limit="http://HOST:PORT", remedy="Correct --server."
        )
    return parts


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Errors of the transport and of the decoding become errors of ours."""
    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded("The server did not answer in time.", value=url, remedy="Allow more time.") from error
    except (OSError, HTTPException) as error:
        raise Unreachable(
            f"The server cannot be reached: {str(error) or type(error).__name__}.",
            value=url,
            remedy="Start one with `apply-service serve`, or correct the URL.",
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise Unreachable(
            "The server's answer is not one of an apply service.", value=url, remedy="Correct the URL."
        ) from error


def _read_object(response: HTTPResponse) -> dict[str, Any]:
    answer = json.loads(response.read())
    if not isinstance(answer, dict):
        raise TypeError
    return answer


def _decode_events(lines: HTTPResponse) -> Iterator[ApplyEvent]:
    """Events of a stream.  One that ends without a terminal event was cut off."""
    name = ""
    for raw in lines:
        field, _, value = raw.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            event = _decode_event(name, json.loads(value))
            yield event
            if isinstance(event, FinalEvent):
                return
    raise HTTPException("the stream was cut off")


def _decode_event(name: str, data: dict[str, Any]) -> ApplyEvent:
    if name == "error":
        raise decode_error(data)
    return FinalEvent(decode_answer(data)) if name == "final" else TokenEvent(data["text"])
