"""Admission, and the lanes in which requests are answered: between the front ends, which are many, and the pipeline.

A front end submits a request and gets a `Ticket`.  From there:

    readers   worker processes read the edit, and answer it where a program can
    engine    one thread decodes what needs a target here, several requests in shared passes, of each caller in turn
    threads   one for each request whose target is on another server

Every accepted request ends in exactly one terminal item: a final event, or an `ApplyError`.  Bounded queues refuse
what they cannot hold, a deadline is kept even where the engine hangs, a caller who goes away stops the decoding at the
next pass, and a crash costs only the request that caused it.

Knows no HTTP; what the pipeline does is handed in.  `build.open_service` puts one together.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from apply_service.deadline import Deadline, late_error
from apply_service.decoding.scheduler import Outcome, Scheduler, joined
from apply_service.decoding.verify import Decoding
from apply_service.errors import ApplyError, DeadlineExceeded, EngineFailure, InvalidField, NotReady, Overloaded
from apply_service.pipeline import ReadEdit, Running
from apply_service.shares import FairQueue, has_room
from apply_service.task import Run, Task, crash_error
from apply_service.ticket import Ticket
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent
from apply_service.workers.pool import Job, WorkerPool

READING_LIMIT_S = 5.0
"""A small edit is read in milliseconds; one that takes longer than this was made to."""
JOIN_TIMEOUT_S = 5.0
"""How long `close` waits for the pass in progress; a thread that hangs longer is left behind (it is a daemon)."""
STARTS_PER_PASS = 4
"""Requests that join between two passes while others are running: starting one takes the time of its prompt."""
UNREAD_FACTOR = 8
"""Small edits that may wait to be read, for each that may wait for the engine: reading takes milliseconds."""
ROOM_POLL_S = 0.01
"""How long to wait before asking again for room that someone outside this service holds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Readers:
    """Where edits are read.  A pool is None where the engine thread is to read such edits itself."""

    small: WorkerPool | None
    large: WorkerPool | None
    large_chars: int
    """From so many characters on, file and edit together, an edit is large."""
    read: Callable[[ApplyRequest], Callable[[], ApplyResult | ReadEdit]]
    """What a worker is to call."""
    resume: Callable[[ApplyRequest, Deadline, ReadEdit], Running]
    """As `run`, of an edit that was read."""


@dataclass(slots=True)
class Lane:
    """The edits of one size: those that wait for a worker, and those in one."""

    pool: WorkerPool
    queue_limit: int
    limit_s: float | None
    unread: FairQueue[Ticket] = field(default_factory=FairQueue)
    jobs: dict[Ticket, Job] = field(default_factory=dict)


