"""The double keeps the engine's contract, and notices where its callers do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from apply_service.protocols import Part, Prefill, SamplingParams, Session, Window
from tests.fake_engine import FakeEngine, FakeSession, ScriptedEngine, hashed, scripted

VOCAB = 13


def window(session: Session, last_id: int, draft_ids: Sequence[int] = ()) -> Window:
    return Window(session, last_id, draft_ids, SamplingParams())


def opened(engine: FakeEngine, prompt: Sequence[int], limit: int = 20, *, owner: str = "") -> FakeSession:
    session = engine.open(prompt, limit, owner=owner)
    assert isinstance(session, FakeSession)
    return session


def test_a_pass_that_fails_changes_no_session() -> None:
    """The bug: sessions before the one that failed had moved on, and were verified a second time alone."""

    def logits(ids: Sequence[int]) -> npt.NDArray[np.float32]:
        if ids[0] == 2 and len(ids) > 2:
            raise RuntimeError("device lost")
        return hashed(VOCAB)(ids)

    engine = FakeEngine(logits, max_rows=64)
    good, bad, reading = opened(engine, [1]), opened(engine, [2]), opened(engine, [1] * 9)
    draft = engine.step([window(opened(engine, [1]), 1)])[0]
    assert draft is not None
    parts: list[Part] = [window(good, 1, draft.choices), Prefill(reading, 8), window(bad, 2, [5, 5, 5])]
    bad.ids += [2, 2]
    with pytest.raises(RuntimeError):
        engine.step(parts)
    assert (good.ids, reading.ids, bad.ids) == ([], [], [2, 2])
    answers = engine.step(parts[:2])
    assert answers[0] is not None
    assert answers[0].n_accepted == 1
    assert (good.length, reading.length) == (2, 8)


def test_a_session_holds_what_was_accepted_and_nothing_else() -> None:
    for engine in (FakeEngine(scripted(1, [5, 6, 7], VOCAB)), ScriptedEngine([5, 6, 7], max_draft=63)):
        session = opened(engine, [1])
        engine.step([window(session, 1, [5, 9, 9])])
        assert session.ids == [1, 5]


def test_known_beginnings_are_whole_grains_of_the_same_owner() -> None:
    engine = FakeEngine(scripted(1, [5], VOCAB), prefill_grain=4, n_kept_prompts=2)
    first = opened(engine, list(range(12)), owner="me")
    assert first.n_cached == 0
    engine.step([Prefill(first, 11)])
    first.close()
    assert opened(engine, list(range(12)), owner="me").n_cached == 8
    assert opened(engine, [*range(6), 0, 0, 0], owner="me").n_cached == 4
    assert opened(engine, list(range(4)), owner="me").n_cached == 0
    assert opened(engine, list(range(12)), owner="you").n_cached == 0


@pytest.mark.parametrize("fault", ["rows", "shared", "closed", "room", "grain"])
def test_what_no_engine_could_do_is_noticed(fault: str) -> None:
    engine = FakeEngine(hashed(VOCAB), max_draft=8, max_rows=16, prefill_grain=4)
    session, long = opened(engine, [1], 3), opened(engine, [1] * 14)
    faulty: dict[str, list[Part]] = {
        "rows": [window(opened(engine, [1]), 1, [2] * 8) for _ in range(2)],
        "shared": [window(session, 1), window(session, 1)],
        "closed": [window(session, 1)],
        "room": [window(session, 1, [2] * 4)],
        "grain": [Prefill(long, 5)],
    }
    if fault == "closed":
        session.close()
    with pytest.raises(AssertionError):
        engine.step(faulty[fault])
