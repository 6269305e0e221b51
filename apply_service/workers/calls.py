"""Work that asks no target, done in a worker process while an event loop waits: chats that are read, and patches over
many files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from apply_service.workers.messages import Ask, Question
from apply_service.workers.outcome import value_of
from apply_service.workers.pool import Errand, WorkerPool

T = TypeVar("T")


async def call_in_worker(
    call: Callable[[], T], pool: WorkerPool, *, is_heavy: bool = False, limit_s: float | None = None
) -> T:
    """What `call` returns; it can be sent to another process.  Where this is cancelled, or takes longer than the limit,
    the process is killed.

    Raises:
        ApplyError: what the call raises; EngineFailure where it crashed, NotReady where the pool is closed.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: Errand) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    errand = pool.start(partial(_without_target, call), is_heavy=is_heavy, limit_s=limit_s, on_news=wake)
    try:
        await done.wait()
        end = errand.take()
    finally:
        errand.stop()
    assert not isinstance(end, Question), "the call has nobody to ask"
    return cast(T, value_of(end))


def _without_target(call: Callable[[], T], ask: Ask) -> T:  # noqa: ARG001
    return call()
