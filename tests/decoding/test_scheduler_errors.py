"""Packed passes in which something breaks: the error is its own sequence's, and its slots come back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from apply_service.decoding.scheduler import Scheduler
from apply_service.drafting.drafter import NoDraft
from apply_service.errors import Cancelled
from apply_service.protocols import Draft, Drafter, Part, TokenSet, Verification
from tests.decoding.test_scheduler import VOCAB, Drafting, alone, finish, writing
from tests.doubles import CancelledWhen
from tests.fake_engine import FakeEngine, hashed

T = TypeVar("T")


class Failing(Exception):
    pass


class Panic(BaseException):
    """As native code raises it: no `Exception`."""


class FailingDrafter(NoDraft):
    def __init__(self, place: str, error: BaseException) -> None:
        self.place, self.error = place, error

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        return self._fail("propose", Draft([3] * limit, 0.9))

    def observe(self, verification: Verification) -> None:
        self._fail("observe", None)

    def close(self) -> None:
        self._fail("close", None)

    def _fail(self, place: str, value: T) -> T:
        if place == self.place:
            raise self.error
        return value


class NoProposal(NoDraft):
    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        return None  # type: ignore[return-value]


class Allowing:
    """A constraint that says `masks`, whatever the window."""

    def __init__(self, masks: Callable[[int], Sequence[TokenSet | None]]) -> None:
        self._masks = masks

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        return self._masks(len(draft_ids) + 1)


def fail(_: object = None) -> Sequence[TokenSet | None]:
    raise Failing


FAULTS: dict[str, Callable[[], dict[str, object]]] = {
    "drafter, propose": lambda: {"drafter": FailingDrafter("propose", Failing())},
    "drafter, observe": lambda: {"drafter": FailingDrafter("observe", Failing())},
    "drafter, close": lambda: {"drafter": FailingDrafter("close", Failing())},
    "drafter, panic": lambda: {"drafter": FailingDrafter("propose", Panic())},
    "drafter, no draft": lambda: {"drafter": NoProposal()},
    "drafter, nan": lambda: {"drafter": Odd(Draft([3], float("nan")))},
    "constraint": lambda: {"constraint": Allowing(fail)},
    "constraint, too few masks": lambda: {"drafter": Drafting(), "constraint": Allowing(lambda n: [None] * (n - 1))},
    "constraint, nothing allowed": lambda: {"constraint": Allowing(lambda n: [np.array([], np.int64)] * n)},
    "constraint, no such token": lambda: {"constraint": Allowing(lambda n: [np.array([VOCAB], np.int64)] * n)},
    "stop finder": lambda: {"find_stop": fail},
    "cancelled": lambda: {"deadline": CancelledWhen(fail)},
    "forward": lambda: {"name": 12},
}


class Odd(NoDraft):
    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        return self._draft


def breaking(ids: Sequence[int]) -> npt.NDArray[np.float32]:
    """A forward that fails on sequences that begin with 12, four tokens in."""
    if ids[0] == 12 and len(ids) > 4:
        raise Failing
    return hashed(VOCAB)(ids)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_is_its_own_sequences_alone(fault: str) -> None:
    engine = FakeEngine(breaking, max_rows=64)
    wanted = [alone(writing(engine, name)) for name in (1, 2, 3)]
    options = FAULTS[fault]()
    name = options.pop("name", 5)
    good = [writing(engine, one, drafter=Drafting()) for one in (1, 2, 3)]
    broken = writing(engine, name, **options)  # type: ignore[arg-type]
    errors = finish([good[0], broken, *good[1:]])
    assert set(errors) <= {1}
    assert bool(errors) == (fault != "drafter, nan"), "how sure a draft is only decides how many rows it gets"
    assert [one.output_ids for one in good] == wanted
    assert engine.n_open == 0, "the slots are free although nobody closed the decoding"


def test_a_pass_of_several_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once, before each goes on alone; whoever measures may end it there."""
    engine = FakeEngine(breaking, max_rows=64)
    with caplog.at_level(logging.WARNING):
        finish([writing(engine, 1), writing(engine, 12)])
    assert caplog.text.count("a pass of several sequences failed") == 1
    told: list[Exception] = []
    scheduler, decodings = Scheduler(on_failure=told.append), [writing(engine, 1), writing(engine, 12)]
    while not told:
        scheduler.run_pass([one for one in decodings if one.finish_reason is None])
    assert [type(error) for error in told] == [Failing]
    for one in decodings:
        one.close()


def test_a_drafter_that_fails_when_closed_costs_no_slots() -> None:
    engine = FakeEngine(hashed(VOCAB))
    decoding = writing(engine, drafter=FailingDrafter("close", Failing()))
    Scheduler().run_pass([decoding])
    with pytest.raises(Failing):
        decoding.close()
    assert engine.n_open == 0
    decoding.close()


def test_the_first_error_stays() -> None:
    drafter: Drafter = FailingDrafter("close", Panic())
    decoding = writing(FakeEngine(hashed(VOCAB)), drafter=drafter, deadline=CancelledWhen(lambda: True))
    assert isinstance(finish([decoding])[0], Cancelled)


def test_cancelled_while_its_prompt_is_read() -> None:
    engine = FakeEngine(hashed(VOCAB), max_draft=15, prefill_grain=8)
    gone = {2: False}
    decodings = [
        writing(engine, i + 1, n_prompt=41, deadline=CancelledWhen(lambda i=i: gone.get(i, False))) for i in range(4)
    ]
    scheduler = Scheduler()
    scheduler.run_pass(decodings)
    assert engine.n_open == 4
    gone[2] = True
    outcomes = scheduler.run_pass(decodings)
    assert isinstance(outcomes[2], Cancelled)
    assert engine.n_open == 3
    rest = [*decodings[:2], decodings[3]]
    assert finish(rest) == {}
    assert [one.output_ids for one in rest] == [alone(writing(engine, name, n_prompt=41)) for name in (1, 2, 4)]


def test_a_failing_pass_is_not_the_end_of_the_next() -> None:
    """A fault of the device that passes: each sequence is tried alone in the pass where all together failed."""

    class Flickering(FakeEngine):
        n_failed = 0

        def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
            if len(parts) > 1:
                self.n_failed += 1
                raise Failing
            return super().step(parts)

    engine = Flickering(hashed(VOCAB))
    decodings = [writing(engine, name, n_prompt=3) for name in (1, 2, 3)]
    assert finish(decodings) == {}
    assert engine.n_failed > 0
    calm = FakeEngine(hashed(VOCAB))
    assert [one.output_ids for one in decodings] == [alone(writing(calm, name, n_prompt=3)) for name in (1, 2, 3)]
