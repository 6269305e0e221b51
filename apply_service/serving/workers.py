"""Runs pure (side-effect-free) work in worker processes, because it would hold up the engine thread.

A process starts when it is first needed, and is used again.  A call has a time limit, and cancelling its future kills
its process.  The standard library's process pool can do neither, and breaks as a whole when one process dies.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from apply_service.errors import REPORT_LOG, ApplyError, DeadlineExceeded, EngineFailure, NotReady
from apply_service.isolation import clean_environment, python_command
from apply_service.serving import template
from apply_service.serving.child import End
from apply_service.serving.template import Fork

HEAVY_BYTES = 1_000_000
"""A process that was sent this much is not used again, because it keeps hundreds of megabytes."""
ALIVE_LIMIT_S = 1.0
"""How long an idle process may take to say that it is alive."""
SILENCE_LIMIT_S = 10.0
"""How long a process may pause in the middle of receiving or sending a message."""
CAN_FORK = hasattr(os, "fork")
WAIT_LIMIT_S = 2.0
"""If a new process takes longer than this to start, the pool counts as having no process available."""

log = logging.getLogger(__name__)


class Worker:
    """A process, and the connection to it."""

    def __init__(self, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Start the process.  Raises OSError or template.TemplateGone.  TemplateGone is also raised soon after
        `is_wanted` returns False."""
        self._lock = threading.Lock()
        self._is_disposed = False
        self._own_end, theirs = socket.socketpair()
        with theirs:
            try:
                if sys.platform != "win32":
                    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
                        self._own_end.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(SILENCE_LIMIT_S), 0))
                self._process: Fork | Spawned = template.fork(theirs, is_wanted) if CAN_FORK else Spawned(theirs)
            except BaseException:
                self._own_end.close()
                raise
        self._line = Connection(self._own_end.dup().detach())
        self.pid = self._process.pid

    def kill(self) -> None:
        """Kill the process unless it has ended, because its pid may then belong to another process.  Any thread may
        call this."""
        with self._lock:
            if not self._is_disposed and not self._has_ended():
                self._process.kill()

    def _has_ended(self) -> bool:
        """Tell whether the other end of the connection is closed."""
        if sys.platform == "win32":  # there a process keeps its pid until we let go of it
            return False
        try:
            return not self._own_end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def do(self, payload: bytes, limit_s: float | None = None) -> End:
        """Make a pickled call.  Raises EOFError or OSError if the process is gone, and TimeoutError if the call takes
        too long."""
        self._line.send_bytes(payload)
        if not self._line.poll(limit_s):
            raise TimeoutError
        end: End = self._line.recv()
        return end

    def is_alive(self) -> bool:
        """Tell whether the process answers; it may have died or been stopped since its last call."""
        try:
            self.do(ALIVE, ALIVE_LIMIT_S)
        except (EOFError, OSError):
            return False
        return True

    def dispose(self, limit_s: float = template.END_LIMIT_S) -> int | None:
        """Kill the process, close the connection and return the exit code; None if it can't be learnt in time.  Only
        the thread that uses the connection may call this.  A second call does nothing."""
        self.kill()
        with self._lock:
            if self._is_disposed:
                return None
            self._is_disposed = True
        self._line.close()
        self._own_end.close()
        return self._process.end(limit_s)


ALIVE = bytes(ForkingPickler.dumps((None, None)))


