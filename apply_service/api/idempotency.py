"""`Idempotency-Key`: a request that is sent again gets the answer it got before, and its edit is not made again.

The same key with the same request (path and body) is answered from memory, bytes for bytes, streams included; with
another request it is refused.  While the first is in progress, the second waits for it.  Kept are answers that would
come out the same again: results, and errors that lie in the request.  Overload, deadlines, crashes and answers that the
client did not wait for are not kept: the next request with the key is made anew.  Keys of different callers never meet.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus

from cachetools import TTLCache
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.auth import caller_of
from apply_service.api.calls import current_call
from apply_service.errors import IdempotencyConflict, InvalidField, ModelError, ServiceError, UnsupportedParameter

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY_CHARS = 255
SIZE_OF_ENTRY = 1024
"""What an entry costs beside its answer, roughly, in bytes."""

PASSING = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        499,
    }
)
"""Refusals that may be over the next time; those from 500 on are as well."""

Place = tuple[str, str]
"""The caller's name and the key."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    fingerprint: bytes
    start: Message
    body: bytes

    @property
    def size(self) -> int:
        return SIZE_OF_ENTRY + len(self.body)


@dataclass(slots=True)
class _Running:
    fingerprint: bytes
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class IdempotencyMiddleware:
    """Raises IdempotencyConflict where a key comes back with another request, UnsupportedParameter where no answers are
    kept."""

    def __init__(self, app: ASGIApp, *, ttl_s: float, max_bytes: int, max_body_bytes: int) -> None:
        """`max_bytes` bounds the memory of kept answers; a body over `max_body_bytes` is left to the application, which
        refuses it."""
        self._app = app
        self._kept: TTLCache[Place, KeptAnswer] = TTLCache(max_bytes, ttl_s, getsizeof=lambda kept: kept.size)
        self._running: dict[Place, _Running] = {}
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" and scope["method"] == "POST" else None
        if key is None:
            await self._app(scope, receive, send)
            return
        _refuse_bad_key(key)
        if self._kept.ttl == 0:
            raise UnsupportedParameter(
                f"This service keeps no answers for an {HEADER}.",
                value=HEADER,
                remedy="Leave the header out, or raise idempotency_ttl_s.",
            )
        body = await _Body.read(receive, self._max_body_bytes)
        if not body.is_complete:
            await self._app(scope, body.receive, send)
            return
        await self._answer((caller_of(scope).name, key), body, scope, send)

    async def _answer(self, place: Place, body: _Body, scope: Scope, send: Send) -> None:
        fingerprint = body.fingerprint(scope)
        while (running := self._running.get(place)) is not None:
            _refuse_other_request(place, running.fingerprint, fingerprint)
            await running.ended.wait()
        if (kept := self._kept.get(place)) is not None:
            _refuse_other_request(place, kept.fingerprint, fingerprint)
            await _replay(kept, send)
            return
        await self._record(place, fingerprint, body, scope, send)

    async def _record(self, place: Place, fingerprint: bytes, body: _Body, scope: Scope, send: Send) -> None:
        """Answer for the first time, and keep the answer if it is one to keep."""
        running = self._running[place] = _Running(fingerprint)
        recorder = _Recorder(send, int(self._kept.maxsize))
        try:
            await self._app(scope, body.receive, recorder.send)
            kept = recorder.answer(fingerprint)
            if kept is not None and kept.size <= self._kept.maxsize:
                self._kept[place] = kept
        finally:
            del self._running[place]
            running.ended.set()


class _Body:
    """A body that was read ahead, and the rest of the connection."""

    def __init__(self, receive: Receive) -> None:
        self.is_complete = False
        self._messages: list[Message] = []
        self._receive = receive

    @classmethod
    async def read(cls, receive: Receive, max_bytes: int) -> _Body:
        """Read until the body is complete, too large, or its client gone."""
        body, n_bytes = cls(receive), 0
        while not body.is_complete and n_bytes <= max_bytes:
            message = await receive()
            body._messages.append(message)
            if message["type"] != "http.request":
                break
            n_bytes += len(message.get("body", b""))
            body.is_complete = not message.get("more_body", False)
        return body

    def fingerprint(self, scope: Scope) -> bytes:
        """A hash of what was asked: path, query and body."""
        digest = sha256(b"\0".join((scope["path"].encode("utf-8", "surrogateescape"), scope["query_string"], b"")))
        for message in self._messages:
            digest.update(message.get("body", b""))
        return digest.digest()

    async def receive(self) -> Message:
        """What was read, then what comes."""
        return self._messages.pop(0) if self._messages else await self._receive()


class _Recorder:
    """Sends an answer on and remembers it, up to a size."""

    def __init__(self, send: Send, max_bytes: int) -> None:
        self._send = send
        self._max_bytes = max_bytes
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._n_bytes = 0
        self._is_complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # Layers further out add headers of their own to the message, which are not to be kept.
            self._start = {**message, "headers": list(message.get("headers", []))}
        else:
            self._remember(message.get("body", b""))
        await self._send(message)
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    def answer(self, fingerprint: bytes) -> KeptAnswer | None:
        """The whole answer; None where it is not one to keep."""
        if self._start is None or not self._is_complete or self._n_bytes > self._max_bytes or _has_passing_error():
            return None
        if self._start["status"] in PASSING or self._start["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
        return KeptAnswer(fingerprint, self._start, b"".join(self._chunks))

    def _remember(self, chunk: bytes) -> None:
        self._n_bytes += len(chunk)
        if self._n_bytes <= self._max_bytes:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()


def _has_passing_error() -> bool:
    """Whether this call met an error that may be over the next time; a stream has status 200 all the same."""
    call = current_call()
    return call is not None and any(isinstance(error, ServiceError | ModelError) for error in call.errors)


async def _replay(kept: KeptAnswer, send: Send) -> None:
    headers = [*kept.start["headers"], (REPLAYED.lower().encode(), b"true")]
    await send({**kept.start, "headers": headers})
    await send({"type": "http.response.body", "body": kept.body, "more_body": False})


def _refuse_bad_key(key: str) -> None:
    if not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        raise InvalidField(
            f"{HEADER} must be 1 to {MAX_KEY_CHARS} printable ASCII characters.",
            value=key,
            limit=MAX_KEY_CHARS,
            remedy="Send a random identifier, for instance a UUID.",
        )


def _refuse_other_request(place: Place, known: bytes, fingerprint: bytes) -> None:
    if known != fingerprint:
        raise IdempotencyConflict(
            f"This {HEADER} was used for another request.",
            value=place[1],
            remedy="Use a new key for a new request.",
        )
