"""Lends worker processes: started when first needed, used again, and killed where nobody waits for their work any more.

The standard library's process pool breaks as a whole when one of its processes dies, and can't end a call that runs;
here a call has a time limit, and to cancel its future kills its process.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from functools import cache
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from apply_service.errors import ApplyError, DeadlineExceeded, EngineFailure, NotReady
from apply_service.registry import CHECKS, EDIT_FORMATS
from apply_service.workers.process import Crash, End, serve

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

HEAVY_BYTES = 1_000_000
"""A process that was sent more than this is not kept: it holds hundreds of megabytes that nobody may need again."""
PRELOADED = ("apply_service.workers.process", "apply_service.pipeline", "apply_service.api.app")
"""Beside formats and checks.  The last one parses bodies: without it each new process spends 0.3 s on imports."""
DIED = "process ended with code {}"

log = logging.getLogger(__name__)


class Job(Future[Any]):
    """One call in a worker process.  `result` raises the call's ApplyError, DeadlineExceeded where it took longer than
    `limit_s`, and EngineFailure where it crashed.  `cancel` works at any time before the end; it kills the process."""

    def __init__(self, call: Callable[[], Any], limit_s: float | None) -> None:
        super().__init__()
        self.call = call
        self.limit_s = limit_s
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def cancel(self) -> bool:
        is_cancelled = super().cancel()
        if is_cancelled:
            self.kill()
        return is_cancelled

    # -- for the pool ----------------------------------------------------------------------------------------------
    def begin(self, worker: Worker) -> bool:
        """Whether the call is still wanted; from now on `kill` kills this worker."""
        with self._lock:
            if not self.done():
                self._worker = worker
            return not self.done()

    def release(self) -> None:
        """The process is free for others."""
        with self._lock:
            self._worker = None

    def kill(self) -> None:
        """Kill the process that works on it, if one does."""
        with self._lock:
            if self._worker is not None:
                self._worker.kill()

    def end(self, value: Any = None, error: ApplyError | None = None) -> None:
        """Set the result; the first end counts."""
        with contextlib.suppress(InvalidStateError):
            self.set_result(value) if error is None else self.set_exception(error)


class Worker:
    """A process, and the line to it."""

    def __init__(self) -> None:
        context = _context()
        self.line, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), name="apply-worker", daemon=True)
        self._process.start()
        theirs.close()  # so that its end is the end of the line

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def answers(self) -> bool:
        """Whether the process is there: it may have died since its last call, and not be missed yet."""
        try:
            self.line.send(None)
            self.line.recv()
        except (EOFError, OSError):
            return False
        return True

    def do(self, payload: bytes, limit_s: float | None) -> End:
        """Make a pickled call.

        Raises:
            EOFError, OSError: the process is gone.
            TimeoutError: the call takes longer than the limit.
        """
        self.line.send_bytes(payload)
        if not self.line.poll(limit_s):
            raise TimeoutError
        end: End = self.line.recv()
        return end

    def kill(self) -> None:
        """End the process at once.  Any thread may; a second call does nothing."""
        self._process.kill()

    def dispose(self) -> int | None:
        """Kill it and hang up; its exit code.  For the thread that uses the line; a second call does nothing more."""
        self._process.kill()
        self._process.join()
        self.line.close()
        return self._process.exitcode


class WorkerPool:
    """At most `n_workers` processes.  Thread-safe.  Closing it kills them."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._threads = ThreadPoolExecutor(n_workers, thread_name_prefix="apply-worker")
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._jobs: set[Job] = set()
        self._is_closed = False

    @property
    def pids(self) -> list[int | None]:
        """Of the processes that wait for work."""
        with self._lock:
            return [worker.pid for worker in self._idle]

    def submit(self, call: Callable[[], Any], limit_s: float | None = None) -> Job:
        """Have a call made as soon as a process is free: a function of a module, with arguments that can be pickled.
        `limit_s` counts from when it begins.

        Raises:
            NotReady: the pool is closed.
        """
        job = Job(call, limit_s)
        with self._lock:
            if self._is_closed:
                raise _closed_error()
            self._jobs.add(job)
            self._threads.submit(self._carry, job)
        return job

    def close(self) -> None:
        """End every call in NotReady.  A second call does nothing."""
        with self._lock:
            self._is_closed = True
            jobs, idle, self._idle = [*self._jobs], self._idle, []
        for job in jobs:
            job.end(error=_closed_error())
            job.kill()
        for worker in idle:
            worker.dispose()
        self._threads.shutdown(cancel_futures=True)

    def _carry(self, job: Job) -> None:
        """One job from beginning to end, on a thread of the pool."""
        try:
            end = End() if job.done() else self._do(job)
        except BaseException as error:  # no process can be started, or the call can't be sent
            end = End(error=Crash.of(error))
        with self._lock:
            self._jobs.discard(job)
        if not job.done():
            job.end(end.value, crash_failure(end.error) if isinstance(end.error, Crash) else end.error)

    def _do(self, job: Job) -> End:
        payload = bytes(ForkingPickler.dumps(job.call))
        worker, is_kept = self._lend(), False
        try:
            if not job.begin(worker):
                is_kept = True
                return End()
            end = worker.do(payload, job.limit_s)
            is_kept = len(payload) < HEAVY_BYTES
            return end
        except TimeoutError:
            return End(error=too_long_error(job.limit_s))
        except (EOFError, OSError):
            return End(error=Crash(DIED.format(worker.dispose())))
        finally:
            job.release()  # before anybody learns of the end, who might kill the process then
            self._take_back(worker, is_kept=is_kept)

    def _lend(self) -> Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return Worker()
            if worker.answers():
                return worker
            worker.dispose()

    def _take_back(self, worker: Worker, *, is_kept: bool) -> None:
        """Keep the worker for the next job, or end it."""
        with self._lock:
            is_kept = is_kept and not self._is_closed
            if is_kept:
                self._idle.append(worker)
        if not is_kept:
            worker.dispose()


@cache
def _context() -> ForkServerContext | SpawnContext:
    """Processes are forked from one that has read our modules and does nothing else: a fork of this one would copy the
    engine's threads in whatever state."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    named = (name.partition(":")[0] for name in (*EDIT_FORMATS.values(), *CHECKS.values()))
    context.set_forkserver_preload([*PRELOADED, *named])
    return context


def crash_failure(crash: Crash) -> EngineFailure:
    """A crash of a worker as an error of ours; logs where it came from."""
    log.error("worker crashed: %s\n%s", crash.kind, crash.trace)
    return EngineFailure(
        f"The process that worked on this request failed ({crash.kind}).",
        value=crash.kind,
        remedy="See the service's log; other requests go on.",
    )


def too_long_error(limit_s: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(
        "Reading the edit takes too long.",
        value=limit_s,
        limit=limit_s,
        remedy="Send a smaller or a plainer edit, or as search/replace blocks.",
    )


def _closed_error() -> NotReady:
    return NotReady("The service is shutting down.", remedy="Send the request again when it is back.")
