"""Limits requests: how many, how many at once, how many bytes, and how long a body may take.

Four limits are answered 429 with `Retry-After`: requests of a key per minute, requests of a key at once, all requests
at once, and the bytes of all their bodies.  All but the last are checked before the body is read.  No key can use up
the share of another.  A body that takes too long is answered 408, so slow clients can't hold their places.  `service`
limits the queues of edits, and a ticket keeps the edit's deadline.

Requests refused for their key, path, method or media type are answered before the body is read.  uvicorn would then
read the body to its end, whatever its length.  So the outermost layer reads only a bounded part of it and lets the
connection close.  That part is read because clients that are still sending might miss the answer if the connection were
reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from functools import partial

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.auth import OPEN_PATHS
from apply_service.api.calls import HttpCall, this_call
from apply_service.api.keys import Key
from apply_service.errors import Overloaded, RateLimited, RequestTimeout
from apply_service.serving.shares import has_room
from apply_service.settings import Settings

UNLIMITED_PATHS = OPEN_PATHS | {"/metrics"}
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
"""How many requests are allowed per minute, how many are left, and when the oldest stops counting (epoch seconds)."""
WINDOW_S = 60


class BodyBudget:
    """Counts the bytes received for all requests in progress, by key."""

    def __init__(self, settings: Settings) -> None:
        self._max_body_bytes = settings.max_body_bytes
        self.limit = max(settings.body_budget_bytes, settings.max_body_bytes)
        self._held: Counter[str] = Counter()

    @property
    def n_held(self) -> int:
        return self._held.total()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a body of the largest size."""
        return self.n_held + self._max_body_bytes > self.limit

    @contextlib.contextmanager
    def counted(self, key: str, receive: Receive) -> Iterator[Receive]:
        """Yield a `receive` that counts its bytes until the block ends.  It raises Overloaded if there is no room for
        them."""
        n_held = 0  # at most the largest body: `read_call` drops the rest

        async def receive_counted() -> Message:
            nonlocal n_held
            message = await receive()
            n_more = min(len(message.get("body", b"")), self._max_body_bytes - n_held)
            own, total, n_callers = self._held[key], self.n_held, len(self._held.keys() | {key})
            n_held += n_more
            self._held[key] += n_more
            if n_more and not has_room(n_more, own=own, total=total, limit=self.limit, n_callers=n_callers):
                why = "the requests in progress use all the memory allowed for request bodies"
                remedy = "wait a moment and send the request again, or raise body_budget_bytes"
                raise Overloaded(why, value=total, limit=self.limit, remedy=remedy)
            return message

        try:
            yield receive_counted
        finally:
            self._held[key] -= n_held
            self._held += Counter()  # removes keys with a count of 0


