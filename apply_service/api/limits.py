"""How much one caller, and all of them together, may ask at a time.

Three limits, each answered 429 with `Retry-After`: requests a minute of a key, requests at once of a key, and requests
at once of all.  They are checked before the body is read; the queue of the engine has a limit of its own (`service`).
Where a body turns out to hold several edits, its route has them counted (`count_edits`).
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
from starlette.types import ASGIApp, Receive, Scope, Send

from apply_service.api.auth import OPEN_PATHS, caller_of
from apply_service.api.calls import current_call
from apply_service.api.errors import RETRY_AFTER_S
from apply_service.api.keys import Key
from apply_service.errors import Overloaded, RateLimited
from apply_service.settings import Settings

UNLIMITED_PATHS = OPEN_PATHS | {"/metrics"}
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
"""Requests a minute, how many are left of them, and when (in seconds since 1970) the oldest one stops to count."""

COUNT = "apply_count"
"""Where the function that counts more of this request stands in the state of the scope."""


class LimitMiddleware:
    """Raises RateLimited or Overloaded; otherwise says in headers how much is left."""

    def __init__(self, app: ASGIApp, *, settings: Settings, methods: frozenset[str] | None = None) -> None:
        """`methods`: what counts; None: whatever the method is."""
        self._app = app
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
            await self._app(scope, receive, send)

    def _counts(self, method: str) -> bool:
        return self._methods is None or method in self._methods

    @contextlib.contextmanager
    def _place(self, key: Key) -> Iterator[None]:
        limit = key.concurrency_limit or self._settings.concurrency_limit
        if self._n_in_flight >= self._settings.in_flight_limit:
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
