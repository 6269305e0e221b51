"""Small edits are read in processes: nobody waits for one that is slow to read, and exact ones not for the engine."""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from apply_service import service as service_module
from apply_service.build import open_service
from apply_service.deadline import Deadline
from apply_service.errors import ApplyError, DeadlineExceeded, MalformedEdit, Overloaded
from apply_service.pipeline import read_or_apply
from apply_service.service import Service
from apply_service.serving.workers import WorkerPool
from apply_service.settings import Settings
from apply_service.strategies import ReadEdit
from apply_service.target import Runtime, Target
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult, FinalEvent
from tests.doubles import ScriptedRun, wait_for
from tests.fake_engine import FakeEngine, hashed
from tests.live_server import serving
from tests.plain_bytes import N_VOCAB, PlainBytes
from tests.serving import calls

EDIT = "<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n"
EXACT = ApplyRequest("a = 1\n", EDIT, path="a.py", strategy="exact")
MODEL = ApplyRequest("a = 1\n", EDIT, path="a.py", strategy="model")
HOSTILE = ApplyRequest("a = 1\n", "hostile", path="a.py", owner="attacker")
SETTINGS = Settings()


def run_with_gate(gate: threading.Event) -> ScriptedRun:
    return ScriptedRun(tokens=(), gate=gate)


def read(request: ApplyRequest) -> ApplyResult | ReadEdit:
    if request.update == "hostile":
        calls.backtrack()
    return read_or_apply(request, Runtime(load=calls.no_target))


@contextmanager
def opened(run: ScriptedRun, **options: int) -> Iterator[Service]:
    """A service whose engine is `run`, and whose readers never end with a hostile edit."""

    def answer(request: ApplyRequest, deadline: Deadline, _: object = None) -> Generator[ApplyEvent]:
        return run(request, deadline)

    pool = WorkerPool(2)
    pool.submit(os.getpid).result(30)
    with Service(answer, read, small=pool, large_chars=2**31, **options) as service:  # type: ignore[arg-type]
        yield service
        assert service.wait_until_idle(10)
        service.check_integrity()


def test_an_exact_edit_is_answered_while_the_engine_is_busy() -> None:
    gate = threading.Event()
    with opened(run_with_gate(gate)) as service:
        busy = service.submit(MODEL)
        assert wait_for(lambda: service.queue_length == 0 and service.n_active == 1)
        assert service.apply(EXACT).merged_code == "a = 2\n"
        assert busy.terminal is None
        gate.set()
        assert list(busy.events())


def test_what_needs_a_target_comes_to_the_engine_as_it_was_read() -> None:
    target = Target("embedded", FakeEngine(hashed(N_VOCAB), context_limit=4000), PlainBytes())
    with open_service(Runtime(load=lambda _: target), SETTINGS) as service:
        assert service.apply(EXACT).strategy == "exact"
        with pytest.raises(ApplyError):  # nonsense, but the model's
            service.apply(ApplyRequest("a = 1\n", EDIT, strategy="model", max_tokens=3))
        assert service.wait_until_idle(5)
        service.check_integrity()


def test_errors_of_reading_are_the_request_s() -> None:
    with opened(ScriptedRun()) as service, pytest.raises(MalformedEdit):
        service.apply(ApplyRequest("a\n", "diff --git a/a b/a\nno hunk\n", strategy="exact"))


def test_a_deadline_holds_while_an_edit_is_read_and_the_process_is_killed() -> None:
    with opened(ScriptedRun()) as service:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded) as refused:
            list(service.submit(ApplyRequest("a = 1\n", "hostile", timeout_s=1.0)).events())
        assert 1.0 <= time.monotonic() - began < 3.0
        assert refused.value.limit == 1.0
        assert service.apply(EXACT).merged_code == "a = 2\n"


def test_reading_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "READING_LIMIT_S", 0.5)
    with opened(ScriptedRun()) as service:
        with pytest.raises(DeadlineExceeded, match="too long"):
            service.apply(HOSTILE)
        assert service.apply(EXACT).merged_code == "a = 2\n"


def test_health_is_answered_while_hostile_edits_are_read() -> None:
    with (
        opened(ScriptedRun()) as service,
        serving(service, SETTINGS) as (url, _),
        httpx2.Client(trust_env=False) as http,
    ):
        hostile = {"original": "a = 1\n", "update": "hostile", "timeout_s": 1.0}
        status: list[int] = []
        posts = [
            threading.Thread(target=lambda: status.append(httpx2.post(f"{url}/v1/apply", json=hostile).status_code))
            for _ in range(4)
        ]
        for post in posts:
            post.start()
        times = []
        while any(post.is_alive() for post in posts):
            began = time.monotonic()
            assert http.get(f"{url}/healthz").status_code == 200
            times.append(time.monotonic() - began)
            time.sleep(0.01)
        assert status == [504] * 4
        assert statistics.quantiles(times, n=10)[-1] < 0.05


def test_a_full_engine_refuses_what_is_read_but_not_what_waits_its_turn() -> None:
    gate = threading.Event()
    run = run_with_gate(gate)
    with opened(run, queue_limit=2) as service:
        tickets = [service.submit(MODEL)]
        assert run.started.wait(60)
        tickets += [service.submit(MODEL, is_patient=True) for _ in range(2)]
        with pytest.raises(Overloaded):  # whether they are still being read, or wait already
            service.submit(MODEL, is_patient=True)
        assert wait_for(lambda: service.queue_length == 2, timeout_s=60)
        with pytest.raises(Overloaded):
            service.submit(MODEL, is_patient=True)
        late = service.submit(MODEL)
        assert wait_for(lambda: late.terminal is not None, timeout_s=60)
        assert isinstance(late.terminal, Overloaded)
        assert service.apply(EXACT).merged_code == "a = 2\n"
        other = service.submit(ApplyRequest("a = 1\n", EDIT, strategy="model", owner="another"))
        assert wait_for(lambda: service.queue_length == 3, timeout_s=60)
        gate.set()
        for ticket in (*tickets, other):
            list(ticket.events())


def test_an_edit_that_is_read_before_its_job_is_noted_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = WorkerPool.submit

    def submit_and_wait(self: WorkerPool, *args: Any, **options: Any) -> Any:
        job = submit(self, *args, **options)
        wait([job], timeout=60)
        return job

    monkeypatch.setattr(WorkerPool, "submit", submit_and_wait)
    gate = threading.Event()
    gate.set()
    with opened(run_with_gate(gate)) as service:
        ticket = service.submit(MODEL)
        assert [type(event) for event in ticket.events()][-1] is FinalEvent


def test_one_caller_s_flood_leaves_another_s_edits_their_turn() -> None:
    ended: list[str] = []
    with opened(ScriptedRun()) as service:
        service.observe(lambda ticket: ended.append(ticket.request.owner))
        flood = [service.submit(ApplyRequest("a = 1\n", EDIT, strategy="exact", owner="flood")) for _ in range(100)]
        results: list[ApplyResult] = []
        for _ in range(5):
            results.append(service.apply(ApplyRequest("a = 1\n", EDIT, strategy="exact", owner="another")))
            assert any(ticket.terminal is None for ticket in flood)
        for ticket in flood:
            list(ticket.events())
    assert len(ended) == 105


def test_a_call_ends_when_its_caller_has_waited_long_enough() -> None:
    with opened(ScriptedRun(tokens=())) as service:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            asyncio.run(service.call(calls.backtrack, timeout_s=0.2))
        assert time.monotonic() - began < service_module.READING_LIMIT_S
