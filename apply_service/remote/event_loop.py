"""A thread with an event loop of its own: calls to servers run there while the engine's thread goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
JOIN_TIMEOUT_S = 5.0


class EventLoop:
    """Starts its thread on first use; stops it when it is closed, forgotten, or the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: Callable[[], object] = lambda: None

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` there.  Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def close(self) -> None:
        """Cancel what runs and end the thread.  A second call does nothing."""
        self._end()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(self._loop,), name="apply-remote", daemon=True)
                thread.start()
                self._end = weakref.finalize(self, _end, self._loop, thread)
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_all(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with contextlib.suppress(RuntimeError):  # it is closed already
        loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(JOIN_TIMEOUT_S)
