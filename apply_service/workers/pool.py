"""Lends worker processes: started when first needed, used again, killed where nobody waits for their work any more.

Each piece of work is an `Errand`; a thread carries its messages, so that whoever waits for them (the engine thread)
never blocks on a pipe.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING

from apply_service.errors import DeadlineExceeded, NotReady
from apply_service.registry import CHECKS, EDIT_FORMATS
from apply_service.workers.messages import Crash, End, Question, Reply, Work
from apply_service.workers.process import crash_of, serve

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

DIED = "process ended with code {}"


@cache
def _context() -> ForkServerContext | SpawnContext:
    """Processes are forked from one that has read our modules and does nothing else: a fork of this one would copy the
    engine's threads in whatever state."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    classes = (*EDIT_FORMATS.values(), *CHECKS.values())
    context.set_forkserver_preload(["apply_service.workers.process", *(name.partition(":")[0] for name in classes)])
    return context


class Worker:
    """A process, and the line to it."""

    def __init__(self) -> None:
        context = _context()
        self.line, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), name="apply-worker", daemon=True)
        self._process.start()
        theirs.close()  # so that its end is the end of the line

    def answers(self) -> bool:
        """Whether the process is there: it may have died since its last errand, and not be missed yet."""
        try:
            self.line.send(None)
            self.line.recv()
        except (EOFError, OSError):
            return False
        return True

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def kill(self) -> None:
        """End the process at once.  Any thread may; a second call does nothing."""
        self._process.kill()

    def dispose(self) -> int | None:
        """Kill it and hang up; its exit code.  For the thread that uses the line; a second call does nothing more."""
        self._process.kill()
        self._process.join()
        self.line.close()
        return self._process.exitcode


class Errand:
    """One piece of work on its way.  Whoever started it takes its messages, replies to questions, and stops it."""

    def __init__(
        self, work: Work, *, is_heavy: bool, limit_s: float | None, on_news: Callable[[Errand], object]
    ) -> None:
        self.work = work
        self.is_heavy = is_heavy
        self.limit_s = limit_s
        self._on_news = on_news
        self._news: SimpleQueue[Question | End] = SimpleQueue()
        self._replies: SimpleQueue[Reply | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._is_stopped = False

    # -- for whoever started it ------------------------------------------------------------------------------------
    def has_news(self) -> bool:
        """Whether `take` gives a message at once."""
        return not self._news.empty()

    def take(self) -> Question | End:
        """The next message, which is waited for: questions, each of which wants a reply, then the end."""
        return self._news.get()

    def reply(self, reply: Reply) -> None:
        """Answer the last question."""
        self._replies.put(reply)

    def stop(self) -> None:
        """Nobody waits any more: kill the process that still works on it.  A second call does nothing."""
        with self._lock:
            self._is_stopped = True
            if self._worker is not None:
                self._worker.kill()
        self._replies.put(None)
        self.tell(End(crash=Crash("Stopped")))

    # -- for the thread that carries its messages --------------------------------------------------------------------
    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def begin(self, worker: Worker) -> bool:
        """Whether the work is still wanted; from now on `stop` kills this worker."""
        with self._lock:
            if not self._is_stopped:
                self._worker = worker
            return not self._is_stopped

    def converse(self, worker: Worker) -> End:
        """Send the work, carry questions and replies, and return the end.

        Raises:
            EOFError, OSError: the process is gone.
            TimeoutError: it has said nothing within the limit.
        """
        worker.line.send(self.work)
        if self.limit_s is not None and not worker.line.poll(self.limit_s):
            raise TimeoutError
        while not isinstance(message := worker.line.recv(), End):
            self.tell(message)
            if (reply := self._replies.get()) is None:
                raise EOFError
            worker.line.send(reply)
        return message

    def release(self) -> None:
        """The process is free for others: `stop` no longer kills it."""
        with self._lock:
            self._worker = None

    def tell(self, message: Question | End) -> None:
        """Give whoever waits the next message."""
        self._news.put(message)
        self._on_news(self)


class WorkerPool:
    """At most `n_workers` processes.  Thread-safe.  Closing it kills them."""

    def __init__(self, n_workers: int) -> None:
        self._threads = ThreadPoolExecutor(n_workers, thread_name_prefix="apply-worker")
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._errands: set[Errand] = set()
        self._is_closed = False

    @property
    def pids(self) -> list[int | None]:
        """Of the processes that wait for work."""
        with self._lock:
            return [worker.pid for worker in self._idle]

    def start(
        self,
        work: Work,
        *,
        is_heavy: bool = False,
        limit_s: float | None = None,
        on_news: Callable[[Errand], object] = lambda _: None,
    ) -> Errand:
        """Have the work done as soon as a process is free.  `is_heavy`: the process ends with it, which gives its
        memory back.  `limit_s`: a process that needs longer is killed, and the work ends in DeadlineExceeded.
        `on_news` is called, on any thread, after each message.

        Raises:
            NotReady: the pool is closed.
        """
        errand = Errand(work, is_heavy=is_heavy, limit_s=limit_s, on_news=on_news)
        with self._lock:
            if self._is_closed:
                raise NotReady("The service is shutting down.", remedy="Send the request again when it is back.")
            self._errands.add(errand)
            self._threads.submit(self._carry, errand)
        return errand

    def close(self) -> None:
        """Stop everything.  A second call does nothing."""
        with self._lock:
            self._is_closed = True
            errands, idle, self._idle = [*self._errands], self._idle, []
        for errand in errands:
            errand.stop()
        for worker in idle:
            worker.dispose()
        self._threads.shutdown(cancel_futures=True)

    def _carry(self, errand: Errand) -> None:
        """One errand from beginning to end, on a thread of the pool."""
        try:
            if not errand.is_stopped:
                self._do(errand)
        except BaseException as error:  # no process can be started, or what was sent can't be read
            errand.tell(End(crash=crash_of(error)))
        finally:
            with self._lock:
                self._errands.discard(errand)

    def _do(self, errand: Errand) -> None:
        worker = self._lend()
        end: End | None = None
        try:
            if errand.begin(worker):
                end = errand.converse(worker)
                errand.release()  # first: whoever is told stops the errand, which must not kill the process any more
                errand.tell(end)
        except TimeoutError:
            worker.dispose()
            errand.tell(End(error=too_long_error(errand.limit_s)))
        except (EOFError, OSError):
            errand.tell(End(crash=Crash(DIED.format(worker.dispose()))))
        finally:
            errand.release()
            self._take_back(worker, is_kept=end is not None and not errand.is_heavy)

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
        """Keep the worker for the next errand, or end it."""
        with self._lock:
            is_kept = is_kept and not self._is_closed
            if is_kept:
                self._idle.append(worker)
        if not is_kept:
            worker.dispose()


def too_long_error(limit_s: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(
        "Reading the edit takes too long.",
        value=limit_s,
        limit=limit_s,
        remedy="Send a smaller or a plainer edit, or as search/replace blocks.",
    )