class Service:
    """The queues and the lanes.  A context manager; leaving it closes it, and the pools of its readers."""

    def __init__(
        self,
        run: Run,
        *,
        readers: Readers | None = None,
        is_remote: Callable[[ApplyRequest], bool] = lambda _: False,
        max_active: int = 1,
        max_threads: int = 64,
        queue_limit: int = 64,
        default_timeout_s: float = 120.0,
        max_timeout_s: float = 600.0,
    ) -> None:
        """`is_remote`: whether a request's target is on another server; at most `max_threads` of these run at a time,
        and `max_active` of the others."""
        self._run = run
        self.readers = readers
        self._is_remote = is_remote
        self._max_active = max_active
        self._max_threads = max_threads
        self._queue_limit = queue_limit
        self._default_timeout_s = default_timeout_s
        self._max_timeout_s = max_timeout_s
        self._state = threading.Condition()
        self._small = self._large = None
        if readers is not None and readers.small is not None:
            self._small = Lane(readers.small, UNREAD_FACTOR * queue_limit, READING_LIMIT_S)
        if readers is not None and readers.large is not None:
            self._large = Lane(readers.large, queue_limit, None)
        self._lanes = [lane for lane in (self._small, self._large) if lane is not None]
        self._waiting: FairQueue[Ticket] = FairQueue()
        self._waiting_remote: FairQueue[Ticket] = FairQueue()
        self._patient: set[Ticket] = set()
        """Being read; a place in the engine's queue is kept for each."""
        self._running: list[Ticket] = []
        self._in_threads: set[Ticket] = set()
        self._is_open = True
        self._n_accepted = 0
        self._n_ended = 0
        self._observers: list[Callable[[Ticket], None]] = []
        self._thread = threading.Thread(target=self._serve, name="apply-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine thread runs."""
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether a request would be accepted, the length of the queue aside."""
        return self._is_open and self.is_alive

    @property
    def queue_length(self) -> int:
        """Requests that wait for a target, or large ones to be read."""
        n_large = 0 if self._large is None else len(self._large.unread)
        return len(self._waiting) + len(self._waiting_remote) + n_large

    @property
    def has_room(self) -> bool:
        """Whether a request of anybody would find a place in the queues."""
        n_small = 0 if self._small is None else len(self._small.unread)
        return self.queue_length < self._queue_limit and n_small < UNREAD_FACTOR * self._queue_limit

    @property
    def n_active(self) -> int:
        """Requests that are being read or answered."""
        return len(self._running) + len(self._in_threads) + sum(len(lane.jobs) for lane in self._lanes)

    def observe(self, observer: Callable[[Ticket], None]) -> None:
        """Have every ticket shown to `observer` when it has ended, before its consumer learns of it: on the thread that
        ended it, in the context of whoever submitted it.  It must be quick; what it raises is logged and dropped."""
        self._observers.append(observer)

    def submit(self, request: ApplyRequest, *, is_patient: bool = False) -> Ticket:
        """Accept a request.  It may be ended by Overloaded later, when it has been read and the engine's queue is full,
        unless it `is_patient`; then there must be room in that queue already.

        Raises:
            Overloaded: the queue is full.
            NotReady: the service is closing.
            InvalidField: the deadline is longer than allowed.
        """
        ticket = Ticket(request, self._timeout_s(request), self._forget)
        lane = self._lane_of(count_chars(request))
        with self._state:
            if not self.is_ready:
                raise closing_error()
            if lane is not self._small or lane is None:
                self._refuse_full(request.owner, *self._queues)
            elif is_patient:
                self._refuse_full(request.owner, *self._queues, lane.unread, lane.jobs)
                self._patient.add(ticket)
            else:
                self._refuse_full(request.owner, lane.unread, limit=lane.queue_limit)
            (self._queue_of(ticket) if lane is None else lane.unread).put(request.owner, ticket)
            self._n_accepted += 1
            self._state.notify_all()
        self._start_next()
        return ticket

    def apply(self, request: ApplyRequest) -> ApplyResult:
        """Submit and wait for the answer.  Raises the terminal error."""
        for event in self.submit(request).events():
            if isinstance(event, FinalEvent):
                return event.result
        raise AssertionError("a ticket ends in a final event or an error")

    async def call(self, call: Callable[[], T], n_chars: int = 0, *, timeout_s: float | None = None) -> T:
        """What a pure function makes of an edit of so many characters, called where such edits are read.  Cancelling
        this ends it.  `timeout_s`: how long the caller waits, for a free process too.

        Raises:
            ApplyError: what it raises; DeadlineExceeded where it takes too long, EngineFailure where it crashes.
        """
        lane = self._lane_of(n_chars)
        try:
            async with asyncio.timeout(timeout_s):
                if lane is None:
                    return await asyncio.to_thread(call)
                value: T = await asyncio.wrap_future(lane.pool.submit(call, lane.limit_s))
                return value
        except TimeoutError:
            raise late_error(timeout_s) from None

    def check_integrity(self) -> None:
        """To be called while idle.

        Raises:
            EngineFailure: a request has been lost, or answered twice, or the engine thread has died.
        """
        with self._state:
            lost = self._n_accepted - self._n_ended
            if lost or self._tickets or self.n_active or self._thread.is_alive() != self._is_open:
                raise EngineFailure(
                    f"Integrity: {lost} requests without an end, {len(self._tickets)} waiting or running, "
                    f"active: {self.n_active}, thread alive: {self._thread.is_alive()}."
                )

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Whether everything accepted has ended, and the engine is free, within the time."""
        with self._state:
            return self._state.wait_for(self._is_idle, timeout_s)

    def close(self, drain_timeout_s: float = 0.0) -> None:
        """Accept nothing more, let accepted requests finish for so long, end the rest with `NotReady`, stop the
        thread.  A second call does nothing."""
        with self._state:
            self._is_open = False
            self._state.notify_all()
            self._state.wait_for(self._is_idle, drain_timeout_s)
            left = self._tickets
        for ticket in left:
            ticket.end(closing_error())
        until = time.monotonic() + JOIN_TIMEOUT_S
        self._thread.join(JOIN_TIMEOUT_S)
        with self._state:
            self._state.wait_for(lambda: not self._in_threads, max(0.0, until - time.monotonic()))
        for lane in self._lanes:
            lane.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- admission -------------------------------------------------------------------------------------------------
    def _timeout_s(self, request: ApplyRequest) -> float:
        timeout_s = self._default_timeout_s if request.timeout_s is None else request.timeout_s
        if not 0 < timeout_s <= self._max_timeout_s:
            raise InvalidField(
                "timeout_s is out of range.",
                value=timeout_s,
                limit=f"above 0, at most {self._max_timeout_s:g}",
                remedy="Ask for a deadline within the limit, or raise max_timeout_s.",
            )
        return timeout_s

    def _refuse_full(self, owner: str, *places: Collection[Ticket], limit: int | None = None) -> None:
        """Raises Overloaded where the places together hold all they may, and of this owner no less than its share."""
        limit = self._queue_limit if limit is None else limit
        if (total := sum(map(len, places))) < limit:
            return
        counts = Counter(ticket.request.owner for place in places for ticket in place)
        n_callers = len(counts.keys() | {owner})
        if not has_room(1, own=counts[owner], total=total, limit=limit, n_callers=n_callers):
            raise Overloaded(
                "The queue is full.",
                value=total,
                limit=limit,
                remedy="Wait a moment and send the request again.",
            )

    def _forget(self, ticket: Ticket) -> None:
        owner, jobs = ticket.request.owner, []
        with self._state:
            self._n_ended += 1
            for queue in self._queues:
                queue.remove(owner, ticket)
            for lane in self._lanes:
                lane.unread.remove(owner, ticket)
                jobs += [job] if (job := lane.jobs.pop(ticket, None)) else []
            self._patient.discard(ticket)
            self._state.notify_all()
        for job in jobs:
            job.cancel()
        self._start_next()
        for observer in self._observers:
            try:
                ticket.context.copy().run(observer, ticket)
            except Exception as error:  # whoever watches must not cost the request its end
                crash_error(error)

    def _is_idle(self) -> bool:
        return not self._tickets and self._n_accepted == self._n_ended

    @property
    def _queues(self) -> tuple[FairQueue[Ticket], ...]:
        """What counts against `queue_limit`: requests that wait for a target, and large ones that wait to be read."""
        queues = (self._waiting, self._waiting_remote)
        return queues if self._large is None else (*queues, self._large.unread)

    @property
    def _tickets(self) -> list[Ticket]:
        """All that have been accepted and not ended, or hold a lane."""
        found: list[Ticket] = [*self._waiting, *self._waiting_remote, *self._running, *self._in_threads]
        for lane in self._lanes:
            found += [*lane.unread, *lane.jobs]
        return found

    def _queue_of(self, ticket: Ticket) -> FairQueue[Ticket]:
        return self._waiting_remote if self._is_remote(ticket.request) else self._waiting

    def _start_next(self) -> None:
        """Start what there is room for; the engine thread looks after itself."""
        for lane in self._lanes:
            self._read_next(lane)
        self._start_threads()

    # -- readers ---------------------------------------------------------------------------------------------------
    def _lane_of(self, n_chars: int) -> Lane | None:
        """None: such edits are read by whoever answers them."""
        if self.readers is None:
            return None
        return self._large if n_chars >= self.readers.large_chars else self._small

    def _read_next(self, lane: Lane) -> None:
        """Have the next edits read, as far as there are processes free."""
        assert self.readers is not None
        while True:
            with self._state:
                ticket = lane.unread.take() if len(lane.jobs) < lane.pool.n_workers else None
            if ticket is None:
                return
            ticket.start()
            self._begin_job(lane, ticket, self.readers.read(ticket.request))

    def _begin_job(self, lane: Lane, ticket: Ticket, call: Callable[[], ApplyResult | ReadEdit]) -> None:
        remaining_s = max(ticket.deadline.remaining_s, 0.0)
        try:
            job = lane.pool.submit(call, remaining_s if lane.limit_s is None else min(lane.limit_s, remaining_s))
        except ApplyError as error:
            ticket.end(error)
            return
        with self._state:
            if is_wanted := ticket.terminal is None:
                lane.jobs[ticket] = job
        if is_wanted:
            job.add_done_callback(lambda _: self._end_job(lane, ticket, job))
        else:
            job.cancel()

    def _end_job(self, lane: Lane, ticket: Ticket, job: Job) -> None:
        """Answer the request, or have it wait for its target.  On a thread of the pool."""
        if ticket.terminal is None:
            ticket.context.copy().run(self._take, ticket, job)
        with self._state:
            lane.jobs.pop(ticket, None)
            self._state.notify_all()
        self._start_next()

    def _take(self, ticket: Ticket, job: Job) -> None:
        try:
            value = job.result()
            if isinstance(value, ApplyResult):
                ticket.end(FinalEvent(value))
                return
            ticket.edit = value
            with self._state:
                if not self.is_ready:
                    raise closing_error()
                if ticket in self._patient:
                    self._patient.remove(ticket)
                else:
                    self._refuse_full(ticket.request.owner, *self._queues, self._patient)
                if ticket.terminal is None:
                    self._queue_of(ticket).put(ticket.request.owner, ticket)
                    self._state.notify_all()
        except CancelledError:
            return  # the ticket has ended
        except ApplyError as error:
            if isinstance(error, DeadlineExceeded) and ticket.deadline.is_late:
                ticket.expire()
            ticket.end(error)

    # -- threads ---------------------------------------------------------------------------------------------------
    def _start_threads(self) -> None:
        """Give a thread to each next request whose target is on another server."""
        while True:
            with self._state:
                ticket = self._waiting_remote.take() if len(self._in_threads) < self._max_threads else None
                if ticket is None:
                    return
                self._in_threads.add(ticket)
            threading.Thread(target=self._run_in_thread, args=(ticket,), name="apply-remote", daemon=True).start()

    def _run_in_thread(self, ticket: Ticket) -> None:
        ticket.start()
        task = Task(ticket, self._run_of(ticket))
        task.advance(None)
        if task.decodings:
            task.end(EngineFailure("A target on another server asked for a pass here."))
        self._finish(task)
        with self._state:
            self._in_threads.discard(ticket)
            self._state.notify_all()
        self._start_next()

    # -- engine thread ---------------------------------------------------------------------------------------------
    def _serve(self) -> None:
        scheduler = Scheduler()
        tasks: list[Task] = []
        while (started := self._start(tasks)) is not None:
            for task in started:
                task.ticket.start()
                task.advance(None)
            tasks = self._still_active([*tasks, *started])
            outcomes = self._run_pass(scheduler, [one for task in tasks for one in task.decodings])
            if not _advance(tasks, outcomes):
                self._wait_for_room(tasks)
            tasks = self._still_active(tasks)

    def _run_pass(self, scheduler: Scheduler, decodings: list[Decoding]) -> Sequence[Outcome]:
        try:
            return scheduler.run_pass(decodings)
        except BaseException as error:  # the scheduler's own fault; the thread goes on
            return [crash_error(error)] * len(decodings)

    def _wait_for_room(self, tasks: Sequence[Task]) -> None:
        """Where every sequence waits for room that none of them holds, passes would only burn the processor."""
        if tasks and all(decoding.session is None for task in tasks for decoding in task.decodings):
            with self._state:
                self._state.wait(ROOM_POLL_S)

    def _start(self, tasks: Sequence[Task]) -> list[Task] | None:
        """Tasks for the next tickets in the queue; waits for one where there is nothing else to do.  None: closed."""
        with self._state:
            if not tasks:
                self._state.wait_for(lambda: self._waiting or not self._is_open)
                if not self._waiting and not self._is_open:
                    return None
            n_free = min(STARTS_PER_PASS, self._max_active - len(tasks))
            tickets = list(_taken(self._waiting, n_free))
            self._running += tickets
        return [Task(ticket, self._run_of(ticket)) for ticket in tickets]

    def _run_of(self, ticket: Ticket) -> Run:
        if self.readers is None or (edit := ticket.edit) is None:
            return self._run
        resume = self.readers.resume
        return lambda request, deadline: resume(request, deadline, edit)

    def _finish(self, task: Task) -> None:
        """Have the rest of a task done, where it left any, in the process that its edit was read in."""
        if task.rest is not None and task.ticket.terminal is None:
            lane = self._lane_of(count_chars(task.ticket.request))
            assert lane is not None, "a run leaves its rest to a worker only where there are any"
            self._begin_job(lane, task.ticket, task.rest.call)

    def _still_active(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that need anything more; the others are over, and say so to those who wait for an idle engine."""
        active = [task for task in tasks if task.decodings]
        for task in tasks:
            if not task.decodings:
                self._finish(task)
        if len(active) < len(tasks):
            with self._state:
                self._running = [task.ticket for task in active]
                self._state.notify_all()
        return active


def _advance(tasks: Sequence[Task], outcomes: Iterable[Outcome]) -> int:
    """Tell each task what the pass did for its decodings, where it did anything or nobody waits for more; how many."""
    n_advanced, rest = 0, iter(outcomes)
    for task in tasks:
        answer = joined([next(rest) for _ in task.decodings])
        if isinstance(answer, BaseException) or any(answer) or task.ticket.deadline.is_over():
            task.advance(answer)
            n_advanced += 1
    return n_advanced


def _taken(queue: FairQueue[Ticket], most: int) -> Iterator[Ticket]:
    while most > 0 and (ticket := queue.take()) is not None:
        most -= 1
        yield ticket


def count_chars(request: ApplyRequest) -> int:
    """How large an edit is."""
    return len(request.original) + len(request.update)


# -- errors ------------------------------------------------------------------------------------------------------------
def closing_error() -> NotReady:
    return NotReady("The service is shutting down.", remedy="Send the request again when it is back.")
