"""The replay engine writes what is known, whatever is drafted, through real forwards, and has no opinion of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from apply_eval.replay import ReplayEngine, find_shape, load_replay, make_model
from apply_service.protocols import Prefill, SamplingParams, Session, Verification, Window
from benchmarks.gpu.measure import format_of

CPU = torch.device("cpu")
TINY = find_shape("replay:tiny-2m")
PROMPT = list(range(100, 180))
ANSWER = [*range(1000, 1060), 32_773]


@pytest.fixture(scope="module")
def engine() -> ReplayEngine:
    return ReplayEngine(make_model(TINY, CPU)[0], name="replay:tiny-2m", kv_cache_bytes=0)


def opened(engine: ReplayEngine, prompt_ids: Sequence[int]) -> Session:
    """A session with its prompt read."""
    session = engine.open(prompt_ids, 100)
    assert isinstance(session, Session)
    while session.n_pending:
        engine.step([Prefill(session, min(engine.prefill_grain, session.n_pending))])
    return session


def verified(engine: ReplayEngine, session: Session, last_id: int, draft: Sequence[int]) -> Verification:
    found = engine.step([Window(session, last_id, draft, SamplingParams())])[0]
    assert found is not None
    return found


def test_right_drafts_stand_and_wrong_ones_fall(engine: ReplayEngine) -> None:
    engine.answers.expect(PROMPT, ANSWER)
    with opened(engine, PROMPT) as session:
        assert verified(engine, session, PROMPT[-1], ANSWER[:9]).choices == ANSWER[:10]
        assert verified(engine, session, ANSWER[9], [ANSWER[10], 5, ANSWER[12]]).choices == ANSWER[10:12]
        assert verified(engine, session, ANSWER[11], []).choices == [ANSWER[12]]
        assert verified(engine, session, ANSWER[12], ANSWER[13:]).choices == [*ANSWER[13:], ANSWER[-1]]


def test_sessions_of_one_pass_write_their_own_answers(engine: ReplayEngine) -> None:
    other = [1, 2, 3, 4]
    engine.answers.expect(PROMPT, ANSWER)
    engine.answers.expect(other, [77, 78, 32_773])
    with opened(engine, PROMPT) as first, opened(engine, other) as second:
        parts = [Window(second, 4, [77], SamplingParams()), Window(first, PROMPT[-1], [], SamplingParams())]
        found = engine.step(parts)
    assert [v.choices for v in found if v is not None] == [[77, 78], [ANSWER[0]]]


def test_sampling_writes_the_answer_as_well(engine: ReplayEngine) -> None:
    engine.answers.expect(PROMPT, ANSWER)
    with opened(engine, PROMPT) as session:
        found = engine.step([Window(session, PROMPT[-1], ANSWER[:3], SamplingParams(temperature=1.0, seed=3))])[0]
    assert found is not None
    assert found.choices == ANSWER[:4]


def test_it_gives_no_probabilities(engine: ReplayEngine) -> None:
    engine.answers.expect(PROMPT, ANSWER)
    with opened(engine, PROMPT) as session:
        assert verified(engine, session, PROMPT[-1], ANSWER[:3]).logprobs is None


def test_without_an_answer_the_random_model_chooses(engine: ReplayEngine) -> None:
    unknown = [*PROMPT, 5]
    with opened(engine, unknown) as session:
        first = verified(engine, session, 5, [])
    with opened(engine, unknown) as session:
        assert verified(engine, session, 5, []).choices == first.choices


def test_plain_knows_the_same_answers(engine: ReplayEngine) -> None:
    engine.answers.expect(PROMPT, ANSWER)
    plain = engine.plain()
    with opened(plain, PROMPT) as session:
        assert verified(plain, session, PROMPT[-1], []).choices == [ANSWER[0]]
    assert plain.row_count(1) == 1


def test_the_same_seed_makes_the_same_weights_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = (make_model(TINY, CPU, seed=1)[0] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    pairs = list(zip(first.parameters(), second.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    other = make_model(TINY, CPU, seed=2)[0]
    assert not torch.equal(other.model.embed_tokens.weight, first.model.embed_tokens.weight)


def test_the_model_has_the_shape_asked_for() -> None:
    model = make_model(find_shape("replay:tiny-10m"), CPU, "bfloat16")[0]
    assert sum(p.numel() for p in model.parameters()) == find_shape("replay:tiny-10m").n_params
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_8_bit_weights_come_with_the_shape() -> None:
    shape = replace(TINY, weights="fp8")
    assert format_of(make_model(shape, CPU, "bfloat16")[0]) == "fp8"
    assert format_of(make_model(shape, CPU, "bfloat16", weights="int8")[0]) == "int8"


def test_loading_measures_the_engine_as_any_other() -> None:
    loaded = load_replay("replay:tiny-2m", device="cpu", window=15, kv_cache_bytes=2**24)
    assert isinstance(loaded.engine, ReplayEngine)
    assert loaded.engine.buckets == (16,)
    assert loaded.engine.determinism == loaded.self_test.determinism
