"""Worker processes: used again, killed where nobody waits, and every call has its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest

from apply_service.errors import DeadlineExceeded, EngineFailure, NeedsMoreContext, NotReady
from apply_service.serving import child, template, workers
from apply_service.serving.child import NICENESS
from apply_service.serving.workers import HEAVY_BYTES, WorkerPool
from tests.doubles import wait_for
from tests.serving import calls


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    opened = WorkerPool(1)
    yield opened
    pids = opened.pids
    opened.close()
    assert wait_for(lambda: not any(is_running(pid) for pid in pids))


def is_running(pid: int | None) -> bool:
    """Also no process whose exit code nobody has asked for."""
    assert pid is not None
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


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


def test_where_processes_can_not_be_forked_each_is_started_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.setattr(workers, "CAN_FORK", False)
    pool = WorkerPool(1)
    try:
        pid = done(pool, os.getpid)
        assert pid not in (os.getpid(), done(pool, os.getppid))
        assert done(pool, os.getppid) == os.getpid()
        with pytest.raises(DeadlineExceeded):
            done(pool, calls.backtrack, 0.3)
        assert wait_for(lambda: not is_running(pid))
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


# -- processes that are gone, stopped, or can't be had -----------------------------------------------------------------
needs_fork = pytest.mark.skipif(not workers.CAN_FORK, reason="there is no template")


def template_pid() -> int:
    assert template._template is not None
    return template._template._process.pid


@needs_fork
@pytest.mark.parametrize("sign", ["SIGKILL", "SIGSTOP"])
def test_a_template_that_does_not_answer_is_started_anew(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    monkeypatch.setattr(template, "FORK_LIMIT_S", 0.5)
    pid, before = done(pool, os.getpid), template_pid()
    os.kill(before, getattr(signal, sign))
    os.kill(pid, signal.SIGKILL)
    assert done(pool, os.getpid) != pid
    assert template_pid() != before
    assert not is_running(before)


@needs_fork
def test_no_folder_need_be_there_for_a_new_process(pool: WorkerPool) -> None:
    """A fork server that listens on a socket in a temporary folder is lost when somebody cleans that."""
    pid = done(pool, os.getpid)
    links = [os.readlink(link) for link in Path(f"/proc/{template_pid()}/fd").glob("*")]
    with open("/proc/net/unix", encoding="ascii") as sockets:
        numbers = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}
        ours = [line.split() for line in sockets if line.split()[6] in numbers]
    assert ours
    assert all(len(columns) == 7 for columns in ours), "a socket with a name has it in the eighth column"
    os.kill(pid, signal.SIGKILL)
    assert done(pool, os.getpid) != pid


@needs_fork
def test_an_idle_process_that_is_stopped_is_replaced(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ALIVE_LIMIT_S", 0.2)
    pid = done(pool, os.getpid)
    os.kill(pid, signal.SIGSTOP)
    assert done(pool, os.getpid) != pid
    assert wait_for(lambda: not is_running(pid))


@needs_fork
def test_a_process_that_is_stopped_at_work_is_replaced_at_the_limit(pool: WorkerPool) -> None:
    with pytest.raises(DeadlineExceeded):
        done(pool, calls.be_stopped, 0.3)
    assert done(pool, os.getpid)


@needs_fork
def test_a_process_that_takes_nothing_more_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SILENCE_LIMIT_S", 1.0)
    worker = workers.Worker()
    assert worker.is_alive()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(OSError, match="temporarily unavailable"):
        worker.do(b"x" * 2**24, 60)
    assert worker.dispose() == -signal.SIGKILL
    assert worker.dispose() is None


@needs_fork
@pytest.mark.parametrize("stopped", ["idle", "template"])
def test_closing_ends_whatever_is_stopped(stopped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job waits for a process that can't come."""
    pool = WorkerPool(1)
    pid = done(pool, os.getpid)
    stopped_pid = pid if stopped == "idle" else template_pid()
    os.kill(stopped_pid, signal.SIGSTOP)
    if stopped == "template":
        os.kill(pid, signal.SIGKILL)
    job = pool.submit(calls.sleep_long)
    closing = threading.Thread(target=pool.close)
    closing.start()
    closing.join(10)
    with contextlib.suppress(ProcessLookupError):  # nobody may have asked the template anything
        os.kill(stopped_pid, signal.SIGCONT)
    assert not closing.is_alive()
    assert isinstance(job.exception(5), NotReady)
    assert wait_for(lambda: not is_running(pid))


def test_a_pool_without_processes_says_so_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    pool = WorkerPool(1)
    try:
        assert pool.has_workers, "nobody has asked for one"
        with monkeypatch.context() as patched:
            patched.setattr(workers, "Worker", refuse)
            with pytest.raises(NotReady, match="Resource temporarily unavailable"):
                done(pool, os.getpid)
            assert not pool.has_workers
            assert wait_for(lambda: not pool._jobs)
            assert not pool.has_workers
        assert "the service can't start the process that reads edits" in caplog.text
        assert wait_for(lambda: pool.has_workers)
    finally:
        pool.close()


def test_a_pool_that_waits_for_a_process_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WAIT_LIMIT_S", 0.05)
    gate, start = threading.Event(), workers.Worker

    def slow(is_wanted: Callable[[], bool]) -> workers.Worker:
        gate.wait(30)
        return start(is_wanted)

    monkeypatch.setattr(workers, "Worker", slow)
    pool = WorkerPool(1)
    try:
        job = pool.submit(os.getpid)
        assert wait_for(lambda: not pool.has_workers)
        gate.set()
        job.result(30)
        assert pool.has_workers
    finally:
        pool.close()


@needs_fork
def test_where_the_system_has_no_room_the_template_goes_on(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fork` fails in the template, which answers with the number of the error."""
    done(pool, os.getpid)
    line, theirs = socket.socketpair()
    forks = child._Forks(theirs)
    monkeypatch.setattr(os, "fork", Mock(side_effect=BlockingIOError(errno.EAGAIN, "no room")))
    try:
        with socket.socket(), line, theirs:
            ends = socket.socketpair()
            socket.send_fds(line, [b"f"], [end.fileno() for end in ends])
            assert forks._fork()
            assert int.from_bytes(line.recv(8), "big", signed=True) == -errno.EAGAIN
            for end in ends:
                end.close()
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        forks._selector.close()
        for end in (forks._signals, forks._tell):
            end.close()


ORPHAN = """
import os, sys
from functools import partial
from apply_service.serving.workers import WorkerPool
from tests.serving import calls

pool = WorkerPool(1)
print(pool.submit(os.getpid).result(60), pool.submit(os.getppid).result(60), flush=True)
pool.submit(calls.backtrack)
sys.stdin.read()
"""


@needs_fork
def test_nothing_is_left_when_the_service_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        time.sleep(0.3)  # the worker is at its endless work
        process.kill()
    assert wait_for(lambda: not any(is_running(pid) for pid in pids))


@needs_fork
def test_a_number_that_may_be_anothers_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = workers.Worker()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert wait_for(worker._has_ended)
    killed = Mock()
    monkeypatch.setattr(os, "kill", killed)
    worker.kill()
    assert worker.dispose() == -signal.SIGKILL
    worker.kill()
    killed.assert_not_called()
