"""Worker processes for pure work that would hold up the engine thread.

A process starts when it is first needed, and is used again.  A call has a time limit, and cancelling its future kills
its process.  The standard library's process pool can do neither, and breaks as a whole when one process dies.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple

from apply_service.errors import ApplyError, DeadlineExceeded, EngineFailure, NotReady
from apply_service.registry import CHECKS, EDIT_FORMATS

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

HEAVY_BYTES = 1_000_000
"""A process that was sent more than this is not used again, because it holds hundreds of megabytes."""
NICENESS = 5
"""Added to the priority of workers (`os.nice`), so that the engine and the event loop come first."""
PRELOADED = ("apply_service.pipeline", "apply_service.api.app")
"""Imported beside formats and checks.  The last one parses bodies; importing it takes 0.3 s."""

log = logging.getLogger(__name__)


class End(NamedTuple):
    """How a call ended: with a value, an ApplyError, or a crash.  Of a crash it has the exception's class and trace but
    no message, which may quote code."""

    value: Any = None
    error: ApplyError | None = None
    crash: str = ""
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> End:
        if isinstance(error, ApplyError):
            return cls(error=error)
        return cls(crash=type(error).__name__, trace="".join(traceback.format_tb(error.__traceback__)))


def serve(line: Connection[Any, Any]) -> None:
    """The loop of a worker: make the calls that come over the line and send back the `End` of each.  It ends with the
    line.  A None instead of a call asks whether the process is alive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the service ends its workers itself
    if sys.platform != "win32":
        os.nice(NICENESS)
    while True:
        try:
            payload = line.recv_bytes()
            try:
                call, processor_s = ForkingPickler.loads(payload)
                limit_processor(processor_s)
                end = End(None if call is None else call())
                limit_processor(None)
            except BaseException as error:  # also a panic in native code
                end = End.of(error)
            try:
                answer = ForkingPickler.dumps(end)
            except Exception as error:  # the value can't be pickled
                answer = ForkingPickler.dumps(End.of(error))
            line.send_bytes(answer)
        except (EOFError, OSError):
            return


