"""Large edits run beside the engine thread: with the same answers, and nobody waits for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from apply_service.build import build_runtime, open_service
from apply_service.errors import (
    ApplyError,
    CheckFailed,
    ContextLimitExceeded,
    DeadlineExceeded,
    EngineFailure,
    NeedsMoreContext,
    NotReady,
    StaleBase,
)
from apply_service.pipeline import apply
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.target import Runtime
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent
from tests.doubles import wait_for

SMALL = ApplyRequest("a = 1\nb = 2\n", "<<<<<<< SEARCH\na = 1\n=======\na = 10\n>>>>>>> REPLACE\n", path="a.py")


def file_of(n_functions: int) -> str:
    return "".join(
        f"def name_{i}(a, b):\n    total_{i} = a + b\n    return total_{i}\n\n\n" for i in range(n_functions)
    )


def lazy_edit(n_functions: int, at: int) -> ApplyRequest:
    update = f"# ... existing code ...\ndef name_{at}(a, b):\n    total_{at} = a - b\n    return total_{at}\n"
    return ApplyRequest(file_of(n_functions), update + "# ... existing code ...\n", path="a.py", diff=True)


LAZY = lazy_edit(12, 6)
MERGED = file_of(12).replace("total_6 = a + b", "total_6 = a - b")
LONG = lazy_edit(400, 200)
"""Past the embedded model's context: decided in windows."""
HUGE = lazy_edit(8_000, 5_000)
"""500 kB: a second of merging, and more."""
ENDLESS = lazy_edit(150_000, 5_000)
"""10 MB: longer than any test waits, where it is waited for."""
LARGE_CHARS = 20_000
"""`LONG` is large, too."""


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return build_runtime(Settings())


@pytest.fixture(scope="module")
def large(runtime: Runtime) -> Iterator[Service]:
    """Every edit is large."""
    with open_service(runtime, Settings(large_edit_workers=1, large_edit_chars=1)) as opened:
        yield opened


def told(result: ApplyResult) -> ApplyResult:
    """Without what differs from run to run."""
    stats = replace(result.stats, prefill_s=0, decode_s=0, draft_s=0, cached_prompt_tokens=0, prefill_passes=0)
    return replace(result, timings_s={}, stats=stats)


@pytest.mark.parametrize("strategy", ["exact", "auto", "model"])
def test_the_answer_is_the_same(strategy: str, runtime: Runtime, large: Service) -> None:
    request = replace(LAZY, strategy=strategy)  # type: ignore[arg-type]
    beside = large.apply(request)
    assert beside.merged_code == MERGED
    assert told(beside) == told(apply(request, runtime))
    assert beside.timings_s.keys() == apply(request, runtime).timings_s.keys()


def test_a_file_past_the_context_is_decided_in_windows_here(runtime: Runtime, large: Service) -> None:
    request = replace(LONG, strategy="model")
    beside = large.apply(request)
    assert (beside.strategy, beside.model) == ("windowed", "embedded")
    assert beside.stats.passes
    assert told(beside) == told(apply(request, runtime))


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (replace(LAZY, base_sha256="0" * 64), StaleBase),
        (
            replace(LAZY, update="<<<<<<< SEARCH\nnowhere(1)\n=======\nx\n>>>>>>> REPLACE\n", strategy="exact"),
            NeedsMoreContext,
        ),
        (replace(LONG, strategy="model", format="whole_file", update=LONG.original), ContextLimitExceeded),
    ],
)
def test_errors_are_the_same(request_: ApplyRequest, kind: type[ApplyError], runtime: Runtime, large: Service) -> None:
    with pytest.raises(kind) as beside:
        large.apply(request_)
    with pytest.raises(kind) as here:
        apply(request_, runtime)
    assert beside.value.as_dict() == here.value.as_dict()


def test_a_finding_that_fails_is_an_error_from_the_worker_too(runtime: Runtime, large: Service) -> None:
    request = replace(LAZY, strategy="model", instruction="Remove name_1()", on_verdict={"instruction": "fail"})
    with pytest.raises(CheckFailed) as beside:
        large.apply(request)
    with pytest.raises(CheckFailed) as here:
        apply(request, runtime)
    assert beside.value.as_dict() == here.value.as_dict()


# -- in a service ------------------------------------------------------------------------------------------------------
@pytest.fixture
def service(runtime: Runtime) -> Iterator[Service]:
    with open_service(runtime, Settings(large_edit_workers=1, large_edit_chars=LARGE_CHARS, max_active=1)) as opened:
        opened.apply(SMALL)
        yield opened
        assert opened.wait_until_idle(30)
        opened.check_integrity()


def exact(request: ApplyRequest, **changes: object) -> ApplyRequest:
    return replace(request, strategy="exact", **changes)  # type: ignore[arg-type]


def test_a_small_request_ends_while_a_huge_one_is_merged(service: Service) -> None:
    """Though only one edit of each kind runs at a time, and another huge one waits."""
    huge = [service.submit(exact(HUGE)) for _ in range(2)]
    assert wait_for(lambda: service.n_active == 1)
    for _ in range(3):
        assert service.apply(SMALL).merged_code == "a = 10\nb = 2\n"
    assert [ticket.terminal for ticket in huge] == [None, None]
    for ticket in huge:
        (final,) = ticket.events()
        assert isinstance(final, FinalEvent)
        assert final.result.merged_code == HUGE.original.replace("total_5000 = a + b", "total_5000 = a - b")


def test_a_huge_request_that_nobody_waits_for_ends_at_once(service: Service) -> None:
    late, gone = service.submit(exact(ENDLESS, timeout_s=0.2)), service.submit(exact(ENDLESS))
    with pytest.raises(DeadlineExceeded):
        list(late.events())
    assert wait_for(lambda: service.n_active == 1 and service.queue_length == 0)
    gone.cancel()
    assert service.wait_until_idle(5)
    assert service.apply(exact(LONG)).strategy == "exact"


def test_closing_does_not_wait_for_a_huge_request(runtime: Runtime) -> None:
    service = open_service(runtime, Settings())
    ticket = service.submit(exact(ENDLESS))
    assert wait_for(lambda: service.n_active == 1)
    service.close()
    assert isinstance(ticket.terminal, NotReady)
    assert not service.is_alive


def test_a_worker_that_is_killed_costs_one_request(service: Service) -> None:
    assert service._large is not None
    pool = service._large.pool
    service.apply(exact(LONG))
    assert wait_for(lambda: len(pool.pids) == 1)
    (pid,) = pool.pids
    ticket = service.submit(exact(ENDLESS))
    assert wait_for(lambda: pool.pids == [])
    assert pid is not None
    threading.Timer(0.2, os.kill, (pid, 9)).start()
    with pytest.raises(EngineFailure):
        list(ticket.events())
    assert service.apply(exact(LONG)).strategy == "exact"


def test_without_workers_the_engine_thread_does_everything(runtime: Runtime) -> None:
    with open_service(runtime, Settings(large_edit_workers=0)) as service:
        assert service._large is None
        assert service.apply(exact(LONG)).strategy == "exact"
