"""Admits requests and runs them in lanes; it stands between the front ends and the pipeline.

A front end submits a request and gets a `Ticket`.  From there:

    readers   worker processes read the edit, and answer it if a program can
    engine    one thread decodes requests whose target is in this process; they share passes, and callers take turns
    threads   one for each request whose target is on another server

Every accepted request ends in exactly one terminal item: a final event, or an `ApplyError`.  Full queues refuse
requests.  A deadline is kept even if the engine hangs.  If a caller goes away, the decoding stops at the next pass.  A
crash ends only the request that caused it.

This module knows no HTTP, and gets the pipeline's functions as arguments.  `build.open_service` builds a service.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from apply_service.deadline import Deadline, cancelled_error, late_error
from apply_service.decoding.scheduler import Answer, NextPass, Scheduler, joined
from apply_service.decoding.verify import Decoding
from apply_service.errors import (
    ApplyError,
    Cancelled,
    DeadlineExceeded,
    EngineFailure,
    InvalidField,
    Overloaded,
)
from apply_service.pipeline import InWorker, Running
from apply_service.serving.shares import FairQueue, has_room
from apply_service.serving.ticket import State, Terminal, Ticket, crash_error
from apply_service.serving.workers import WorkerPool, closing_error
from apply_service.strategies import ReadEdit
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent

READING_LIMIT_S = 5.0
"""How much processor time reading a small edit may take.  Reading takes milliseconds unless the edit was made to be
slow."""
JOIN_TIMEOUT_S = 5.0
"""How long `close` waits for the pass in progress.  A thread that hangs longer is left behind (it is a daemon)."""
STARTS_PER_PASS = 4
"""How many requests may join between two passes.  The number is limited because starting a request takes time for its
prompt."""
UNREAD_FACTOR = 8
"""How many small edits may wait to be read for each request that may wait for the engine.  Reading is fast."""
ROOM_POLL_S = 0.01
"""How long to wait before trying again, if someone outside this service uses the engine's room."""

T = TypeVar("T")
Read = Callable[[ApplyRequest], ApplyResult | ReadEdit]
"""Reads an edit, and answers it if a program can.  It must be picklable."""


class Run(Protocol):
    """The pipeline.  It stops when the deadline is over."""

    def __call__(self, request: ApplyRequest, deadline: Deadline, edit: ReadEdit = ..., /) -> Running:
        """Return the generator for a request.  `edit`: the request's edit, if a reader has read it."""


@dataclass(slots=True)
class Lane:
    """The edits of one size, and the order in which worker processes take them."""

    pool: WorkerPool
    queue_limit: int
    processor_s: float | None
    """How much processor time reading an edit may take."""
    unread: FairQueue[Ticket] = field(default_factory=FairQueue)


class Task:
    """A ticket being answered.  It drives the pipeline's generator from pass to pass.

    Any error that the generator raises becomes the ticket's terminal error.  The generator is always closed at the end,
    which frees its slots.
    """

    def __init__(self, ticket: Ticket, run: Run) -> None:
        self.ticket = ticket
        self.decodings: tuple[Decoding, ...] = ()
        """The decodings that need a pass; empty when the task has ended."""
        self.rest: InWorker | None = None
        """The call that a worker process makes after the last pass."""

        read = () if ticket.edit is None else (ticket.edit,)

        def events() -> Running:  # calls `run` only at the first step, where its errors are caught
            return (yield from run(ticket.request, ticket.deadline, *read))

        self._events = events()

    def advance(self, answer: Answer | None) -> None:
        """Give the task the result of the last pass.  Forward events until it needs another pass or has ended."""
        self.decodings = ()
        try:
            terminal = self._advance(answer)
        except StopIteration:
            is_over = self.ticket.deadline.is_over()
            terminal = (
                cancelled_error() if is_over else EngineFailure("internal fault: the engine ended without an answer")
            )
        except ApplyError as error:
            terminal = error
        except BaseException as error:  # in any case the thread goes on and the caller gets an answer
            terminal = self.ticket.context.copy().run(crash_error, error)
        if terminal is not None:
            self.end(terminal)

    def end(self, terminal: Terminal) -> None:
        """End the request and free what it holds."""
        self.decodings = ()
        try:
            self._events.close()
        except BaseException as error:
            terminal = self.ticket.context.copy().run(crash_error, error)
        if isinstance(terminal, Cancelled) and self.ticket.deadline.is_late:
            self.ticket.expire()
        self.ticket.end(terminal)

    def _advance(self, answer: Answer | None) -> Terminal | None:
        """Return the terminal item, or None if the request needs a pass or the task has set `rest`.  Raises what the
        pipeline raises."""
        deadline = self.ticket.deadline
        if deadline.is_over():
            return cancelled_error()
        item = self._events.throw(answer) if isinstance(answer, BaseException) else self._events.send(answer)
        while not isinstance(item, NextPass | InWorker):
            if isinstance(item, FinalEvent):
                return item
            self.ticket.put(item)
            if deadline.is_over():
                return cancelled_error()
            item = next(self._events)
        if isinstance(item, InWorker):
            self.rest = item
            self._events.close()
            return None
        self.decodings = item.decodings
        return None if self.decodings else EngineFailure("internal fault: the engine was asked to compute nothing")