class Job(Future[Any]):
    """One call in a worker process.  `cancel` works at any time before the end and kills the process.

    `result` raises the call's ApplyError, DeadlineExceeded if the call took longer than `limit_s` or more processor
    time than `processor_s`, and EngineFailure if the call crashed.
    """

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
        """Record which worker to kill if the job is cancelled.  Return whether the result is still wanted."""
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
        self._starting: list[float] = []
        """For each process that was asked for but has not started yet, the time of the request."""
        self._has_failed = False
        """Whether the last process that was asked for failed to start."""
        self._is_closed = False

    @property
    def pids(self) -> list[int | None]:
        """The process ids of idle workers."""
        with self._lock:
            return [worker.pid for worker in self._idle]

    @property
    def has_workers(self) -> bool:
        """Whether a call would find a process.  If not, reading this property also makes the pool try to start a
        process."""
        with self._lock:
            is_slow = any(time.monotonic() - since > WAIT_LIMIT_S for since in self._starting)
            is_trying = bool(self._jobs)
            if not self._has_failed and not is_slow:
                return True
        if not is_trying:
            with contextlib.suppress(NotReady):
                self.submit(os.getpid)
        return False

    def submit(self, call: Callable[[], Any], limit_s: float | None = None, *, processor_s: float | None = None) -> Job:
        """Make a call, which must be picklable, as soon as a process is free.  `limit_s` is measured from the beginning
        of the call.  `processor_s` limits the call's processor time, which does not grow on a busy machine.  Raises
        NotReady if the pool is closed."""
        job = Job(call, limit_s, processor_s)
        with self._lock:
            if self._is_closed:
                raise closing_error()
            self._jobs.add(job)
            self._threads.submit(self._carry, job)
        return job

    def close(self) -> None:
        """End all calls with NotReady, and end all processes.  A second call does nothing."""
        with self._lock:
            self._is_closed = True
            jobs, idle, self._idle = [*self._jobs], self._idle, []
        for job in jobs:
            job.fail(closing_error())
        for worker in idle:
            worker.dispose(0)  # don't wait: if the forking process hangs, each wait would time out
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
                remedy=f"{REPORT_LOG}; other requests go on",
            )
        with contextlib.suppress(InvalidStateError):  # it has been cancelled since
            job.set_result(end.value) if failure is None else job.set_exception(failure)

    def _do(self, job: Job) -> End:
        payload = bytes(ForkingPickler.dumps((job.call, job.processor_s)))
        worker, is_kept = self._worker(), False
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
            job.hold(None)
            with self._lock:
                is_kept = is_kept and not self._is_closed
                self._idle += [worker] * is_kept
            if not is_kept:
                worker.dispose()

    def _worker(self) -> Worker:
        """Return an idle process that still answers, or a new one.  Raises NotReady if there is neither."""
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                break
            if idle.is_alive():
                return idle
            idle.dispose()
        since = time.monotonic()
        with self._lock:
            self._starting.append(since)
        try:
            worker = Worker(lambda: not self._is_closed)
        except (OSError, template.TemplateGone) as error:
            self._has_failed = True
            reason = getattr(error, "strerror", None) or "the process that forks them does not answer"
            if not self._is_closed:
                log.error("the service can't start the process that reads edits: %s", reason)
            message = f"the service can't start the process that reads edits: {reason}"
            remedy = "wait a moment and try again; the service's log says why"
            raise NotReady(message, value=reason, remedy=remedy) from error
        finally:
            with self._lock:
                self._starting.remove(since)
        self._has_failed = False
        return worker


# -- where processes can't be forked -----------------------------------------------------------------------------------
class Spawned:
    """A worker process that was started directly, where processes can't be forked from a template (`template`)."""

    def __init__(self, line: socket.socket) -> None:
        """Start the process and hand it the socket to serve: as its number, or on Windows as the data that shares a
        socket with a process."""
        is_shared = sys.platform == "win32"
        self._process = subprocess.Popen(
            [*python_command("apply_service.serving.child"), *([] if is_shared else [str(line.fileno())])],
            env=clean_environment(),
            stdin=subprocess.PIPE if is_shared else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[] if is_shared else [line.fileno()],
        )
        self.pid = self._process.pid
        if sys.platform == "win32":
            assert self._process.stdin is not None
            with self._process.stdin as pipe:
                pipe.write(line.share(self.pid))

    def kill(self) -> None:
        self._process.kill()

    def end(self, limit_s: float) -> int | None:
        self._process.kill()
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None


def slow_error(limit_s: float | None) -> DeadlineExceeded:
    remedy = "send a smaller edit, or send it as search/replace blocks"
    return DeadlineExceeded("reading the edit took too long", value=limit_s, limit=limit_s, remedy=remedy)


def closing_error() -> NotReady:
    return NotReady("the service is shutting down", remedy="send the request again when the service is back")
