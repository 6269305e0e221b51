"""A body must arrive in time, or its request ends.

Without a bound, a client that sends a byte a minute would hold its place among the requests in progress.  Headers and
unread answers are bounded further down (`http_protocol`), the edit's own deadline is kept by its ticket.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.calls import current_call
from apply_service.errors import RequestTimeout


class TimeoutMiddleware:
    """Raises RequestTimeout where the body is late."""

    def __init__(self, app: ASGIApp, *, body_timeout_s: float) -> None:
        self._app = app
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            receive = _Body(receive, self._body_timeout_s).receive
        await self._app(scope, receive, send)


class _Body:
    """Hands on what comes in, with one deadline for the whole body and none for what follows it."""

    def __init__(self, receive: Receive, timeout_s: float) -> None:
        self._receive = receive
        self._timeout_s = timeout_s
        self._deadline = asyncio.get_running_loop().time() + timeout_s
        self._is_complete = False

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._late() from None
        self._is_complete = not message.get("more_body", False)
        return message

    def _late(self) -> RequestTimeout:
        if (call := current_call()) is not None:
            call.headers["Connection"] = "close"  # the rest of the body is not waited for
        return RequestTimeout(
            "The body did not arrive in time.",
            value=self._timeout_s,
            limit=self._timeout_s,
            remedy="Send it faster, or raise body_timeout_s.",
        )
