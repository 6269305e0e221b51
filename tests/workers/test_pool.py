"""Worker processes: used again, killed where nobody waits, and every errand has its end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from apply_service.errors import EngineFailure, NeedsMoreContext, NotReady
from apply_service.workers.calls import call_in_worker
from apply_service.workers.messages import End, Question, Reply, Work
from apply_service.workers.outcome import value_of
from apply_service.workers.pool import WorkerPool
from tests.doubles import wait_for
from tests.workers import errands


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    opened = WorkerPool(1)
    yield opened
    pids = opened.pids
    opened.close()
    assert not any(is_running(pid) for pid in pids)


def is_running(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def done(pool: WorkerPool, work: Work, **options: Any) -> Any:
    end = pool.start(work, **options).take()
    assert isinstance(end, End)
    return value_of(end)


def test_a_process_is_used_again(pool: WorkerPool) -> None:
    pid = done(pool, errands.tell_pid)
    assert pid != os.getpid()
    assert done(pool, errands.tell_pid) == pid
    assert wait_for(lambda: pool.pids == [pid])


def test_the_process_of_a_heavy_errand_ends(pool: WorkerPool) -> None:
    pid = done(pool, errands.tell_pid, is_heavy=True)
    assert wait_for(lambda: not is_running(pid))
    assert done(pool, errands.tell_pid) != pid


def test_questions_are_asked_in_turn(pool: WorkerPool) -> None:
    told = threading.Semaphore(0)
    errand = pool.start(errands.ask_twice, on_news=lambda _: told.release())
    for method, argument in (("first", 1), ("second", 2)):
        told.acquire()
        assert errand.has_news()
        assert errand.take() == Question("m", method, (argument,))
        assert not errand.has_news()
        errand.reply(Reply(argument * 10))
    told.acquire()
    assert errand.take() == End([10, 20])


def test_an_error_of_ours_comes_back_as_it_was(pool: WorkerPool) -> None:
    with pytest.raises(NeedsMoreContext) as caught:
        done(pool, errands.refuse)
    assert caught.value.as_dict() == {
        "code": "needs_more_context",
        "message": "no anchor",
        "value": ["x"],
        "limit": 1,
        "remedy": "show more",
    }


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (errands.crash, "ValueError"),
        (errands.panic, "BaseException"),
        (errands.be_killed, "process ended with code -9"),
        (errands.give_unsendable, "AttributeError"),
        (lambda ask: None, "PicklingError"),
    ],
)
def test_a_crash_costs_only_its_errand(
    pool: WorkerPool, work: Work, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineFailure) as caught:
        done(pool, work)
    assert caught.value.value == kind
    assert errands.USERS_CODE not in caplog.text + str(caught.value)
    assert done(pool, errands.tell_pid)


def test_an_interrupt_from_the_terminal_is_the_services_business(pool: WorkerPool) -> None:
    assert done(pool, errands.is_deaf_to_interrupts)


def test_what_nobody_waits_for_is_killed_and_the_next_one_served(pool: WorkerPool) -> None:
    pid = done(pool, errands.tell_pid)
    at_work, waiting = pool.start(errands.sleep_long), pool.start(errands.sleep_long)
    assert wait_for(lambda: pool.pids == [])
    waiting.stop()
    at_work.stop()
    assert wait_for(lambda: not is_running(pid))
    assert done(pool, errands.tell_pid) != pid


def test_an_idle_process_that_died_is_replaced(pool: WorkerPool) -> None:
    pid = done(pool, errands.tell_pid)
    os.kill(pid, 9)
    assert done(pool, errands.tell_pid) != pid


def test_stopping_an_errand_that_asks(pool: WorkerPool) -> None:
    errand = pool.start(errands.ask_twice)
    assert isinstance(errand.take(), Question)
    errand.stop()
    errand.stop()
    assert done(pool, errands.tell_pid)


def test_closing_ends_what_runs_and_what_waits() -> None:
    pool = WorkerPool(1)
    running = [pool.start(errands.sleep_long) for _ in range(3)]
    pool.close()
    pool.close()
    assert all(isinstance(errand.take(), End) for errand in running)
    with pytest.raises(NotReady):
        pool.start(errands.tell_pid)


# -- from an event loop ------------------------------------------------------------------------------------------------
def call(pool: WorkerPool, what: Callable[[], Any]) -> Any:
    return asyncio.run(call_in_worker(what, pool))


def test_a_call_gives_its_value_or_raises(pool: WorkerPool) -> None:
    assert call(pool, os.getpid) == done(pool, errands.tell_pid)
    with pytest.raises(NeedsMoreContext):
        call(pool, partial(errands.refuse, None))  # type: ignore[arg-type]
    with pytest.raises(EngineFailure):
        call(pool, partial(errands.crash, None))  # type: ignore[arg-type]


def test_a_call_that_is_cancelled_ends_its_process(pool: WorkerPool) -> None:
    pid = call(pool, os.getpid)

    async def cancel() -> None:
        async with asyncio.timeout(0.2):
            await call_in_worker(partial(errands.sleep_long, None), pool)  # type: ignore[arg-type]

    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert wait_for(lambda: not is_running(pid))
