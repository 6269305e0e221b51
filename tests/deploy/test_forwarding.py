"""An edit at one of many engines: answered once, whatever engines do meanwhile."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from apply_service.deploy import forwarding
from apply_service.deploy.forwarding import EngineLost, Failed, Forwarding, Item, file_key
from apply_service.errors import (
    ApplyError,
    Cancelled,
    DeadlineExceeded,
    EngineFailure,
    NeedsMoreContext,
    NotReady,
    Overloaded,
)
from apply_service.service import Service
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, TokenEvent
from tests.doubles import make_result, wait_for

EDIT = ApplyRequest(original="old\n", update="new\n", path="a.py")
FINAL = FinalEvent(make_result())
LOST = EngineLost()
HANGS = object()
"""In a script: the engine says nothing more."""

Line = Item | BaseException | object


class ScriptedEngines:
    """Each try gets the next script: items are said, exceptions raised."""

    def __init__(self, *scripts: Sequence[Line]) -> None:
        self._scripts = list(scripts)
        self.asked: list[tuple[ApplyRequest, str]] = []
        self.n_closed = 0

    async def ask(self, request: ApplyRequest, key: str) -> AsyncGenerator[Item]:
        script = self._scripts[len(self.asked)]
        self.asked.append((request, key))
        try:
            for line in script:
                if line is HANGS:
                    await asyncio.Event().wait()
                if isinstance(line, BaseException):
                    raise line
                yield line  # type: ignore[misc]
        finally:
            self.n_closed += 1


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "BACK_OFFS_S", (0.0, 0.0, 0.0))


@contextmanager
def forwarding_to(engines: ScriptedEngines) -> Iterator[Service]:
    """An ingress's service; nothing may be lost in it."""
    with closing(Forwarding(engines)) as run, Service(run, is_remote=lambda _: True, max_threads=8) as service:
        yield service
        assert service.wait_until_idle(5)
        service.check_integrity()
        assert wait_for(lambda: engines.n_closed == len(engines.asked))


def events_of(*scripts: Sequence[Line]) -> list[ApplyEvent]:
    with forwarding_to(ScriptedEngines(*scripts)) as service:
        return list(service.submit(EDIT).events())


def error_of(*scripts: Sequence[Line]) -> ApplyError:
    with pytest.raises(ApplyError) as caught:
        events_of(*scripts)
    return caught.value


def text_of(events: Sequence[ApplyEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))


def test_events_pass_in_order() -> None:
    assert events_of([TokenEvent("ne"), TokenEvent("w\n"), FINAL]) == [TokenEvent("ne"), TokenEvent("w\n"), FINAL]


def test_engines_are_asked_by_the_key_of_the_file() -> None:
    engines = ScriptedEngines([FINAL])
    with forwarding_to(engines) as service:
        service.apply(EDIT)
    assert [key for _, key in engines.asked] == [file_key(EDIT)]


def test_an_error_of_the_edit_is_the_same_error_here_and_not_tried_again() -> None:
    error = error_of([Failed(NeedsMoreContext("where?", value="anchor", remedy="more lines"))])
    assert isinstance(error, NeedsMoreContext)
    assert (error.value, error.remedy) == ("anchor", "more lines")


def test_an_engine_that_is_full_is_no_lost_one() -> None:
    assert isinstance(error_of([Overloaded("full")]), Overloaded)


@pytest.mark.parametrize("way", [[LOST], [], [Failed(NotReady("stopping"))]], ids=["dies", "says no end", "stops"])
def test_what_was_not_answered_is_asked_again(way: list[Line]) -> None:
    assert events_of(way, [TokenEvent("new\n"), FINAL]) == [TokenEvent("new\n"), FINAL]


def test_two_engines_in_a_row_may_go() -> None:
    assert events_of([LOST], [TokenEvent("n"), LOST], [FINAL]) == [TokenEvent("n"), FINAL]


def test_an_edit_that_kills_every_engine_stops_after_the_third() -> None:
    engines = ScriptedEngines([LOST], [LOST], [LOST])
    with forwarding_to(engines) as service, pytest.raises(EngineFailure) as caught:
        service.apply(EDIT)
    assert caught.value.value == len(engines.asked) == 3


@pytest.mark.parametrize("cut", range(7))
def test_a_stream_that_begins_again_writes_nothing_twice(cut: int) -> None:
    before = [TokenEvent(char) for char in "abcdef"[:cut]]
    events = events_of([*before, LOST], [TokenEvent("ab"), TokenEvent("cde"), TokenEvent("f"), FINAL])
    assert text_of(events) == "abcdef"
    assert events[-1] == FINAL