def limit_processor(seconds: float | None) -> None:
    """Let the system end this process after so much more processor time; None: never.  Windows can't."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)


class Worker:
    """A process, and the line to it."""

    def __init__(self) -> None:
        context = _context()
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), name="apply-worker", daemon=True)
        self._process.start()
        theirs.close()  # so that the line ends with the process
        self.pid = self._process.pid
        self.kill = self._process.kill

    def do(self, payload: bytes, limit_s: float | None = None) -> End:
        """Make a pickled call.  Raises EOFError, OSError: the process is gone; TimeoutError: it takes too long."""
        self._line.send_bytes(payload)
        if not self._line.poll(limit_s):
            raise TimeoutError
        end: End = self._line.recv()
        return end

    def is_alive(self) -> bool:
        """Whether the process answers; it may have died since its last call."""
        try:
            self.do(ALIVE)
        except (EOFError, OSError):
            return False
        return True

    def dispose(self) -> int | None:
        """Kill the process, close the line and return the exit code.  Only the thread that uses the line may call
        this.  A second call does nothing more."""
        self.kill()
        self._process.join()
        self._line.close()
        return self._process.exitcode


ALIVE = bytes(ForkingPickler.dumps((None, None)))


class Job(Future[Any]):
    """One call in a worker process.  `result` raises the call's ApplyError, DeadlineExceeded if it took longer than
    `limit_s` or more processor time than `processor_s`, and EngineFailure if it crashed.  `cancel` works at any time
    before the end and kills the process."""

    def __init__(self, call: Callable[[], Any], limit_s: float | None, processor_s: float | None) -> None:
        super().__init__()
        self.call = call
        self.limit_s = limit_s
        self.processor_s = processor_s
        if sys.platform == "win32" and processor_s is not None:
            self.limit_s = processor_s if limit_s is None else min(limit_s, processor_s)
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def cancel(self) -> bool:
        if is_cancelled := super().cancel():
            self._kill()
        return is_cancelled

    def hold(self, worker: Worker | None) -> bool:
        """Set the worker to kill if the job is cancelled.  Returns whether the result is still wanted."""
        with self._lock:
            self._worker = None if self.done() else worker
            return not self.done()

    def fail(self, error: ApplyError) -> None:
        """End the job with an error, and kill its process."""
        with contextlib.suppress(InvalidStateError):
            self.set_exception(error)
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.kill()


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
        """The process ids of idle workers."""
        with self._lock:
            return [worker.pid for worker in self._idle]

    def submit(self, call: Callable[[], Any], limit_s: float | None = None, *, processor_s: float | None = None) -> Job:
        """Make a call, which must be picklable, as soon as a process is free.  `limit_s` counts from its beginning;
        `processor_s` counts processor time, which a busy machine does not add to.  Raises NotReady: the pool is
        closed."""
        job = Job(call, limit_s, processor_s)
        with self._lock:
            if self._is_closed:
                raise closing_error()
            self._jobs.add(job)
            self._threads.submit(self._carry, job)
        return job

    def close(self) -> None:
        """End all calls with NotReady, and all processes.  A second call does nothing."""
        with self._lock:
            self._is_closed = True
            jobs, idle, self._idle = [*self._jobs], self._idle, []
        for job in jobs:
            job.fail(closing_error())
        for worker in idle:
            worker.dispose()
        self._threads.shutdown(cancel_futures=True)

    def _carry(self, job: Job) -> None:
        """Run one job, on a thread of the pool."""
        try:
            end = End() if job.done() else self._do(job)
        except BaseException as error:  # no process can start, or the call can't be pickled
            end = End.of(error)
        with self._lock:
            self._jobs.discard(job)
        if job.done():
            return  # it was cancelled, and its process killed
        failure = end.error
        if end.crash:
            log.error("worker crashed: %s\n%s", end.crash, end.trace)
            failure = EngineFailure(
                f"the process that worked on this request failed ({end.crash})",
                value=end.crash,
                remedy="see the service's log; other requests go on",
            )
        with contextlib.suppress(InvalidStateError):  # it has been cancelled in the meantime
            job.set_result(end.value) if failure is None else job.set_exception(failure)

    def _do(self, job: Job) -> End:
        payload = bytes(ForkingPickler.dumps((job.call, job.processor_s)))
        while True:  # an idle process that still answers, or a new one
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None or idle.is_alive():
                break
            idle.dispose()
        worker, is_kept = idle or Worker(), False
        try:
            if not job.hold(worker):
                is_kept = True
                return End()
            end = worker.do(payload, job.limit_s)
            is_kept = len(payload) < HEAVY_BYTES
            return end
        except TimeoutError:
            return End(error=slow_error(job.limit_s))
        except (EOFError, OSError):
            code = worker.dispose()
            if sys.platform != "win32" and code == -signal.SIGPROF:
                return End(error=slow_error(job.processor_s))
            return End(crash=f"process ended with code {code}")
        finally:
            job.hold(None)  # from here on, cancelling the job must not kill the process
            with self._lock:
                is_kept = is_kept and not self._is_closed
                self._idle += [worker] * is_kept
            if not is_kept:
                worker.dispose()


@cache
def _context() -> ForkServerContext | SpawnContext:
    """How processes start: forked from one that has imported our modules and does nothing else.  A fork of this process
    would copy the engine's locks in any state."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    named = (name.partition(":")[0] for name in (*EDIT_FORMATS.values(), *CHECKS.values()))
    context.set_forkserver_preload([__name__, *PRELOADED, *named])
    if sys.platform != "win32":
        # Ctrl-C reaches the whole group, also a process that still starts.  A new process takes over what is blocked;
        # the tracker goes first because starting it unblocks the signal.
        from multiprocessing import forkserver, resource_tracker

        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def slow_error(limit_s: float | None) -> DeadlineExceeded:
    remedy = "send a smaller or a plainer edit, or as search/replace blocks"
    return DeadlineExceeded("reading the edit takes too long", value=limit_s, limit=limit_s, remedy=remedy)


def closing_error() -> NotReady:
    return NotReady("the service is shutting down", remedy="send the request again when it is back")
