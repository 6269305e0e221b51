"""Bodies that an answer did not wait for: a refusal by key, path, method or media type comes before the body.

uvicorn goes on reading such a body to its end, whatever its length.  The outermost layer reads a bounded part of it
after the answer, because a client that is still sending when the connection is reset may not see the answer, and then
lets the connection close.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEPT_BYTES = 64 * 1024
"""With so little left of a body, the connection stays open for the next request: uvicorn reads the rest."""
LINGER_BYTES = 1024 * 1024
"""How much of a larger body is read and dropped after the answer."""
LINGER_S = 3.0
"""How long that may take."""


def declared_bytes(headers: Headers) -> float:
    """The length that a request declares for its body; infinite where it sends chunks until it ends."""
    if "transfer-encoding" in headers:
        return math.inf
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


class UnreadBodies:
    """Closes the connection where an answer leaves much of its request's body unread."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        n_left = declared_bytes(Headers(scope=scope))
        is_closing = False

        async def receive_counted() -> Message:
            nonlocal n_left
            message = await receive()
            n_left = n_left - len(message.get("body", b"")) if message.get("more_body", False) else 0
            return message

        async def send_on(message: Message) -> None:
            nonlocal is_closing
            if message["type"] == "http.response.start" and n_left > KEPT_BYTES:
                is_closing = True
                MutableHeaders(scope=message)["Connection"] = "close"
            if not is_closing or message["type"] != "http.response.body" or message.get("more_body", False):
                await send(message)
                return
            await send({**message, "more_body": True})  # the client has its whole answer; the connection stays
            n_read = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while n_left > 0 and n_read < LINGER_BYTES:
                        n_read += len((await receive_counted()).get("body", b""))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive_counted, send_on)
