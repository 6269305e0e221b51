"""`Idempotency-Key`: a request that is sent again gets the answer it got before, and its edit is not made again.

The same key with the same request (path and body) is answered from memory, byte for byte, streams included.  The same
key with another request is refused.  While the first request is in progress, the second waits for it.  An answer is
kept if a retry would get the same: results, and errors caused by the request.  Overload, deadlines, crashes and answers
that the client did not wait for are not kept; the next request with the key runs again.  Each caller has its own keys.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import NamedTuple

from cachetools import TTLCache
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.calls import this_call
from apply_service.errors import IdempotencyConflict, InvalidField, ModelError, ServiceError, UnsupportedParameter
from apply_service.settings import Settings

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY_CHARS = 255
SIZE_OF_ENTRY = 1024
"""Approximate bytes of an entry without its body."""
PASSING = frozenset({401, 403, 408, 429, 499})
"""Statuses of errors that a retry may not meet again, like all from 500 on."""

Place = tuple[str, str]
"""The caller's name and the key."""


class KeptAnswer(NamedTuple):
    fingerprint: bytes
    start: Message
    body: bytes


class IdempotencyMiddleware:
    """Raises IdempotencyConflict if a key returns with another request, UnsupportedParameter if no answers are kept."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._max_bytes = settings.idempotency_bytes
        self._max_body_bytes = settings.max_body_bytes
        self._kept: TTLCache[Place, KeptAnswer] = TTLCache(
            self._max_bytes, settings.idempotency_ttl_s, getsizeof=lambda kept: SIZE_OF_ENTRY + len(kept.body)
        )
        self._running: dict[Place, tuple[bytes, asyncio.Event]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" and scope["method"] == "POST" else None
        if key is None:
            await self._app(scope, receive, send)
            return
        if not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
            message = f"{HEADER} must be 1 to {MAX_KEY_CHARS} printable ASCII characters"
            raise InvalidField(message, value=key, limit=MAX_KEY_CHARS, remedy="send a random one, for instance a UUID")
        if self._kept.ttl == 0:
            remedy = "leave the header out, or raise idempotency_ttl_s"
            raise UnsupportedParameter(f"this service keeps no answers for an {HEADER}", value=HEADER, remedy=remedy)
        messages, is_complete = await self._read_ahead(receive)
        asked = sha256(b"\0".join((scope["path"].encode("utf-8", "surrogateescape"), scope["query_string"], b"")))
        for part in messages:
            asked.update(part.get("body", b""))

        async def receive_again() -> Message:
            return messages.pop(0) if messages else await receive()

        if is_complete:
            await self._answer((this_call().key.name, key), asked.digest(), scope, receive_again, send)
        else:  # too large, or its client is gone: the application refuses it
            await self._app(scope, receive_again, send)

    async def _read_ahead(self, receive: Receive) -> tuple[list[Message], bool]:
        """The messages of the body received so far, and whether the body is complete."""
        messages, n_bytes = [await receive()], 0
        while messages[-1]["type"] == "http.request":
            n_bytes += len(messages[-1].get("body", b""))
            if not messages[-1].get("more_body", False):
                return messages, True
            if n_bytes > self._max_body_bytes:
                break
            messages.append(await receive())
        return messages, False

    async def _answer(self, place: Place, fingerprint: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        while (running := self._running.get(place)) is not None:
            _refuse_other_request(place, running[0], fingerprint)
            await running[1].wait()
        if (kept := self._kept.get(place)) is not None:
            _refuse_other_request(place, kept.fingerprint, fingerprint)
            await send({**kept.start, "headers": [*kept.start["headers"], (REPLAYED.lower().encode(), b"true")]})
            await send({"type": "http.response.body", "body": kept.body, "more_body": False})
            return
        start: Message = {}
        body, is_complete = bytearray(), False

        async def record(message: Message) -> None:
            nonlocal start, is_complete
            if message["type"] == "http.response.start":
                # Copied, because outer middleware adds its own headers to the message; these must not be kept.
                start = {**message, "headers": list(message.get("headers", []))}
            elif len(body) <= self._max_bytes:
                body.extend(message.get("body", b""))
            await send(message)
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        ended = asyncio.Event()
        self._running[place] = (fingerprint, ended)
        try:
            await self._app(scope, receive, record)
            # A stream has status 200 even if it ends in an error.
            is_passing = any(isinstance(error, ServiceError | ModelError) for error in this_call().errors)
            is_lasting = is_complete and not is_passing and start["status"] < 500 and start["status"] not in PASSING
            if is_lasting and SIZE_OF_ENTRY + len(body) <= self._max_bytes:
                self._kept[place] = KeptAnswer(fingerprint, start, bytes(body))
        finally:
            del self._running[place]
            ended.set()


def _refuse_other_request(place: Place, known: bytes, fingerprint: bytes) -> None:
    if known != fingerprint:
        message, remedy = f"this {HEADER} was used for another request", "use a new key for a new request"
        raise IdempotencyConflict(message, value=place[1], remedy=remedy)
