"""Worker processes: used again, killed where nobody waits, and every call has its end."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apply_service.errors import DeadlineExceeded, EngineFailure, NeedsMoreContext, NotReady
from apply_service.serving import workers
from apply_service.serving.workers import HEAVY_BYTES, NICENESS, WorkerPool
from tests.doubles import wait_for
from tests.serving import calls


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


def done(pool: WorkerPool, call: Callable[[], Any], limit_s: float | None = None) -> Any:
    return pool.submit(call, limit_s).result(30)


def test_a_process_is_used_again(pool: WorkerPool) -> None:
    pid = done(pool, os.getpid)
    assert pid != os.getpid()
    assert done(pool, os.getpid) == pid
    assert wait_for(lambda: pool.pids == [pid])


@pytest.mark.skipif(sys.platform == "win32", reason="no niceness there")
def test_a_process_stands_back_behind_this_one(pool: WorkerPool) -> None:
    own = os.nice(0)
    for _ in range(2):
        assert done(pool, partial(os.nice, 0)) == min(own + NICENESS, 19)


def test_the_process_of_a_heavy_call_ends(pool: WorkerPool) -> None:
    pid = done(pool, partial(calls.give_pid, "x" * HEAVY_BYTES))
    assert wait_for(lambda: not is_running(pid))
    assert done(pool, os.getpid) != pid


def test_an_error_of_ours_comes_back_as_it_was(pool: WorkerPool) -> None:
    with pytest.raises(NeedsMoreContext) as caught:
        done(pool, calls.refuse)
    assert caught.value.as_dict() == {
        "code": "needs_more_context",
        "message": "no anchor",
        "value": ["x"],
        "limit": 1,
        "remedy": "show more",
    }


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (calls.crash, "ValueError"),
        (calls.panic, "BaseException"),
        (calls.be_killed, "process ended with code -9"),
        (calls.give_unsendable, "AttributeError"),
        (calls.refuse_unsendably, "AttributeError"),
        (lambda: None, "PicklingError"),
    ],
)
def test_a_crash_costs_only_its_call(
    pool: WorkerPool, call: Callable[[], Any], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineFailure) as caught:
        done(pool, call)
    assert caught.value.value == kind
    assert calls.USERS_CODE not in caplog.text + str(caught.value)
    assert done(pool, os.getpid)


def test_an_interrupt_from_the_terminal_is_the_services_business(pool: WorkerPool) -> None:
    assert done(pool, calls.is_deaf_to_interrupts)


def test_a_call_that_holds_its_interpreter_is_killed_at_its_limit(pool: WorkerPool) -> None:
    pid = done(pool, os.getpid)
    with pytest.raises(DeadlineExceeded) as caught:
        done(pool, calls.backtrack, 0.3)
    assert caught.value.limit == 0.3
    assert wait_for(lambda: not is_running(pid))
    assert done(pool, os.getpid) != pid


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of the clock there")
def test_a_limit_of_processor_time_ends_a_call_that_works_and_none_that_waits(pool: WorkerPool) -> None:
    with pytest.raises(DeadlineExceeded) as caught:
        pool.submit(calls.backtrack, processor_s=0.3).result(60)
    assert caught.value.limit == 0.3
    pool.submit(partial(time.sleep, 0.6), processor_s=0.3).result(60)
    with pytest.raises(NeedsMoreContext):
        pool.submit(calls.refuse, processor_s=0.3).result(60)
    with pytest.raises(DeadlineExceeded) as caught:  # the last call's limit is not this one's
        pool.submit(calls.backtrack, 1.0).result(60)
    assert caught.value.limit == 1.0


def test_on_windows_a_limit_of_processor_time_is_one_of_the_clock(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(DeadlineExceeded) as caught:
        pool.submit(calls.sleep_long, processor_s=0.3).result(60)
    assert caught.value.limit == 0.3


def test_without_a_fork_server_workers_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, which also has no signal masks."""
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(workers, "_context", workers._context.__wrapped__)
    pool = WorkerPool(1)
    try:
        assert done(pool, os.getpid) != os.getpid()
    finally:
        pool.close()


def test_what_nobody_waits_for_is_killed_and_the_next_one_served(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    pid, started = done(pool, os.getpid), tmp_path / "started"
    at_work, waiting = pool.submit(partial(calls.sleep_long, started)), pool.submit(calls.sleep_long)
    assert wait_for(started.exists)
    assert waiting.cancel()
    assert at_work.cancel()
    assert wait_for(lambda: not is_running(pid))
    assert done(pool, os.getpid) != pid
    assert caplog.text == "", "that is no crash"


def test_to_cancel_what_has_ended_kills_nobody(pool: WorkerPool) -> None:
    job = pool.submit(os.getpid)
    pid = job.result(30)
    assert not job.cancel()
    assert done(pool, os.getpid) == pid


def test_an_idle_process_that_died_is_replaced(pool: WorkerPool) -> None:
    pid = done(pool, os.getpid)
    os.kill(pid, 9)
    assert done(pool, os.getpid) != pid


def test_closing_ends_what_runs_and_what_waits() -> None:
    pool = WorkerPool(1)
    jobs = [pool.submit(calls.sleep_long) for _ in range(3)]
    pool.close()
    pool.close()
    assert [type(job.exception(5)) for job in jobs] == [NotReady] * 3
    with pytest.raises(NotReady):
        pool.submit(os.getpid)


def test_to_cancel_a_call_in_an_event_loop_ends_its_process(pool: WorkerPool) -> None:
    pid = done(pool, os.getpid)

    async def cancel() -> None:
        async with asyncio.timeout(0.2):
            await asyncio.wrap_future(pool.submit(calls.sleep_long))

    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert wait_for(lambda: not is_running(pid))