class Service:
    """The queues and the lanes.  As a context manager, a service closes itself and its readers' pools at the end."""

    def __init__(
        self,
        run: Run,
        read: Read | None = None,
        *,
        small: WorkerPool | None = None,
        large: WorkerPool | None = None,
        large_chars: int = 0,
        is_remote: Callable[[ApplyRequest], bool] = lambda _: False,
        max_active: int = 1,
        max_threads: int = 64,
        queue_limit: int = 64,
        default_timeout_s: float = 120.0,
        max_timeout_s: float = 600.0,
    ) -> None:
        """`read`: the function that the worker processes of these pools run.  An edit is large if it and its file
        together have at least `large_chars` characters.  Without a pool, the thread that answers such edits also reads
        them.

        `is_remote`: whether a request's target is on another server.  At most `max_threads` such requests run at a
        time, and at most `max_active` other requests.
        """
        self._run = run
        self._read = read
        self._is_remote = is_remote
        self._max_active = max_active
        self._max_threads = max_threads
        self._queue_limit = queue_limit
        self._default_timeout_s = default_timeout_s
        self._max_timeout_s = max_timeout_s
        self._large_chars = large_chars
        self._small = None if small is None else Lane(small, UNREAD_FACTOR * queue_limit, READING_LIMIT_S)
        self._large = None if large is None else Lane(large, queue_limit, None)
        self._lanes = [lane for lane in (self._small, self._large) if lane is not None]
        self._waiting: FairQueue[Ticket] = FairQueue()
        self._waiting_remote: FairQueue[Ticket] = FairQueue()
        self._tickets: set[Ticket] = set()
        """All tickets that have not ended.  Their states tell how many tickets wait and how many run; queues only keep
        the order."""
        self._state = threading.Condition()
        self._is_open = True
        self._observers: list[Callable[[Ticket], None]] = []
        self._thread = threading.Thread(target=self._serve, name="apply-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine thread runs."""
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether a request would be accepted if the queue had room."""
        return self._is_open and self.is_alive

    @property
    def has_workers(self) -> bool:
        """Whether the pools have a process for each edit, or could start one."""
        return all(lane.pool.has_workers for lane in self._lanes)

    @property
    def queue_length(self) -> int:
        """How many requests wait for a target, or are large and wait to be read."""
        with self._state:
            return len(self._queued())

    @property
    def has_room(self) -> bool:
        """Whether the queues have room for a request of any caller."""
        with self._state:
            is_small_free = self._small is None or len(self._small.unread) < self._small.queue_limit
            return is_small_free and self.queue_length < self._queue_limit

    @property
    def n_active(self) -> int:
        """Requests that are being read or answered."""
        with self._state:
            return len(self._in(State.READING, State.RUNNING, State.FINISHING))

    def observe(self, observer: Callable[[Ticket], None]) -> None:
        """Call `observer` with every ticket that has ended, before its consumer learns of the end.

        The call is made on the thread that ended the ticket, in the context of the code that submitted it.  The
        observer must be quick.  Its errors are logged and dropped.
        """
        self._observers.append(observer)

    def submit(self, request: ApplyRequest, *, is_patient: bool = False) -> Ticket:
        """Accept a request.

        If the engine's queue is full once the edit has been read, the request ends with Overloaded.  With `is_patient`
        this can't happen, but that queue must have room now.

        Raises:
            Overloaded: the queue is full.
            NotReady: the service is closing.
            InvalidField: the deadline is longer than allowed.
        """
        timeout_s = self._default_timeout_s if request.timeout_s is None else request.timeout_s
        if not 0 < timeout_s <= self._max_timeout_s:
            limit = f"above 0, at most {self._max_timeout_s:g}"
            remedy = f"set timeout_s to at most {self._max_timeout_s:g}, or raise max_timeout_s"
            raise InvalidField("timeout_s is out of range", value=timeout_s, limit=limit, remedy=remedy)
        lane = self._lane_of(count_chars(request))
        is_small = lane is not None and lane is self._small
        ticket = Ticket(
            request,
            timeout_s,
            self._forget,
            is_remote=self._is_remote(request),
            is_patient=is_patient and is_small,
        )
        with self._state:
            if not self.is_ready:
                raise closing_error()
            if lane is None or not is_small:
                self._refuse_full(request.owner, self._queued())
            elif is_patient:
                of_lane = self._in(State.UNREAD, State.READING, State.FINISHING, lane=lane)
                self._refuse_full(request.owner, self._queued() + of_lane)
            else:
                self._refuse_full(request.owner, self._in(State.UNREAD, lane=lane), limit=lane.queue_limit)
            self._tickets.add(ticket)
            self._move(ticket, State.WAITING if lane is None else State.UNREAD)
        self._start_next()
        return ticket

    def apply(self, request: ApplyRequest) -> ApplyResult:
        """Submit and wait for the answer.  Raises the terminal error."""
        *_, final = self.submit(request).events()
        assert isinstance(final, FinalEvent), "a ticket ends in a final event or an error"
        return final.result

    async def call(self, call: Callable[[], T], n_chars: int = 0, *, timeout_s: float | None = None) -> T:
        """Run a pure function in the place where edits of `n_chars` characters are read, and return its value.

        Cancelling this coroutine ends the function.  `timeout_s`: how long the caller waits, including the wait for a
        free process.

        Raises:
            ApplyError: what `call` raises; DeadlineExceeded if it takes too long, EngineFailure if it crashes.
        """
        lane = self._lane_of(n_chars)
        try:
            async with asyncio.timeout(timeout_s):
                if lane is None:
                    return await asyncio.to_thread(call)
                job = lane.pool.submit(call, self._default_timeout_s, processor_s=lane.processor_s)
                value: T = await asyncio.wrap_future(job)
                return value
        except TimeoutError:
            raise late_error(timeout_s) from None

    def check_integrity(self) -> None:
        """Check that nothing was lost.  Call this while the service is idle.

        Raises:
            EngineFailure: a request has been lost, or answered twice, or the engine thread has died.
        """
        with self._state:
            queues = [self._waiting, self._waiting_remote, *(lane.unread for lane in self._lanes)]
            n_waiting = sum(map(len, queues))
            if self._tickets or n_waiting or self.is_alive != self._is_open:
                raise EngineFailure(
                    f"internal fault: {len(self._tickets)} requests have not ended, {n_waiting} waiting, "
                    f"{self.n_active} running, thread alive: {self.is_alive}"
                )

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until all accepted requests have ended and the engine is free.  Return whether that
        happened in time."""
        with self._state:
            return self._state.wait_for(self._is_idle, timeout_s)

    def close(self, drain_timeout_s: float = 0.0) -> None:
        """Close the service.  A second call does nothing.

        It accepts no more requests, and gives accepted requests `drain_timeout_s` to finish.  Then it ends the rest
        with `NotReady` and stops the thread.
        """
        with self._state:
            self._is_open = False
            self._state.notify_all()
            self._state.wait_for(self._is_idle, drain_timeout_s)
            # Running tickets end last: else a waiting ticket would take the place that becomes free.
            left = sorted(self._tickets, key=lambda ticket: ticket.state is State.RUNNING)
        for ticket in left:
            ticket.end(closing_error())
        until = time.monotonic() + JOIN_TIMEOUT_S
        self._thread.join(JOIN_TIMEOUT_S)
        with self._state:
            self._state.wait_for(lambda: not self._in_threads(), max(0.0, until - time.monotonic()))
        for lane in self._lanes:
            lane.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- states (with the lock held) -------------------------------------------------------------------------------
    def _in(self, *states: State, lane: Lane | None = None) -> list[Ticket]:
        """Return the tickets in these states, of one lane or of all."""
        return [
            ticket
            for ticket in self._tickets
            if ticket.state in states and (lane is None or self._lane_of(count_chars(ticket.request)) is lane)
        ]

    def _queued(self) -> list[Ticket]:
        """Return the tickets that count against `queue_limit`: requests that wait for a target, and large requests that
        wait to be read."""
        large = [] if self._large is None else self._in(State.UNREAD, lane=self._large)
        return self._in(State.WAITING) + large

    def _in_threads(self) -> list[Ticket]:
        return [ticket for ticket in self._in(State.RUNNING) if ticket.is_remote]

    def _is_idle(self) -> bool:
        return not self._tickets

    def _move(self, ticket: Ticket, to: State) -> None:
        """Change a ticket's state, and with it its place in the queues."""
        if (queue := self._queue_of(ticket)) is not None:
            queue.remove(ticket.request.owner, ticket)
        ticket.move(to)
        if (queue := self._queue_of(ticket)) is not None:
            queue.put(ticket.request.owner, ticket)
        if to is State.ENDED:
            self._tickets.discard(ticket)
        self._state.notify_all()

    def _queue_of(self, ticket: Ticket) -> FairQueue[Ticket] | None:
        """Return the queue that holds the tickets of this state."""
        if ticket.state is State.WAITING:
            return self._waiting_remote if ticket.is_remote else self._waiting
        lane = self._lane_of(count_chars(ticket.request))
        return lane.unread if ticket.state is State.UNREAD and lane is not None else None

    # -- admission -------------------------------------------------------------------------------------------------
    def _lane_of(self, n_chars: int) -> Lane | None:
        return self._large if n_chars >= self._large_chars else self._small

    def _refuse_full(self, owner: str, places: Sequence[Ticket], *, limit: int | None = None) -> None:
        """Raise Overloaded if all places are taken and this owner already has its share of the places."""
        limit = self._queue_limit if limit is None else limit
        if (total := len(places)) < limit:
            return
        counts = Counter(ticket.request.owner for ticket in places)
        n_callers = len(counts.keys() | {owner})
        if not has_room(1, own=counts[owner], total=total, limit=limit, n_callers=n_callers):
            remedy = "wait a moment and send the request again"
            raise Overloaded("the queue is full", value=total, limit=limit, remedy=remedy)

    def _forget(self, ticket: Ticket) -> None:
        """Free the place of a ticket that was answered, unless a thread still runs it.  Tell the observers."""
        with self._state:
            if ticket.state not in (State.RUNNING, State.ENDED):
                self._move(ticket, State.ENDED)
        self._start_next()
        for observer in self._observers:
            try:
                ticket.context.copy().run(observer, ticket)
            except Exception as error:  # an observer must not stop the request from ending
                crash_error(error)

    def _start_next(self) -> None:
        """Start waiting requests in free worker processes and threads.  The engine thread starts its own."""
        for lane in self._lanes:
            while True:
                with self._state:
                    n_busy = len(self._in(State.READING, State.FINISHING, lane=lane))
                    ticket = lane.unread.take() if n_busy < lane.pool.n_workers else None
                    if ticket is None:
                        break
                    self._move(ticket, State.READING)
                assert self._read is not None
                self._begin_job(lane, ticket, partial(self._read, ticket.request))
        while True:
            with self._state:
                ticket = self._waiting_remote.take() if len(self._in_threads()) < self._max_threads else None
                if ticket is None:
                    return
                self._move(ticket, State.RUNNING)
            threading.Thread(target=self._run_in_thread, args=(ticket,), name="apply-remote", daemon=True).start()

    # -- worker processes ------------------------------------------------------------------------------------------
    def _begin_job(self, lane: Lane, ticket: Ticket, call: Callable[[], ApplyResult | ReadEdit]) -> None:
        remaining_s = max(ticket.deadline.remaining_s, 0.0)
        try:
            job = lane.pool.submit(call, remaining_s, processor_s=lane.processor_s)
        except ApplyError as error:
            ticket.end(error)
            return
        job.add_done_callback(partial(self._end_job, ticket))
        ticket.deadline.on_cancel(job.cancel)  # cancels now if the ticket has ended

    def _end_job(self, ticket: Ticket, job: Future[Any]) -> None:
        """Answer the request, or queue it for its target.  Runs on a thread of the pool."""
        if ticket.terminal is None:
            ticket.context.copy().run(self._go_on, ticket, job)
        self._start_next()

    def _go_on(self, ticket: Ticket, job: Future[Any]) -> None:
        try:
            value = job.result()
            if isinstance(value, ApplyResult):
                ticket.end(FinalEvent(value))
                return
            ticket.edit = value
            with self._state:
                if not self.is_ready:
                    raise closing_error()
                if not ticket.is_patient:
                    reserved = [one for one in self._in(State.UNREAD, State.READING) if one.is_patient]
                    self._refuse_full(ticket.request.owner, self._queued() + reserved)
                if ticket.terminal is None:
                    self._move(ticket, State.WAITING)
        except CancelledError:
            return  # the ticket has ended
        except ApplyError as error:
            if isinstance(error, DeadlineExceeded) and ticket.deadline.is_late:
                ticket.expire()
            ticket.end(error)

    # -- threads and the engine thread -----------------------------------------------------------------------------
    def _task(self, ticket: Ticket) -> Task:
        """Start answering the request, up to the first pass that it needs."""
        task = Task(ticket, self._run)
        task.advance(None)
        return task

    def _finish(self, task: Task) -> None:
        """Drop the ticket, or give the rest of its task to the worker pool that reads such edits."""
        ticket = task.ticket
        with self._state:
            rest = task.rest if ticket.terminal is None else None
            self._move(ticket, State.ENDED if rest is None else State.FINISHING)
        if rest is not None:
            lane = self._lane_of(count_chars(ticket.request))
            assert lane is not None, "a run leaves its rest to a worker only if there are workers"
            self._begin_job(lane, ticket, rest.call)

    def _run_in_thread(self, ticket: Ticket) -> None:
        task = self._task(ticket)
        if task.decodings:
            task.end(EngineFailure("internal fault: a model on another server was to be computed here"))
        self._finish(task)
        self._start_next()

    def _serve(self) -> None:
        """Run the engine thread until the service closes: let requests join, run a pass, give each task its result."""
        scheduler = Scheduler()
        tasks: list[Task] = []
        while True:
            joining = self._joining(len(tasks))
            if not tasks and not joining:
                return
            tasks = self._still_active([*tasks, *map(self._task, joining)])
            decodings = [decoding for task in tasks for decoding in task.decodings]
            try:
                outcomes = iter(scheduler.run_pass(decodings))
            except BaseException as error:  # a fault of the scheduler itself; the thread goes on
                outcomes = iter([crash_error(error)] * len(decodings))
            has_advanced = False
            for task in tasks:
                answer = joined([next(outcomes) for _ in task.decodings])
                # A task for which the pass did nothing advances only if its deadline is over.
                if isinstance(answer, BaseException) or any(answer) or task.ticket.deadline.is_over():
                    task.advance(answer)
                    has_advanced = True
            if not has_advanced and decodings and all(decoding.session is None for decoding in decodings):
                with self._state:  # all wait for room; more passes would waste processor time
                    self._state.wait(ROOM_POLL_S)
            tasks = self._still_active(tasks)

    def _joining(self, n_tasks: int) -> list[Ticket]:
        """Return the requests that join the running tasks.  Without tasks, wait for a request.  The list is empty once
        the service closes."""
        with self._state:
            if n_tasks == 0:
                self._state.wait_for(lambda: self._waiting or not self._is_open)
            n_free = min(STARTS_PER_PASS, self._max_active - n_tasks)
            joining = [ticket for _ in range(n_free) if (ticket := self._waiting.take()) is not None]
            for ticket in joining:
                self._move(ticket, State.RUNNING)
        return joining

    def _still_active(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks that need another pass.  The others have ended."""
        for task in tasks:
            if not task.decodings:
                self._finish(task)
        return [task for task in tasks if task.decodings]


def count_chars(request: ApplyRequest) -> int:
    """Return the size of a request: the number of characters that edit and file have together."""
    return len(request.original) + len(request.update)