def test_a_stream_may_be_lost_twice() -> None:
    first, second = [TokenEvent("abc"), LOST], [TokenEvent("ab"), LOST]
    assert text_of(events_of(first, second, [TokenEvent("abcd"), FINAL])) == "abcd"


def test_another_text_is_not_mixed_into_the_one_that_was_streamed() -> None:
    events = events_of([TokenEvent("abc"), LOST], [TokenEvent("abX"), TokenEvent("def"), FINAL])
    assert events == [TokenEvent("abc"), FINAL]


def test_a_begun_stream_that_no_engine_can_finish_ends_in_an_error() -> None:
    events: list[ApplyEvent] = []
    with forwarding_to(ScriptedEngines([TokenEvent("ab"), LOST], [LOST], [LOST])) as service:
        ticket = service.submit(EDIT)
        with pytest.raises(EngineFailure):
            events.extend(ticket.events())
        assert isinstance(ticket.terminal, EngineFailure)


def test_each_try_has_the_time_that_is_left() -> None:
    engines = ScriptedEngines([LOST], [FINAL])
    with forwarding_to(engines) as service:
        service.apply(ApplyRequest("old\n", "new\n", timeout_s=20.0))
    first, second = (request.timeout_s for request, _ in engines.asked)
    assert first is not None
    assert second is not None
    assert 0 < second < first <= 20.0


def test_the_deadline_is_kept_where_the_engine_hangs() -> None:
    with (
        forwarding_to(ScriptedEngines([HANGS])) as service,
        pytest.raises(DeadlineExceeded) as caught,
    ):
        service.apply(ApplyRequest("old\n", "new\n", timeout_s=0.05))
    assert caught.value.value == 0.05


def test_a_caller_who_goes_away_stops_the_engine() -> None:
    engines = ScriptedEngines([TokenEvent("n"), HANGS])
    with forwarding_to(engines) as service:
        events = service.submit(EDIT).events()
        assert next(events) == TokenEvent("n")
        events.close()
        assert wait_for(lambda: engines.n_closed == 1)


def test_cancelling_ends_the_ticket() -> None:
    engines = ScriptedEngines([HANGS])
    with forwarding_to(engines) as service:
        ticket = service.submit(EDIT)
        assert wait_for(lambda: len(engines.asked) == 1)
        ticket.cancel()
        with pytest.raises(Cancelled):
            list(ticket.events())


def test_a_foreign_exception_is_an_engine_failure() -> None:
    assert isinstance(error_of([RuntimeError("unforeseen")]), EngineFailure)


def test_a_closing_ingress_lets_its_edits_finish() -> None:
    release = threading.Event()

    class SlowEngines(ScriptedEngines):
        async def ask(self, request: ApplyRequest, key: str) -> AsyncGenerator[Item]:
            self.asked.append((request, key))
            self.n_closed += 1
            await asyncio.to_thread(release.wait, 5)
            yield FINAL

    engines = SlowEngines()
    with closing(Forwarding(engines)) as run, Service(run, is_remote=lambda _: True, max_threads=8) as service:
        tickets = [service.submit(EDIT) for _ in range(3)]
        assert wait_for(lambda: len(engines.asked) == 3)
        threading.Timer(0.05, release.set).start()
        service.close(drain_timeout_s=5)
        assert [list(ticket.events()) for ticket in tickets] == [[FINAL]] * 3
        with pytest.raises(NotReady):
            service.submit(EDIT)


def test_many_edits_at_once_keep_their_answers_apart() -> None:
    class Echo:
        """Says what it was asked, later for earlier edits; loses every third at first."""

        lost: set[str] = set()  # noqa: RUF012

        async def ask(self, request: ApplyRequest, key: str) -> AsyncGenerator[Item]:
            number = int(request.original)
            await asyncio.sleep((20 - number % 20) / 2000)
            yield TokenEvent(request.original)
            if number % 3 == 0 and request.original not in self.lost:
                self.lost.add(request.original)
                raise EngineLost
            yield FinalEvent(make_result(request.original))

    with closing(Forwarding(Echo())) as run, Service(run, is_remote=lambda _: True) as service:
        tickets = [service.submit(ApplyRequest(str(i), "u")) for i in range(60)]
        for number, ticket in enumerate(tickets):
            *tokens, final = ticket.events()
            assert text_of(tokens) == str(number)
            assert isinstance(final, FinalEvent)
            assert final.result.merged_code == str(number)
        assert service.wait_until_idle(5)
        service.check_integrity()
