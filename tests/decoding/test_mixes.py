"""The lossless law among neighbours, on a target without a network: whoever else is decoded at the time, whatever is
drafted, found in the prefix cache, forbidden, cancelled or broken, the ids are those of the sequence alone and
undrafted.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.errors import Cancelled
from tests.decoding.mixes import DRAFTERS, Failed, Mix, Outcome, check, random_asks, undrafted
from tests.fake_engine import FakeEngine, hashed

VOCAB = 13
STOP = frozenset({7})


def play(seed: int, *, n_asks: int) -> list[list[Outcome]]:
    """Two mixes of one set of asks, in different company, on one engine that remembers prompts; what came of them."""
    rng = random.Random(seed)
    logits = hashed(VOCAB, seed=seed, n_levels=rng.choice([None, 2]))
    asks = random_asks(rng, n_asks, n_vocab=VOCAB, longest=60, limit=40)
    answers = [undrafted(FakeEngine(logits), ask, STOP) for ask in asks]
    engine = random_engine(rng, logits)
    played = []
    for _ in range(2):
        order = rng.sample(range(n_asks), n_asks)
        mix = Mix(
            engine, [asks[i] for i in order], [answers[i] for i in order], n_vocab=VOCAB, seed=rng.randrange(2**32)
        )
        played.append(check(mix, [answers[i] for i in order], STOP, seed=seed))
        assert engine.n_open == 0
    return played


def random_engine(rng: random.Random, logits):  # type: ignore[no-untyped-def]
    """Windows, rows, room and chunks of any size."""
    max_draft = rng.choice([0, 1, 3, 8, 20, 63])
    max_rows = max_draft + 1 + rng.choice([0, 0, 1, 7, 40])
    engine = FakeEngine(
        logits,
        max_draft=max_draft,
        max_rows=max_rows,
        max_open=rng.choice([None, None, 1, 3]),
        prefill_grain=rng.choice([1, 4, 16, 64]),
        n_kept_prompts=rng.choice([0, 20]),
    )
    sizes = {max_rows, *(rng.randint(1, max_rows) for _ in range(rng.randint(0, 4)))}
    engine.pass_times = {size: 1.0 + size * rng.choice([0.0, 0.01, 0.5]) for size in sizes}
    return engine


@settings(max_examples=40, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_neighbours_change_nothing(seed: int) -> None:
    play(seed, n_asks=8)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_neighbours_change_nothing_at_length(seed: int) -> None:
    play(seed, n_asks=random.Random(seed).choice([2, 8, 20]))


def test_the_mixes_hold_what_they_promise() -> None:
    """Seeds 0 to 14: prompts found again, cancellations, breakages and whole answers all come up."""
    outcomes = [outcome for seed in range(15) for played in play(seed, n_asks=8) for outcome in played]
    errors = [type(outcome.error) for outcome in outcomes]
    assert sum(outcome.n_cached > 0 for outcome in outcomes) > 10
    assert errors.count(Cancelled) > 10
    assert errors.count(Failed) > 0
    assert errors.count(type(None)) > 100
    assert {"suffix", "merged_edit+draft_model", "none"} <= set(DRAFTERS)
