"""The service: one end for every request, whatever goes wrong."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import aclosing

import pytest

from apply_service.build import active_limit
from apply_service.deadline import Deadline
from apply_service.errors import (
    ApplyError,
    Cancelled,
    DeadlineExceeded,
    EngineFailure,
    InvalidField,
    NeedsMoreContext,
    NotReady,
    Overloaded,
)
from apply_service.service import Run, Service
from apply_service.serving.ticket import Ticket
from apply_service.settings import Settings
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, TokenEvent
from tests.doubles import ScriptedRun, make_result, wait_for
from tests.seeds import draw_seed

REQUEST = ApplyRequest(original="old\n", update="new\n")


@pytest.fixture
def opened() -> Iterator[Callable[..., Service]]:
    """Opens services and checks, when the test is over, that nothing was lost in them."""
    services: list[Service] = []

    def open_service(run: Run, **options: float) -> Service:
        services.append(Service(run, **options))  # type: ignore[arg-type]
        return services[-1]

    yield open_service
    for service in services:
        assert service.wait_until_idle(5)
        service.check_integrity()
        service.close()
        service.check_integrity()


def test_events_in_order_then_the_final_one(opened: Callable[..., Service]) -> None:
    run = ScriptedRun()
    events = list(opened(run).submit(REQUEST).events())
    assert events == [TokenEvent("ne"), TokenEvent("w\n"), FinalEvent(run.result)]
    assert run.n_closed == 1


def test_apply_returns_the_result(opened: Callable[..., Service]) -> None:
    assert opened(ScriptedRun()).apply(REQUEST) == make_result()


def test_requests_are_served_in_order(opened: Callable[..., Service]) -> None:
    run = ScriptedRun()
    service = opened(run)
    tickets = [service.submit(ApplyRequest(original=str(i))) for i in range(5)]
    for ticket in reversed(tickets):
        list(ticket.events())
    assert [request.original for request in run.requests] == ["0", "1", "2", "3", "4"]


def test_async_iterator_gives_the_same_events(opened: Callable[..., Service]) -> None:
    run = ScriptedRun()
    service = opened(run)

    async def collect() -> list[ApplyEvent]:
        async with aclosing(service.submit(REQUEST).events_async()) as events:
            return [event async for event in events]

    assert asyncio.run(collect()) == list(service.submit(REQUEST).events())


def test_a_full_queue_refuses_and_says_so(opened: Callable[..., Service]) -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    service = opened(run, queue_limit=2)
    first = service.submit(REQUEST)
    assert run.started.wait(5)
    waiting = [service.submit(REQUEST) for _ in range(2)]
    with pytest.raises(Overloaded) as caught:
        service.submit(REQUEST)
    assert caught.value.limit == 2
    assert caught.value.remedy
    gate.set()
    for ticket in [first, *waiting]:
        assert isinstance(list(ticket.events())[-1], FinalEvent)


def test_a_cancelled_request_frees_its_place_in_the_queue(opened: Callable[..., Service]) -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    service = opened(run, queue_limit=1)
    service.submit(REQUEST)
    assert run.started.wait(5)
    waiting = service.submit(REQUEST)
    waiting.cancel()
    assert service.queue_length == 0
    last = service.submit(REQUEST)
    gate.set()
    assert isinstance(list(last.events())[-1], FinalEvent)
    assert isinstance(waiting.terminal, Cancelled)
    assert run.n_started == 2


def test_cancelling_stops_the_decoding_at_the_next_poll(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    service = opened(run)
    ticket = service.submit(REQUEST)
    assert run.started.wait(5)
    ticket.cancel()
    assert run.closed.wait(5)
    with pytest.raises(Cancelled):
        list(ticket.events())


def test_closing_the_iterator_stops_the_decoding(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    events = opened(run).submit(REQUEST).events()
    assert next(events) == TokenEvent("ne")
    events.close()
    assert run.closed.wait(5)


def test_leaving_the_async_iterator_stops_the_decoding(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    service = opened(run)

    async def leave() -> None:
        async with aclosing(service.submit(REQUEST).events_async()) as events:
            async for _ in events:
                break

    asyncio.run(leave())
    assert run.closed.wait(5)


def test_cancelling_an_asyncio_task_stops_the_decoding(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    service = opened(run)

    async def consume() -> None:
        async with aclosing(service.submit(REQUEST).events_async()) as events:
            async for _ in events:
                pass

    async def cancel() -> None:
        task = asyncio.create_task(consume())
        await asyncio.to_thread(run.started.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert run.closed.wait(5)


def test_a_deadline_stops_the_decoding(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    ticket = opened(run).submit(ApplyRequest(original="", timeout_s=0.05))
    with pytest.raises(DeadlineExceeded) as caught:
        list(ticket.events())
    assert caught.value.limit == 0.05
    assert run.closed.wait(5)


def test_a_pipeline_that_answers_a_late_stop_by_cancelled_is_a_deadline(opened: Callable[..., Service]) -> None:
    def run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        yield TokenEvent("x")
        while not deadline.is_over():
            time.sleep(0.001)
        raise Cancelled("stopped")

    ticket = opened(run).submit(ApplyRequest(original="", timeout_s=0.02))
    assert wait_for(lambda: ticket.terminal is not None)
    assert isinstance(ticket.terminal, DeadlineExceeded)


def test_a_deadline_holds_although_the_engine_hangs(opened: Callable[..., Service]) -> None:
    release, is_over = threading.Event(), threading.Event()

    def hang(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        release.wait(60)
        is_over.set()
        yield FinalEvent(make_result())

    service = opened(hang)
    with pytest.raises(DeadlineExceeded):
        service.apply(ApplyRequest(original="", timeout_s=0.05))
    with pytest.raises(DeadlineExceeded):  # this one never left the queue
        asyncio.run(_collect(service, ApplyRequest(original="", timeout_s=0.05)))
    assert not is_over.is_set()
    release.set()


def test_deadline_above_the_limit_is_refused(opened: Callable[..., Service]) -> None:
    service = opened(ScriptedRun(), max_timeout_s=10)
    for timeout_s in (10.5, 0.0, -1.0, float("nan")):
        with pytest.raises(InvalidField) as caught:
            service.submit(ApplyRequest(original="", timeout_s=timeout_s))
        assert "10" in str(caught.value.limit)


def test_an_error_of_the_pipeline_comes_after_its_events(opened: Callable[..., Service]) -> None:
    error = NeedsMoreContext("no anchor", value="def f")
    events = opened(ScriptedRun(error=error)).submit(REQUEST).events()
    assert [next(events), next(events)] == [TokenEvent("ne"), TokenEvent("w\n")]
    with pytest.raises(NeedsMoreContext) as caught:
        next(events)
    assert caught.value is error


@pytest.mark.parametrize("crash", [RuntimeError("secret code"), MemoryError(), SystemExit(1), KeyboardInterrupt()])
def test_a_crash_costs_only_its_own_request(
    opened: Callable[..., Service], crash: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    run = ScriptedRun(error=crash)
    service = opened(run)
    with pytest.raises(EngineFailure) as caught:
        service.apply(REQUEST)
    assert type(crash).__name__ in caught.value.message
    assert "secret code" not in caught.value.message + caplog.text
    run.error = None
    assert service.apply(REQUEST) == run.result


def test_a_crash_before_the_first_event_and_one_on_closing(opened: Callable[..., Service]) -> None:
    def crash_first(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        raise RuntimeError
        yield

    def crash_last(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        try:
            yield TokenEvent("x")
            yield FinalEvent(make_result())
        finally:
            raise RuntimeError

    for run in (crash_first, crash_last):
        with pytest.raises(EngineFailure):
            opened(run).apply(REQUEST)


def test_a_pipeline_without_a_final_event_is_a_failure(opened: Callable[..., Service]) -> None:
    def stop_short(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        yield TokenEvent("x")

    with pytest.raises(EngineFailure):
        opened(stop_short).apply(REQUEST)


def test_close_lets_accepted_requests_finish(opened: Callable[..., Service]) -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    service = opened(run)
    tickets = [service.submit(REQUEST) for _ in range(3)]
    assert run.started.wait(5)
    threading.Timer(0.05, gate.set).start()
    service.close(drain_timeout_s=5)
    assert all(isinstance(ticket.terminal, FinalEvent) for ticket in tickets)
    assert not service.is_alive


def test_close_ends_what_is_left_after_the_drain(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    service = opened(run)
    tickets = [service.submit(REQUEST) for _ in range(3)]
    assert run.started.wait(5)
    service.close(drain_timeout_s=0.02)
    assert all(isinstance(ticket.terminal, NotReady) for ticket in tickets)
    assert not service.is_alive
    assert run.n_started == 1
    with pytest.raises(NotReady):
        service.submit(REQUEST)


def test_integrity_is_not_given_while_a_request_runs() -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    with Service(run) as service:
        ticket = service.submit(REQUEST)
        assert run.started.wait(5)
        with pytest.raises(EngineFailure, match="1 requests have not ended"):
            service.check_integrity()
        gate.set()
        list(ticket.events())
        assert service.wait_until_idle(5)
        service.check_integrity()


def test_soak_with_random_faults(opened: Callable[..., Service]) -> None:
    seed = draw_seed()
    rng = random.Random(seed)

    def run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        for _ in range(int(request.update)):
            if deadline.is_over():
                return
            yield TokenEvent("x")
        if request.instruction == "crash":
            raise ZeroDivisionError
        if request.instruction == "refuse":
            raise NeedsMoreContext("no anchor")
        yield FinalEvent(make_result())

    service = opened(run, queue_limit=20)
    ends: list[type] = []
    threads = [threading.Thread(target=_behave, args=(service, rng.random(), ends)) for _ in range(400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 400
    assert set(ends) <= {FinalEvent, NeedsMoreContext, EngineFailure, DeadlineExceeded, Overloaded, Cancelled}
    assert FinalEvent in ends


def _behave(service: Service, draw: float, ends: list[type]) -> None:
    """One client, of a temper that `draw` decides; notes how its request ended."""
    rng = random.Random(draw)
    request = ApplyRequest(
        original="",
        update=str(rng.randrange(50)),
        instruction=rng.choice(["", "", "crash", "refuse"]),
        timeout_s=rng.choice([5.0, 5.0, 0.001]),
    )
    try:
        ticket = service.submit(request)
        if rng.random() < 0.2:
            ticket.cancel()
        ends.append(type(list(ticket.events())[-1]))
    except ApplyError as error:
        ends.append(type(error))


async def _collect(service: Service, request: ApplyRequest) -> list[ApplyEvent]:
    async with aclosing(service.submit(request).events_async()) as events:
        return [event async for event in events]


def test_an_observer_sees_every_end_before_its_consumer(opened: Callable[..., Service]) -> None:
    run = ScriptedRun(gate=threading.Event())
    service = opened(run)
    seen: list[Ticket] = []
    service.observe(seen.append)
    first, second = service.submit(REQUEST), service.submit(REQUEST)
    assert wait_for(lambda: service.n_active == 1)
    second.cancel()
    assert seen == [second]
    assert run.gate is not None
    run.gate.set()
    for event in first.events():
        assert isinstance(event, TokenEvent) or seen == [second, first]
    assert service.wait_until_idle(5)
    assert service.n_active == 0


def test_an_observer_that_fails_costs_nobody_an_answer(opened: Callable[..., Service]) -> None:
    def fail(ticket: Ticket) -> None:
        raise ZeroDivisionError

    service = opened(ScriptedRun())
    seen: list[Ticket] = []
    service.observe(fail)
    service.observe(seen.append)
    assert service.apply(REQUEST) == make_result()
    assert service.apply(REQUEST) == make_result()
    assert len(seen) == 2


def test_a_crash_while_its_end_is_being_observed_costs_nobody(opened: Callable[..., Service]) -> None:
    """The bug: the request's context can be entered once at a time, so the engine thread died, or an end was never
    observed."""
    stopped, observing, release = threading.Event(), threading.Event(), threading.Event()
    observed: list[Ticket] = []

    def run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        if request.update == "crash":
            stopped.set()
            observing.wait(5)
            raise RuntimeError
        yield FinalEvent(make_result())

    def observe(ticket: Ticket) -> None:
        observing.set()
        if ticket.request.update == "crash":
            release.wait(5)
        observed.append(ticket)

    service = opened(run)
    service.observe(observe)
    crashing = service.submit(ApplyRequest(original="", update="crash"))
    assert stopped.wait(5)
    leaver = threading.Thread(target=crashing.cancel)
    leaver.start()
    assert isinstance(list(service.submit(REQUEST).events())[-1], FinalEvent)
    release.set()
    leaver.join(5)
    assert len(observed) == 2


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"device": "cpu"}, 4),
        ({"device": "cuda"}, 64),
        ({"device": "cpu", "max_active": 9}, 9),
    ],
)
def test_a_cpu_decodes_few_at_a_time(options: dict[str, object], limit: int) -> None:
    assert active_limit(Settings(**options)) == limit  # type: ignore[arg-type]
