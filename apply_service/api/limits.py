"""How much one caller, and all of them together, may ask at a time.

Four limits, each answered 429 with `Retry-After`: requests a minute of a key, requests at once of a key, requests at
once of all, and the bytes of all their bodies.  All but the last are checked before the body is read; of the two that
are for all, no key can use up the share of another.  The queues of edits have limits of their own (`service`).  Where a
body turns out to hold several edits, its route has them counted (`count_edits`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apply_service.api.auth import OPEN_PATHS, caller_of
from apply_service.api.calls import current_call
from apply_service.api.errors import RETRY_AFTER_S
from apply_service.api.keys import Key
from apply_service.errors import Overloaded, RateLimited
from apply_service.settings import Settings
from apply_service.shares import has_room

UNLIMITED_PATHS = OPEN_PATHS | {"/metrics"}
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
"""Requests a minute, how many are left of them, and when (in seconds since 1970) the oldest one stops to count."""

COUNT = "apply_count"
"""Where the function that counts more of this request stands in the state of the scope."""


class BodyBudget:
    """The bytes of the bodies of all requests in progress, by key: what was sent of them, until they are answered."""

    def __init__(self, settings: Settings) -> None:
        self._max_body_bytes = settings.max_body_bytes
        self._limit = max(settings.body_budget_bytes, settings.max_body_bytes)
        self._held: Counter[str] = Counter()

    @property
    def n_held(self) -> int:
        return self._held.total()

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def is_full(self) -> bool:
        """Whether a body of the largest size would find no room."""
        return self.n_held + self._max_body_bytes > self._limit

    @contextlib.contextmanager
    def counted(self, key: str, receive: Receive) -> Iterator[Receive]:
        """`receive`, with what it gives counted until the end of the block.  It raises Overloaded."""
        n_bytes = 0

        async def receive_counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            before, n_bytes = n_bytes, n_bytes + len(message.get("body", b""))
            # What exceeds the largest body is thrown away where it is read.
            self._add(key, min(n_bytes, self._max_body_bytes) - min(before, self._max_body_bytes))
            return message

        try:
            yield receive_counted
        finally:
            self._held[key] -= min(n_bytes, self._max_body_bytes)
            self._held += Counter()  # keys that hold nothing are no callers

    def _add(self, key: str, n_more: int) -> None:
        own, total, n_callers = self._held[key], self.n_held, len(self._held.keys() | {key})
        self._held[key] += n_more
        if n_more and not has_room(n_more, own=own, total=total, limit=self._limit, n_callers=n_callers):
            _say({"Retry-After": RETRY_AFTER_S})
            raise Overloaded(
                "The bodies of requests in progress take all the memory that they may.",
                value=total,
                limit=self._limit,
                remedy="Wait a moment and send the request again, or raise body_budget_bytes.",
            )


class LimitMiddleware:
    """Raises RateLimited or Overloaded; otherwise says in headers how much is left."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        budget: BodyBudget | None = None,
        methods: frozenset[str] | None = None,
    ) -> None:
        """`budget`: one that others look at.  `methods`: what counts; None: whatever the method is."""
        self._app = app
        self._budget = BodyBudget(settings) if budget is None else budget
        self._methods = methods
        self._settings = settings
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._in_flight: Counter[str] = Counter()
        self._n_in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS or not self._counts(scope["method"]):
            await self._app(scope, receive, send)
            return
        key = caller_of(scope)
        with self._place(key):
            self._count(key)
            scope.setdefault("state", {})[COUNT] = partial(self._count, key)
            with self._budget.counted(key.name, receive) as counted:
                await self._app(scope, counted, send)

    def _counts(self, method: str) -> bool:
        return self._methods is None or method in self._methods

    @contextlib.contextmanager
    def _place(self, key: Key) -> Iterator[None]:
        limit = key.concurrency_limit or self._settings.concurrency_limit
        own, n_callers = self._in_flight[key.name], len(self._in_flight.keys() | {key.name})
        in_flight_limit = self._settings.in_flight_limit
        if not has_room(1, own=own, total=self._n_in_flight, limit=in_flight_limit, n_callers=n_callers):
            self._tell_rate(key)
            raise _overloaded("The service has", self._n_in_flight, self._settings.in_flight_limit)
        if limit is not None and self._in_flight[key.name] >= limit:
            self._tell_rate(key)
            raise _overloaded("This API key has", self._in_flight[key.name], limit)
        self._in_flight[key.name] += 1
        self._n_in_flight += 1
        try:
            yield
        finally:
            self._in_flight[key.name] -= 1
            self._in_flight += Counter()  # keys without a request are no callers
            self._n_in_flight -= 1

    def _count(self, key: Key, n_more: int = 1) -> None:
        limit = key.rate_limit or self._settings.rate_limit
        if limit is None:
            return
        is_within = self._limiter.hit(RateLimitItemPerMinute(limit), key.name, cost=n_more)
        reset_s = self._tell_rate(key)
        if not is_within:
            wait_s = max(1, math.ceil(reset_s - time.time()))
            _say({"Retry-After": wait_s})
            raise RateLimited(
                "This API key has sent its requests of this minute.",
                value=limit + 1 if n_more == 1 else n_more + 1,
                limit=f"{limit} a minute",
                remedy=f"Send it again in {wait_s} s." if n_more < limit else "Send fewer edits at once.",
            )

    def _tell_rate(self, key: Key) -> float:
        """Put the key's rate into the headers, where it has one; when the oldest request stops to count."""
        limit = key.rate_limit or self._settings.rate_limit
        if limit is None:
            return 0.0
        reset_s, n_left = self._limiter.get_window_stats(RateLimitItemPerMinute(limit), key.name)
        _say(dict(zip(RATE_HEADERS, (limit, n_left, math.ceil(reset_s)), strict=True)))
        return reset_s


def count_edits(scope: Scope, n_edits: int) -> None:
    """Count every edit of a request as one of its key's requests a minute; its first one counts already.

    Raises:
        RateLimited: so many are not left; none of them counts then.
    """
    count: Callable[[int], None] | None = scope.get("state", {}).get(COUNT)
    if count is not None and n_edits > 1:
        count(n_edits - 1)


def _overloaded(who: str, value: int, limit: int) -> Overloaded:
    _say({"Retry-After": RETRY_AFTER_S})
    return Overloaded(
        f"{who} as many requests in progress as are allowed.",
        value=value,
        limit=limit,
        remedy="Wait for an answer and send the request again.",
    )


def _say(headers: dict[str, int]) -> None:
    """Have the response carry the headers."""
    if (call := current_call()) is not None:
        call.headers.update({name: str(value) for name, value in headers.items()})
