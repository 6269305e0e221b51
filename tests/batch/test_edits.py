"""Several edits through one service."""

import asyncio
import threading
from collections.abc import Generator, Iterator

import pytest

from apply_service.batch.run import apply_edits
from apply_service.deadline import Deadline
from apply_service.errors import (
    CheckFailed,
    EngineFailure,
    InvalidField,
    NeedsMoreContext,
    Overloaded,
    StaleBase,
)
from apply_service.pipeline import run as run_pipeline
from apply_service.service import Service
from apply_service.target import Runtime, Target
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, Verdict
from tests.doubles import ScriptedRun, make_result, wait_for


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def request(path: str, text: str, old: str, new: str, **fields: object) -> ApplyRequest:
    return ApplyRequest(text, block(old, new), path=path, **fields)  # type: ignore[arg-type]


GOOD = request("a.py", "x = 1\r\n", "x = 1", "x = 2")
NEW = ApplyRequest("", "print(1)\n", path="new.py", format="whole_file")
LOST = request("b.py", "y = 1\n", "nowhere to be found = 3", "y = 2", strategy="exact")
BROKEN = request("c.py", "def f():\n    return 1\n", "    return 1", "    return (1")


def no_model(name: str) -> Target:
    raise AssertionError("exact edits need no model")


@pytest.fixture
def service() -> Iterator[Service]:
    """The real pipeline, without a model."""
    runtime = Runtime(load=no_model)
    with Service(lambda request, deadline: run_pipeline(request, runtime, deadline), queue_limit=4) as service:
        yield service
        assert service.wait_until_idle(5)
        service.check_integrity()


def test_every_file_is_applied(service: Service) -> None:
    result = asyncio.run(apply_edits(service.submit, [GOOD, NEW], "all_or_nothing"))
    assert result.status == "applied"
    first, second = result.items
    assert (first.path, first.source, first.action, first.status) == ("a.py", "a.py", "modify", "ok")
    assert (second.path, second.source, second.action) == ("new.py", None, "create")
    assert first.result is not None
    assert first.result.merged_code == "x = 2\r\n"
    assert second.result is not None
    assert second.result.merged_code == "print(1)\n"
    assert {verdict.check for verdict in first.verdicts} >= {"syntax", "no_op", "truncation"}


@pytest.mark.parametrize("bad", [LOST, BROKEN])
def test_all_or_nothing_withholds_everything(service: Service, bad: ApplyRequest) -> None:
    result = asyncio.run(apply_edits(service.submit, [GOOD, bad, NEW], "all_or_nothing"))
    assert result.status == "refused"
    assert [item.status for item in result.items] == ["withheld", "failed", "withheld"]
    assert [item.result for item in result.items] == [None] * 3
    assert result.items[0].verdicts  # what was found is told all the same


def test_independent_files_stand_for_themselves(service: Service) -> None:
    result = asyncio.run(apply_edits(service.submit, [GOOD, LOST, BROKEN], "independent"))
    assert result.status == "partial"
    assert [item.status for item in result.items] == ["ok", "failed", "failed"]
    assert isinstance(result.items[1].error, NeedsMoreContext)
    assert isinstance(result.items[2].error, CheckFailed)
    assert result.items[2].error.value == ["syntax"]
    assert any(verdict.check == "syntax" and verdict.severity == "error" for verdict in result.items[2].verdicts)


def test_findings_are_accepted_and_refused_by_rule(service: Service) -> None:
    accepted = request("c.py", BROKEN.original, "    return 1", "    return (1", on_verdict={"syntax": "warn"})
    same = request("d.py", "x = 1\n", "x = 1", "x = 1")
    refused = request("e.py", "x = 1\n", "x = 1", "x = 1", on_verdict={"no_op": "fail"})
    result = asyncio.run(apply_edits(service.submit, [accepted, same, refused], "independent"))
    assert [item.status for item in result.items] == ["ok", "ok", "failed"]
    assert any(v.check == "no_op" and v.severity == "warning" for v in result.items[2].verdicts)