class LimitMiddleware:
    """Raises RateLimited, Overloaded or RequestTimeout; otherwise tells in headers how many requests are left."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        budget: BodyBudget | None = None,
        methods: frozenset[str] | None = None,
    ) -> None:
        """`budget`: shared with other apps.  `methods`: the HTTP methods that count; None for all."""
        self._app = app
        self._budget = budget or BodyBudget(settings)
        self._methods = methods
        self._settings = settings
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        receive = _in_time(receive, self._settings.body_timeout_s)
        if scope["path"] in UNLIMITED_PATHS or (self._methods is not None and scope["method"] not in self._methods):
            await self._app(scope, receive, send)
            return
        call = this_call()
        self._tell_rate(call)
        with self._place(call.key):
            self._count(call)
            call.count_edits = partial(self._count, call)
            with self._budget.counted(call.key.name, receive) as counted:
                await self._app(scope, counted, send)

    @contextlib.contextmanager
    def _place(self, key: Key) -> Iterator[None]:
        """Count the request as in progress, for its key and for all."""
        own, total, n_callers = self._in_flight[key.name], self._in_flight.total(), len({key.name, *self._in_flight})
        limit, of_all = key.concurrency_limit or self._settings.concurrency_limit, self._settings.in_flight_limit
        if not has_room(1, own=own, total=total, limit=of_all, n_callers=n_callers):
            raise _overloaded("the service has", total, of_all)
        if limit is not None and own >= limit:
            raise _overloaded("this API key has", own, limit)
        self._in_flight[key.name] += 1
        try:
            yield
        finally:
            self._in_flight[key.name] -= 1
            self._in_flight += Counter()  # removes keys with a count of 0

    def _count(self, call: HttpCall, n_edits: int = 1) -> None:
        """Count `n_edits` more requests of the key.  If fewer are left, raise RateLimited and count none."""
        limit = call.key.rate_limit or self._settings.rate_limit
        if limit is None:
            return
        times = self._last_minute(call.key)
        is_within = len(times) + n_edits <= limit
        if is_within:
            times.extend([time.monotonic()] * n_edits)
        left_s = self._tell_rate(call)
        if not is_within:
            wait_s = max(1, math.ceil(left_s))
            call.headers["Retry-After"] = str(wait_s)
            raise RateLimited(
                f"this API key may send {limit} edits a minute, and this request would exceed that",
                value=limit + 1 if n_edits == 1 else n_edits + 1,
                limit=f"{limit} a minute",
                remedy=f"send it again in {wait_s} s" if n_edits < limit else "send fewer edits in one batch",
            )

    def _last_minute(self, key: Key) -> deque[float]:
        """Return the times of the key's requests that still count, the oldest first, by the monotonic clock."""
        times, start = self._times[key.name], time.monotonic() - WINDOW_S
        while times and times[0] < start:
            times.popleft()
        return times

    def _tell_rate(self, call: HttpCall) -> float:
        """Write the key's rate into the headers, if the rate is limited.  Return for how many more seconds the key's
        oldest request counts."""
        limit = call.key.rate_limit or self._settings.rate_limit
        if limit is None:
            return 0.0
        times = self._last_minute(call.key)
        left_s = WINDOW_S - (time.monotonic() - times[0] if times else 0.0)
        reset = math.ceil(time.time() + left_s)
        call.headers.update(zip(RATE_HEADERS, map(str, (limit, max(0, limit - len(times)), reset)), strict=True))
        return left_s


def _overloaded(who: str, n_requests: int, limit: int) -> Overloaded:
    message = f"{who} as many requests in progress as it may"
    remedy = "wait until one of them is answered, then try again"
    return Overloaded(message, value=n_requests, limit=limit, remedy=remedy)


def _in_time(receive: Receive, timeout_s: float) -> Receive:
    """Return a `receive` with a deadline for the whole body.  It raises RequestTimeout after the deadline."""
    deadline: float | None = asyncio.get_running_loop().time() + timeout_s

    async def receive_in_time() -> Message:
        nonlocal deadline
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            this_call().headers["Connection"] = "close"  # nobody waits for the rest of the body
            why = f"the request body did not arrive within {timeout_s:g} seconds"
            remedy = "check the connection and send the request again, or raise body_timeout_s"
            raise RequestTimeout(why, value=timeout_s, limit=timeout_s, remedy=remedy) from None
        if not message.get("more_body", False):
            deadline = None
        return message

    return receive_in_time


# -- bodies that were not read before the answer -----------------------------------------------------------------------
KEPT_BYTES = 64 * 1024
"""If at most this much of a body is left, uvicorn reads the rest and the connection stays open for the next request."""
LINGER_BYTES = 1024 * 1024
"""How much of a larger body is read and dropped after the answer."""
LINGER_S = 3.0
"""How long reading the rest of a larger body may take, in seconds."""


def declared_bytes(headers: Headers) -> float:
    """Return the length that a request declares for its body; infinite if it is sent in chunks."""
    if "transfer-encoding" in headers:
        return math.inf
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


class UnreadBodies:
    """Closes the connection if an answer leaves much of its request's body unread."""

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
            await send({**message, "more_body": True})  # the client now has its answer; the end comes below
            n_read = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while n_left > 0 and n_read < LINGER_BYTES:
                        n_read += len((await receive_counted()).get("body", b""))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive_counted, send_on)
