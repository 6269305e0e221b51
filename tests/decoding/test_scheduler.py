"""Packed passes: who is admitted and who gets rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass, PassResult, Scheduler, drive_alone
from apply_service.decoding.verify import Decoding, Step
from apply_service.drafting.drafter import NoDraft
from apply_service.errors import Cancelled, ContextLimitExceeded, DeadlineExceeded, Overloaded
from apply_service.protocols import Draft, Part, Verification, Window
from apply_service.types import FinishReason
from tests.fake_engine import FakeEngine, FakeSession, hashed

VOCAB = 13


class Watched(FakeEngine):
    """Notes the parts of every pass that ran: prompt id, rows, whether a window."""

    def __init__(self, **options: object) -> None:
        super().__init__(options.pop("logits", hashed(VOCAB)), **options)  # type: ignore[arg-type]
        self.passes: list[list[tuple[int, int, bool]]] = []

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        planned = [(first_id(part), part.n_rows, isinstance(part, Window)) for part in parts]
        answers = super().step(parts)
        self.passes.append(planned)
        return answers


def first_id(part: Part) -> int:
    assert isinstance(part.session, FakeSession)
    return part.session.prompt_ids[0]


def writing(engine: FakeEngine, name: int = 1, *, n_prompt: int = 1, limit: int = 8, **options: object) -> Decoding:
    """A decoding that never stops before its limit; its prompt begins with `name`."""
    drafter = options.pop("drafter", NoDraft())
    return Decoding(engine, [name] * n_prompt, drafter, limit, frozenset(), **options)  # type: ignore[arg-type]


class Drafting(NoDraft):
    """Drafts tokens that are mostly wrong, as many as it is asked for."""

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        return Draft([3] * limit, 0.9, "threes")


def run(scheduler: Scheduler, decodings: Sequence[Decoding]) -> Iterator[list[PassResult]]:
    """Passes until all have ended, the errors of those that fail included; a hundred idle passes are one too many."""
    active, n_idle = list(decodings), 0
    while active:
        before = progress(active)
        outcomes = scheduler.run_pass(active)
        n_idle = n_idle + 1 if progress(active) == before and not any(outcomes) else 0
        assert n_idle < 100, "nothing happens any more"
        yield outcomes
        pairs = zip(active, outcomes, strict=True)
        active = [one for one, out in pairs if one.finish_reason is None and not isinstance(out, BaseException)]


def progress(decodings: Sequence[Decoding]) -> int:
    return sum(0 if one.session is None else one.session.length for one in decodings)


def finish(decodings: Sequence[Decoding]) -> dict[int, BaseException]:
    """Run all to their ends; the errors, by the place of who had them."""
    errors: dict[int, BaseException] = {}
    active = list(decodings)
    scheduler = Scheduler()
    for _ in range(10_000):
        if not active:
            return errors
        outcomes = scheduler.run_pass(active)
        for one, outcome in zip(active, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                errors[decodings.index(one)] = outcome
        active = [one for one in active if one.finish_reason is None and decodings.index(one) not in errors]
    raise AssertionError("nothing happens any more")


def alone(decoding: Decoding) -> list[int]:
    assert finish([decoding]) == {}
    return decoding.output_ids


# -- admission ---------------------------------------------------------------------------------------------------------
def test_none_overtakes_one_that_waits_for_room() -> None:
    engine = FakeEngine(hashed(VOCAB), max_open=2)
    decodings = [writing(engine, i + 1, limit=3 + i) for i in range(6)]
    admitted: list[int] = []
    for _ in run(Scheduler(), decodings):
        admitted += [i for i, one in enumerate(decodings) if one.session is not None and i not in admitted]
        assert engine.n_open <= 2
    assert admitted == [0, 1, 2, 3, 4, 5]
    assert [len(one.output_ids) for one in decodings] == [3, 4, 5, 6, 7, 8]
    assert engine.n_open == 0


def test_a_small_one_does_not_overtake_a_large_one() -> None:
    class Slots(FakeEngine):
        n_free = 20

        def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = ""):  # type: ignore[no-untyped-def]
            return None if max_new_tokens > self.n_free else super().open(prompt_ids, max_new_tokens)

    engine = Slots(hashed(VOCAB))
    large, small = writing(engine, limit=30), writing(engine, limit=2)
    scheduler = Scheduler()
    assert scheduler.run_pass([large, small]) == [None, None]
    assert small.session is None
    engine.n_free = 40
    assert all(scheduler.run_pass([large, small]))


def test_room_on_another_engine_is_not_waited_for() -> None:
    full, free = FakeEngine(hashed(VOCAB), max_open=0), FakeEngine(hashed(VOCAB))
    outcomes = Scheduler().run_pass([writing(full), writing(free)])
    assert outcomes[0] is None
    assert isinstance(outcomes[1], Step)


def test_one_that_can_never_be_admitted_keeps_nobody_waiting() -> None:
    engine = FakeEngine(hashed(VOCAB), context_limit=50)
    outcomes = Scheduler().run_pass([writing(engine, limit=100), writing(engine)])
    assert isinstance(outcomes[0], ContextLimitExceeded)
    assert isinstance(outcomes[1], Step)


@pytest.mark.parametrize("way_out", ["cancelled", "late"])
def test_one_that_gives_up_waiting_keeps_nobody_waiting(way_out: str) -> None:
    engine = FakeEngine(hashed(VOCAB), max_open=1)
    first = writing(engine, limit=5)
    second = writing(engine, deadline=Deadline(600))
    third = writing(engine)
    scheduler = Scheduler()
    scheduler.run_pass([first, second, third])
    assert second.session is None
    if way_out == "late":
        second.deadline = Deadline(0)
    else:
        second.deadline.cancel()
    outcomes = scheduler.run_pass([first, second, third])
    assert type(outcomes[1]) is {"cancelled": Cancelled, "late": DeadlineExceeded}[way_out]
    assert finish([first, third]) == {}
    assert engine.n_open == 0


def test_slots_are_free_at_the_end_of_the_pass_that_ends_a_sequence() -> None:
    """The bug: a task that decodes several windows holds its finished ones, so the last could wait for their slots for
    ever."""
    engine = FakeEngine(hashed(VOCAB), max_open=1)
    first, second = writing(engine, limit=1), writing(engine, limit=1)

    def task() -> Iterator[NextPass]:
        with first, second:
            yield NextPass((first, second))
            assert first.finish_reason is FinishReason.LENGTH
            assert engine.n_open == 0
            yield NextPass((second,))

    assert list(drive_alone(task())) == []  # type: ignore[arg-type]
    assert second.finish_reason is FinishReason.LENGTH


def test_alone_without_room_is_an_error_not_a_wait() -> None:
    engine = FakeEngine(hashed(VOCAB), max_open=0)

    def task() -> Iterator[NextPass]:
        yield NextPass((writing(engine),))

    with pytest.raises(Overloaded):
        list(drive_alone(task()))  # type: ignore[arg-type]


# -- rows --------------------------------------------------------------------------------------------------------------
def test_prompts_are_read_beside_windows() -> None:
    engine = Watched(max_draft=63, prefill_grain=16)
    writer = writing(engine, 1, limit=40, drafter=Drafting())
    reader = writing(engine, 2, n_prompt=70)
    assert finish([writer, reader]) == {}
    shared = [one for one in engine.passes if len(one) == 2]
    assert [(rows, is_window) for _, rows, is_window in shared[0]] == [(32, True), (32, False)]
    read = [(rows, is_window) for one in engine.passes for name, rows, is_window in one if name == 2]
    assert read[:3] == [(32, False), (32, False), (6, True)]
    assert reader.stats.prefill_passes == 2
    assert reader.stats.prefill_s > 0


@pytest.mark.parametrize(
    ("max_draft", "max_rows", "grain"), [(0, 1, 1), (1, 2, 2), (8, 9, 9), (15, 16, 16), (63, 64, 64), (0, 64, 64)]
)
def test_however_few_the_rows_nobody_starves(max_draft: int, max_rows: int, grain: int) -> None:
    """The bug: a chunk of a prompt did not fit beside any window, so prompts were read only when nobody wrote."""
    engine = Watched(max_draft=max_draft, max_rows=max_rows)
    engine.prefill_grain = grain
    writers = [writing(engine, 1, limit=60, drafter=Drafting()) for _ in range(3)]
    readers = [writing(engine, 2, n_prompt=3 * grain + 1, limit=1) for _ in range(3)]
    decodings = [*writers, *readers]
    for _ in run(Scheduler(), decodings):
        if all(reader.finish_reason for reader in readers):
            break
    n_passes = [writer.stats.passes for writer in writers]
    assert min(n_passes) > 0, "windows go on while prompts are read"
    assert max(len(writer.output_ids) for writer in writers) < 60, "and prompts while windows go on"
    assert max(n_passes) - min(n_passes) <= 1


def test_windows_do_not_wait_for_an_endless_stream_of_prompts() -> None:
    engine = Watched(max_draft=3, max_rows=4)
    engine.prefill_grain = 4
    scheduler, writer = Scheduler(), writing(engine, 1, limit=50)
    for _ in range(20):
        scheduler.run_pass([writer, writing(engine, 2, n_prompt=5)])
    assert 8 <= len(writer.output_ids) <= 12


def test_more_sequences_than_rows_take_turns() -> None:
    engine = Watched(max_draft=3, max_rows=4)
    decodings = [writing(engine, i + 1, limit=100) for i in range(10)]
    scheduler = Scheduler()
    for n in range(1, 60):
        scheduler.run_pass(decodings)
        n_passes = [one.stats.passes for one in decodings]
        assert sum(n_passes) == 4 * n
        assert max(n_passes) - min(n_passes) <= 1
    assert all(len(one) == 4 for one in engine.passes)


def test_the_first_to_come_is_read_first() -> None:
    engine = Watched(max_draft=31, prefill_grain=16)
    decodings = [writing(engine, i + 1, n_prompt=33, limit=1) for i in range(3)]
    assert finish(decodings) == {}
    read = [[name for name, rows, _ in one if rows > 1] for one in engine.passes]
    assert read[:3] == [[1], [2], [2]]


def test_a_prompt_and_its_first_window_take_one_pass() -> None:
    engine = Watched(max_draft=63, prefill_grain=16)
    one = writing(engine, 1, n_prompt=30, limit=9, drafter=Drafting())
    Scheduler().run_pass([one])
    assert engine.passes == [[(1, 38, True)]]
    assert one.output_ids
    other = writing(engine, 1, n_prompt=30, limit=9)
    Scheduler().run_pass([other], only_read=True)
    assert engine.passes[1:] == [[(1, 29, False)]]
    assert not other.output_ids


def test_a_long_prompt_does_not_hold_up_a_short_one() -> None:
    engine = Watched(max_draft=31, prefill_grain=16)
    long, short = writing(engine, 1, n_prompt=3000, limit=1), writing(engine, 2, n_prompt=20, limit=1)
    assert finish([long, short]) == {}
    assert max(i for i, one in enumerate(engine.passes) if any(name == 2 for name, _, _ in one)) < 5


def test_short_prompts_do_not_hold_up_a_long_one() -> None:
    """Two new ones in every pass, each enough to fill it."""
    engine = Watched(max_draft=31, prefill_grain=16)
    scheduler, long = Scheduler(), writing(engine, 1, n_prompt=321, limit=1)
    running, n_passes = [long], 0
    while long in running:
        n_passes += 1
        running += [writing(engine, 2, n_prompt=33, limit=1) for _ in range(2)]
        scheduler.run_pass(running)
        running = [one for one in running if one.finish_reason is None]
        assert n_passes < 30


def test_a_pass_never_has_more_rows_than_it_may() -> None:
    """The double asserts it; here with windows, prompts and rotation at once."""
    engine = Watched(max_draft=7, max_rows=12, prefill_grain=4)
    decodings = [writing(engine, i + 1, n_prompt=1 + 5 * (i % 4), limit=9, drafter=Drafting()) for i in range(20)]
    assert finish(decodings) == {}
    assert max(sum(rows for _, rows, _ in one) for one in engine.passes) <= 12


def test_a_drafter_that_gives_more_than_it_is_asked_for_is_cut() -> None:
    """Its window would reach into other sequences' slots."""

    class Greedy(NoDraft):
        def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
            return Draft([3] * 500, 1.0)

    engine = FakeEngine(hashed(VOCAB), max_draft=300)
    greedy = writing(engine, limit=5, drafter=Greedy())
    assert alone(greedy) == alone(writing(engine, limit=5))
