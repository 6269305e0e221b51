"""Admission and the engine thread: between the front ends, which are many, and the pipeline, which is one.

A front end submits a request and gets a `Ticket`.  Small edits are read in processes of their own, which also answer
those that need no target.  The rest, and all large edits, wait for the engine: one thread takes the tickets, of each
caller in turn, and drives the pipeline for several of them at a time, which share the engine's passes.

Every accepted request ends in exactly one terminal item: a final event, or an `ApplyError`.  A bounded queue refuses
what it cannot hold, a deadline is kept even where the engine hangs, a caller who goes away stops the decoding at the
next pass, and a crash costs only the request that caused it.

It knows neither HTTP nor what the pipeline does; both are handed in.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from apply_service.decoding.scheduler import NEWS_POLL_S, Outcome, Scheduler, joined
from apply_service.decoding.verify import Decoding
from apply_service.errors import ApplyError, DeadlineExceeded, EngineFailure, InvalidField, NotReady, Overloaded
from apply_service.settings import VLLM, Settings
from apply_service.shares import FairQueue, has_room
from apply_service.task import Run, Task, crash_error
from apply_service.ticket import Ticket
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent
from apply_service.workers.calls import call_in_worker
from apply_service.workers.messages import End, Question
from apply_service.workers.outcome import value_of
from apply_service.workers.pool import Errand

if TYPE_CHECKING:
    from apply_service.runtime import Runtime
    from apply_service.workers.large_edits import LargeLane
    from apply_service.workers.small_edits import SmallLane

READING_LIMIT_S = 5.0
"""A small edit is read in milliseconds; one that takes longer than this was made to."""
T = TypeVar("T")
JOIN_TIMEOUT_S = 5.0
"""How long `close` waits for the pass in progress; a thread that hangs longer is left behind (it is a daemon)."""
STARTS_PER_PASS = 4
"""Requests that join between two passes while others are running: starting one takes the time of its merge."""
ACTIVE_ON_CPU = 4
ACTIVE_ELSEWHERE = 64
UNREAD_FACTOR = 8
"""Edits that may wait to be read, for each that may wait for the engine: reading takes milliseconds."""
ROOM_POLL_S = 0.01
"""How long to wait before asking again for room that someone outside this service holds."""


class Service:
    """The queue and the engine thread.  A context manager; leaving it closes it, and the lane of large edits."""

    def __init__(
        self,
        run: Run,
        *,
        lane: LargeLane | None = None,
        small_lane: SmallLane | None = None,
        max_active: int = 1,
        queue_limit: int = 64,
        default_timeout_s: float = 120.0,
        max_timeout_s: float = 600.0,
    ) -> None:
        self._run = run
        self._lane = lane
        self._small_lane = small_lane
        self._max_active = max_active
        self._queue_limit = queue_limit
        self._default_timeout_s = default_timeout_s
        self._max_timeout_s = max_timeout_s
        self._state = threading.Condition()
        self._unread: FairQueue[Ticket] = FairQueue()
        self._reading: dict[Ticket, Errand | None] = {}
        self._waiting: FairQueue[Ticket] = FairQueue()
        self._patient: set[Ticket] = set()
        self._running: list[Ticket] = []
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
    def lane(self) -> LargeLane | None:
        """Where large edits run; None: as the others."""
        return self._lane

    @property
    def small_lane(self) -> SmallLane | None:
        """Where small edits are read; None: where the engine is."""
        return self._small_lane

    @property
    def queue_length(self) -> int:
        """Requests that wait for the engine."""
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether a request of anybody would find a place in the queues."""
        return len(self._waiting) < self._queue_limit and len(self._unread) < UNREAD_FACTOR * self._queue_limit

    @property
    def n_active(self) -> int:
        """Requests that the engine works on, or that are being read."""
        return len(self._running) + len(self._reading)

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
        is_read_first = self._small_lane is not None and self._small_lane.takes(request)
        with self._state:
            if not self.is_ready:
                raise closing_error()
            if not is_read_first:
                self._refuse_full(request.owner, self._waiting)
            elif is_patient:
                self._refuse_full(request.owner, self._waiting, self._unread, self._reading)
                self._patient.add(ticket)
            else:
                self._refuse_full(request.owner, self._unread, limit=UNREAD_FACTOR * self._queue_limit)
            (self._unread if is_read_first else self._waiting).put(request.owner, ticket)
            self._n_accepted += 1
            self._state.notify_all()
        self._read_next()
        return ticket

    def apply(self, request: ApplyRequest) -> ApplyResult:
        """Submit and wait for the answer.  Raises the terminal error."""
        for event in self.submit(request).events():
            if isinstance(event, FinalEvent):
                return event.result
        raise AssertionError("a ticket ends in a final event or an error")

    async def call(self, call: Callable[[], T]) -> T:
        """What `call` makes of an edit, where edits are read.

        Raises:
            ApplyError: what it raises; DeadlineExceeded where it takes too long.
        """
        if self._small_lane is None:
            return await asyncio.to_thread(call)
        return await call_in_worker(call, self._small_lane.pool, limit_s=READING_LIMIT_S)

    def check_integrity(self) -> None:
        """To be called while idle.

        Raises:
            EngineFailure: a request has been lost, or answered twice, or the engine thread has died.
        """
        with self._state:
            lost = self._n_accepted - self._n_ended
            if lost or self._n_waiting or self._running or self._reading or self._thread.is_alive() != self._is_open:
                raise EngineFailure(
                    f"Integrity: {lost} requests without an end, {self._n_waiting} waiting, "
                    f"running: {len(self._running)}, being read: {len(self._reading)}, "
                    f"thread alive: {self._thread.is_alive()}."
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
            left = [*self._unread, *self._reading, *self._waiting, *self._running]
        for ticket in left:
            ticket.end(closing_error())
        self._thread.join(JOIN_TIMEOUT_S)
        for lane in (self._lane, self._small_lane):
            if lane is not None:
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
        with self._state:
            self._n_ended += 1
            self._unread.remove(ticket.request.owner, ticket)
            self._waiting.remove(ticket.request.owner, ticket)
            self._patient.discard(ticket)
            errand = self._reading.pop(ticket, None)
            self._state.notify_all()
        if errand is not None:  # nobody waits for what it says: its process is killed
            errand.stop()
            self._read_next()
        for observer in self._observers:
            try:
                ticket.context.copy().run(observer, ticket)
            except Exception as error:  # whoever watches must not cost the request its end
                crash_error(error)

    def _is_idle(self) -> bool:
        n_open = self._n_waiting + len(self._running) + len(self._reading)
        return n_open == 0 and self._n_accepted == self._n_ended

    @property
    def _n_waiting(self) -> int:
        return len(self._unread) + len(self._waiting)

    # -- reading -----------------------------------------------------------------------------------------------------
    def _read_next(self) -> None:
        """Have the next edits read, as far as there are processes free."""
        while (lane := self._small_lane) is not None:
            with self._state:
                ticket = self._unread.take() if len(self._reading) < lane.n_workers else None
                if ticket is None:
                    return
                self._reading[ticket] = None
            ticket.start()
            limit_s = min(READING_LIMIT_S, max(ticket.remaining_s, 0.0))
            try:
                work, on_news = lane.read(ticket.request), partial(self._end_reading, ticket)
                errand = lane.pool.start(work, limit_s=limit_s, on_news=on_news)
            except ApplyError as error:
                ticket.end(error)
                continue
            with self._state:
                if is_open := ticket in self._reading:
                    self._reading[ticket] = errand
            if not is_open:
                errand.stop()

    def _end_reading(self, ticket: Ticket, errand: Errand) -> None:
        """Answer the request, or have it wait for the engine.  On a thread of the pool."""
        end = errand.take()
        assert not isinstance(end, Question), "a reader has nobody to ask"
        with self._state:
            is_awaited = ticket in self._reading  # else it has ended, or was taken in: this errand was stopped
        if is_awaited and ticket.terminal is None:
            ticket.context.copy().run(self._take_in, ticket, end)
        with self._state:
            self._reading.pop(ticket, None)
            self._state.notify_all()
        self._read_next()

    def _take_in(self, ticket: Ticket, end: End) -> None:
        try:
            value = value_of(end)
            if isinstance(value, ApplyResult):
                ticket.end(FinalEvent(value))
                return
            ticket.read = value
            with self._state:
                if not self.is_ready:
                    raise closing_error()
                if ticket not in self._patient:
                    self._refuse_full(ticket.request.owner, self._waiting)
                self._reading.pop(ticket, None)  # and into the queue in one step, so that it is always counted
                if ticket.terminal is None:
                    self._waiting.put(ticket.request.owner, ticket)
                    self._state.notify_all()
        except ApplyError as error:
            if isinstance(error, DeadlineExceeded) and ticket.is_late:
                ticket.expire()
            ticket.end(error)

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
                self._wait_for_others(tasks)
            tasks = self._still_active(tasks)

    def _run_pass(self, scheduler: Scheduler, decodings: list[Decoding]) -> Sequence[Outcome]:
        try:
            return scheduler.run_pass(decodings)
        except BaseException as error:  # the scheduler's own fault; the thread goes on
            return [crash_error(error)] * len(decodings)

    def _wait_for_others(self, tasks: Sequence[Task]) -> None:
        """Where every sequence waits for room that none of them holds, and every other task for news from elsewhere,
        passes would only burn the processor."""
        if tasks and all(decoding.session is None for task in tasks for decoding in task.decodings):
            is_elsewhere = any(task.elsewhere is not None for task in tasks)
            with self._state:
                self._state.wait(NEWS_POLL_S if is_elsewhere else ROOM_POLL_S)

    def _start(self, tasks: Sequence[Task]) -> list[Task] | None:
        """Tasks for the next tickets in the queue; waits for one where there is nothing else to do.  None: closed."""
        with self._state:
            if not tasks:
                self._state.wait_for(lambda: self._waiting or not self._is_open)
                if not self._waiting and not self._is_open:
                    return None
            tickets = self._next_tickets([task.ticket for task in tasks])
            self._running += tickets
        return [Task(ticket, self._run_of(ticket)) for ticket in tickets]

    def _next_tickets(self, running: Iterable[Ticket]) -> list[Ticket]:
        """Takes from the queue, of each caller in turn, those that there is room for beside the running ones."""
        n_running = Counter(map(self._is_large, running))
        n_workers = 0 if self._lane is None else self._lane.n_workers
        n_free = {False: self._max_active - n_running[False], True: n_workers - n_running[True]}
        found: list[Ticket] = []
        while len(found) < STARTS_PER_PASS and any(n_free.values()):
            ticket = self._waiting.take(lambda one: n_free[self._is_large(one)] > 0)
            if ticket is None:
                break
            n_free[self._is_large(ticket)] -= 1
            found.append(ticket)
        return found

    def _is_large(self, ticket: Ticket) -> bool:
        return self._lane is not None and self._lane.is_large(ticket.request)

    def _run_of(self, ticket: Ticket) -> Run:
        if (lane := self._small_lane) is not None and (read := ticket.read) is not None:
            return lambda request, cancelled: lane.run(request, cancelled, read)
        return self._lane.run if self._lane is not None and self._is_large(ticket) else self._run

    def _still_active(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that need anything more; the others are over, and say so to those who wait for an idle engine."""
        active = [task for task in tasks if task.is_active]
        if len(active) < len(tasks):
            with self._state:
                self._running = [task.ticket for task in active]
                self._state.notify_all()
        return active


def _advance(tasks: Sequence[Task], outcomes: Iterable[Outcome]) -> int:
    """Tell each task what the pass did for its decodings, where it did anything or nobody waits for more, or that there
    is news from elsewhere; how many."""
    n_advanced, rest = 0, iter(outcomes)
    for task in tasks:
        if task.elsewhere is not None:
            if task.has_news:
                task.advance(None)
                n_advanced += 1
            continue
        answer = joined([next(rest) for _ in task.decodings])
        if isinstance(answer, BaseException) or any(answer) or task.ticket.is_stopped():
            task.advance(answer)
            n_advanced += 1
    return n_advanced


def open_service(runtime: Runtime, settings: Settings) -> Service:
    """A service over the real pipeline."""
    from apply_service.pipeline import run
    from apply_service.workers.large_edits import open_lane
    from apply_service.workers.small_edits import open_small_lane

    return Service(
        lambda request, cancelled: run(request, runtime, cancelled),
        lane=open_lane(runtime, settings),
        small_lane=open_small_lane(runtime, settings),
        max_active=active_limit(settings),
        queue_limit=settings.queue_limit,
        default_timeout_s=settings.default_timeout_s,
        max_timeout_s=settings.max_timeout_s,
    )


def active_limit(settings: Settings) -> int:
    """`max_active`, or what stands for it: servers elsewhere and accelerators gain by more at a time, CPUs don't."""
    if settings.max_active is not None:
        return settings.max_active
    is_remote = settings.engine == VLLM or settings.model.startswith("remote:")
    has_driver = settings.device == "auto" and shutil.which("nvidia-smi") is not None
    return ACTIVE_ELSEWHERE if is_remote or has_driver or settings.device in ("cuda", "mps") else ACTIVE_ON_CPU


# -- errors ------------------------------------------------------------------------------------------------------------
def closing_error() -> NotReady:
    return NotReady("The service is shutting down.", remedy="Send the request again when it is back.")