def test_the_diff_stands_at_the_item(service: Service) -> None:
    asked = request("a.py", "x = 1\n", "x = 1", "x = 2", diff=True)
    (item,) = asyncio.run(apply_edits(service.submit, [asked], "independent")).items
    assert item.diff is not None
    assert "+x = 2" in item.diff
    assert item.result is not None
    assert item.result.diff is None


def test_a_stale_base_fails_its_file(service: Service) -> None:
    stale = request("s.py", "x = 1\n", "x = 1", "x = 2", base_sha256="0" * 64)
    result = asyncio.run(apply_edits(service.submit, [GOOD, stale], "independent"))
    assert isinstance(result.items[1].error, StaleBase)


def test_one_file_twice_and_no_file_at_all(service: Service) -> None:
    with pytest.raises(InvalidField) as caught:
        asyncio.run(apply_edits(service.submit, [GOOD, NEW, GOOD], "independent"))
    assert caught.value.value == "a.py"
    with pytest.raises(InvalidField):
        asyncio.run(apply_edits(service.submit, [], "independent"))


def test_more_edits_than_the_queue_holds(service: Service) -> None:
    requests = [request(f"{i}.py", f"x = {i}\n", f"x = {i}", f"y = {i}") for i in range(40)]
    result = asyncio.run(apply_edits(service.submit, requests, "all_or_nothing"))
    assert [item.result.merged_code for item in result.items if item.result] == [f"y = {i}\n" for i in range(40)]


class Gated:
    """Holds every request back until the gate opens; answers with the request's own update."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.n_started = 0

    def __call__(self, request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        self.n_started += 1
        while not self.gate.wait(0.002):
            if deadline.is_over():
                return
        yield FinalEvent(make_result(request.update, verdicts=(Verdict("no_op", "pass"),)))


def test_all_edits_are_submitted_at_once() -> None:
    run = Gated()

    async def main(service: Service) -> None:
        task = asyncio.create_task(
            apply_edits(service.submit, [ApplyRequest("o", str(i)) for i in range(5)], "independent")
        )
        while service.queue_length < 4:
            await asyncio.sleep(0.002)
        run.gate.set()
        result = await task
        assert [item.result.merged_code for item in result.items if item.result] == list("01234")

    with Service(run) as service:
        asyncio.run(main(service))


def test_a_full_queue_of_others_refuses_the_batch() -> None:
    run = Gated()
    with Service(run, queue_limit=1) as service:
        tickets = [service.submit(ApplyRequest("o", "a"))]
        assert wait_for(lambda: run.n_started == 1)
        tickets.append(service.submit(ApplyRequest("o", "b")))
        with pytest.raises(Overloaded):
            asyncio.run(apply_edits(service.submit, [GOOD, NEW], "all_or_nothing"))
        run.gate.set()
        for ticket in tickets:
            list(ticket.events())


def test_cancelling_the_batch_cancels_its_edits() -> None:
    run = Gated()

    async def main(service: Service) -> None:
        task = asyncio.create_task(apply_edits(service.submit, [ApplyRequest("o", "u")] * 3, "independent"))
        while not run.n_started:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Service(run) as service:
        asyncio.run(main(service))
        assert service.wait_until_idle(5)
        service.check_integrity()
    assert run.n_started == 1


def test_a_crash_costs_only_its_file() -> None:
    with Service(ScriptedRun(error=RuntimeError("x"))) as service:
        result = asyncio.run(apply_edits(service.submit, [ApplyRequest("o", "u")] * 2, "independent"))
    assert [type(item.error) for item in result.items] == [EngineFailure] * 2
    assert result.status == "refused"


@pytest.mark.parametrize("rule", ["warn", "fail"])
def test_a_rule_for_no_check_is_refused(service: Service, rule: str) -> None:
    misspelt = request("b.py", "x = 1\n", "x = 1", "x = 2", on_verdict={"sintax": rule})
    with pytest.raises(InvalidField) as caught:
        asyncio.run(apply_edits(service.submit, [GOOD, misspelt], "independent"))
    assert caught.value.value == ["sintax"]
