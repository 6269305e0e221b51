"""Requests that decode, driven by the service: slots come back on every way out, and nobody spins or waits in vain."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import replace

import pytest

from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Decoding, Step
from apply_service.drafting.drafter import NoDraft
from apply_service.errors import ApplyError, Cancelled, DeadlineExceeded, EngineFailure, NotReady
from apply_service.pipeline import Running
from apply_service.protocols import Part, Verification
from apply_service.service import ROOM_POLL_S, Service, Task
from apply_service.serving.ticket import Ticket
from apply_service.types import ApplyRequest, FinalEvent
from tests.doubles import make_result, wait_for
from tests.fake_engine import FakeEngine, hashed
from tests.seeds import draw_seed

VOCAB = 13


class Gated(FakeEngine):
    """Waits before every pass until it may go on; counts how often room was asked for."""

    def __init__(self, *, max_open: int) -> None:
        super().__init__(hashed(VOCAB), max_open=max_open)
        self.gate = threading.Event()
        self.n_asked = 0

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = ""):  # type: ignore[no-untyped-def]
        self.n_asked += 1
        return super().open(prompt_ids, max_new_tokens, owner=owner)

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        assert self.gate.wait(10)
        return super().step(parts)


def decoding_on(engine: FakeEngine, *, limit: int = 20, drafter: NoDraft | None = None) -> Decoding:
    return Decoding(engine, [1, 2, 3], drafter or NoDraft(), limit, frozenset())


def run_on(engine: FakeEngine, *, n_windows: int = 1, limit: int = 20):  # type: ignore[no-untyped-def]
    def run(request: ApplyRequest, deadline: Deadline) -> Running:
        decodings = [decoding_on(engine, limit=limit) for _ in range(n_windows)]
        try:
            while active := tuple(one for one in decodings if one.finish_reason is None):
                yield NextPass(active)
            yield FinalEvent(make_result())
        finally:
            for one in decodings:
                one.close()

    return run


REQUEST = ApplyRequest(original="old\n", update="new\n")


def test_a_task_closed_while_its_decoding_waits_for_its_pass_frees_its_slots() -> None:
    engine = FakeEngine(hashed(VOCAB))
    ticket = Ticket(REQUEST, 10.0, lambda _ticket: None)
    task = Task(ticket, run_on(engine))
    task.advance(None)
    (decoding,) = task.decodings
    decoding.admit()
    assert engine.n_open == 1
    ticket.cancel()
    task.advance((None,))
    assert (engine.n_open, task.decodings) == (0, ())
    assert isinstance(ticket.terminal, Cancelled)


def test_an_error_while_a_task_ends_is_its_end_and_frees_its_slots() -> None:
    class Clinging(NoDraft):
        def close(self) -> None:
            raise RuntimeError

    engine = FakeEngine(hashed(VOCAB))

    def run(request: ApplyRequest, deadline: Deadline) -> Running:
        with decoding_on(engine, drafter=Clinging()) as decoding:
            decoding.admit()
            yield NextPass((decoding,))

    ticket = Ticket(REQUEST, 10.0, lambda _ticket: None)
    task = Task(ticket, run)
    task.advance(None)
    assert engine.n_open == 1
    task.end(FinalEvent(make_result()))
    assert isinstance(ticket.terminal, EngineFailure)
    assert engine.n_open == 0


def test_a_task_that_wants_a_pass_of_nothing_is_a_failure() -> None:
    """The bug: it counted as over, and its request never ended."""

    def run(request: ApplyRequest, deadline: Deadline) -> Running:
        yield NextPass(())

    with Service(run) as service, pytest.raises(EngineFailure):
        service.apply(REQUEST)


def test_a_run_that_fails_when_it_is_called_costs_only_its_request() -> None:
    """The bug: the engine thread died of it."""
    n_called = 0

    def run(request: ApplyRequest, deadline: Deadline) -> Generator[FinalEvent]:
        nonlocal n_called
        n_called += 1
        if n_called == 1:
            raise RuntimeError
        return (event for event in [FinalEvent(make_result())])

    with Service(run) as service:  # type: ignore[arg-type]
        with pytest.raises(EngineFailure):
            service.apply(REQUEST)
        assert service.apply(REQUEST) == make_result()


def test_more_windows_than_the_engine_has_room_for_come_one_after_the_other() -> None:
    """The bug: finished windows kept their slots until the last was done, which waited for these slots."""
    engine = FakeEngine(hashed(VOCAB), max_open=2)
    with Service(run_on(engine, n_windows=7, limit=3), max_active=4) as service:
        tickets = [service.submit(REQUEST) for _ in range(4)]
        assert all(isinstance(list(ticket.events())[-1], FinalEvent) for ticket in tickets)
        assert service.wait_until_idle(5)
        service.check_integrity()
    assert engine.n_open == 0


def test_waiting_for_room_that_others_hold_does_not_spin() -> None:
    """The bug: passes without a part followed each other at full speed."""
    engine = Gated(max_open=1)
    engine.gate.set()
    held = engine.open([1], 1)
    assert held is not None
    with Service(run_on(engine)) as service:
        waits: list[float | None] = []
        wait = service._state.wait

        def counted(timeout: float | None = None) -> bool:
            waits.append(timeout)
            return wait(timeout)

        service._state.wait = counted  # type: ignore[method-assign]
        ticket = service.submit(REQUEST)
        assert wait_for(lambda: engine.n_asked > 20, 60)
        n_asked = engine.n_asked
        assert n_asked <= waits.count(ROOM_POLL_S) + 1
        held.close()
        assert isinstance(list(ticket.events())[-1], FinalEvent)


def test_leaving_while_waiting_for_room_is_noticed() -> None:
    engine = FakeEngine(hashed(VOCAB), max_open=0)
    with Service(run_on(engine)) as service:
        tickets = [service.submit(ApplyRequest(original="", timeout_s=timeout_s)) for timeout_s in (0.05, 100.0)]
        assert wait_for(lambda: tickets[0].terminal is not None)
        tickets[1].cancel()
        assert service.wait_until_idle(5)
        service.check_integrity()


@pytest.mark.parametrize("n_windows", [1, 3])
def test_closing_while_many_are_decoded_ends_each_and_frees_all(n_windows: int) -> None:
    """Some in the middle of a pass, some waiting for room, some in the queue."""
    engine = Gated(max_open=6)
    service = Service(run_on(engine, n_windows=n_windows, limit=10_000), max_active=8, queue_limit=100)
    tickets = [service.submit(REQUEST) for _ in range(30)]
    assert wait_for(lambda: service.n_active == 8 or engine.n_asked > 0)
    threading.Timer(0.1, engine.gate.set).start()
    service.close(drain_timeout_s=0.05)
    assert all(isinstance(ticket.terminal, NotReady) for ticket in tickets)
    assert not service.is_alive
    assert engine.n_open == 0
    service.check_integrity()


def test_closing_at_any_moment_loses_nobody() -> None:
    seed = draw_seed()
    rng = random.Random(seed)
    for _ in range(20):
        engine = FakeEngine(hashed(VOCAB), max_open=3)
        service = Service(run_on(engine, limit=rng.randint(1, 40)), max_active=4, queue_limit=100)
        tickets = [service.submit(REQUEST) for _ in range(rng.randint(1, 20))]
        time.sleep(rng.uniform(0, 0.01))
        service.close(drain_timeout_s=rng.choice([0.0, 0.005]))
        ends = [_end(ticket) for ticket in tickets]
        assert set(map(type, ends)) <= {FinalEvent, NotReady}
        assert engine.n_open == 0
        service.check_integrity()


def _end(ticket: Ticket) -> object:
    try:
        return list(ticket.events())[-1]
    except ApplyError as error:
        return error


def test_a_pass_of_all_that_fails_in_the_scheduler_itself_leaves_the_service_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine(hashed(VOCAB))
    with Service(run_on(engine)) as service:
        engine.pass_times = {}
        with pytest.raises(EngineFailure):
            service.apply(REQUEST)
        engine.pass_times = {64: 1.0}
        assert service.apply(REQUEST) == make_result()
    assert engine.n_open == 0


def test_a_step_is_told_to_its_task_alone() -> None:
    """Two tasks of two windows each: each is sent what the pass did for its own, in order."""
    engine = FakeEngine(hashed(VOCAB), max_rows=64)
    sent: list[tuple[Step | None, ...]] = []

    def run(request: ApplyRequest, deadline: Deadline) -> Running:
        decodings = tuple(decoding_on(engine, limit=limit) for limit in (2, 2))
        for one, first in zip(decodings, map(int, request.update), strict=True):
            one.prompt_ids = [first]
        for _ in range(2):
            steps = yield NextPass(decodings)
            assert steps is not None
            assert [step.ids for step in steps if step] == [one.output_ids[-1:] for one in decodings]
            sent.append(steps)
        yield FinalEvent(make_result())

    with Service(run, max_active=2) as service:
        tickets = [service.submit(ApplyRequest(original="", update=update)) for update in ("12", "34")]
        assert all(isinstance(list(ticket.events())[-1], FinalEvent) for ticket in tickets)
    assert len(sent) == 4


# -- targets on other servers ------------------------------------------------------------------------------------------
def run_remote(arrived: threading.Event, closed: threading.Event | None = None):  # type: ignore[no-untyped-def]
    """Blocks until `arrived`, or until the caller goes away."""

    def run(request: ApplyRequest, deadline: Deadline) -> Running:
        woken = threading.Event()
        deadline.on_cancel(woken.set)
        try:
            while not (arrived.is_set() or woken.wait(0.01)):
                pass
            deadline.check()
            yield FinalEvent(make_result())
        finally:
            if closed is not None:
                closed.set()

    return run


def is_remote(request: ApplyRequest) -> bool:
    return request.update == "remote"


REMOTE = ApplyRequest(original="", update="remote")


def test_one_that_waits_for_a_server_holds_up_nobody() -> None:
    arrived, engine = threading.Event(), FakeEngine(hashed(VOCAB))
    local, remote = run_on(engine), run_remote(arrived)

    def run(request: ApplyRequest, deadline: Deadline) -> Running:
        yield from (remote if is_remote(request) else local)(request, deadline)

    with Service(run, is_remote=is_remote, max_threads=2) as service:
        waiting = [service.submit(REMOTE) for _ in range(3)]
        assert wait_for(lambda: service.n_active == 2)
        assert service.queue_length == 1
        for _ in range(3):
            service.apply(REQUEST)
        assert [ticket.terminal for ticket in waiting] == [None] * 3
        waiting.pop().cancel()
        arrived.set()
        assert [type(list(ticket.events())[-1]) for ticket in waiting] == [FinalEvent] * 2
        assert service.wait_until_idle(5)
        service.check_integrity()
        assert engine.n_open == 0


@pytest.mark.parametrize("how", ["cancelled", "late", "closed"])
def test_whoever_gives_up_on_a_server_ends_the_call_at_once(how: str) -> None:
    closed = threading.Event()
    with Service(run_remote(threading.Event(), closed), is_remote=is_remote) as service:
        ticket = service.submit(replace(REMOTE, timeout_s=0.2 if how == "late" else 60.0))
        assert wait_for(lambda: service.n_active == 1)
        if how == "cancelled":
            ticket.cancel()
        if how == "late":
            with pytest.raises(DeadlineExceeded):
                list(ticket.events())
        if how == "closed":
            service.close()
            assert isinstance(ticket.terminal, NotReady)
        assert closed.wait(5)
        assert service.wait_until_idle(5)
        service.check_integrity()


def test_a_remote_target_that_asks_for_a_pass_here_is_a_failure() -> None:
    engine = FakeEngine(hashed(VOCAB))
    with Service(run_on(engine), is_remote=is_remote) as service, pytest.raises(EngineFailure):
        service.apply(REMOTE)
    assert engine.n_open == 0
