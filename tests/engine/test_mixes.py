"""The lossless law among neighbours on real forwards, with models of every family (as `tests/decoding/test_mixes.py`
without one)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import cast

import pytest
import torch

from apply_service.engine.self_test import run_self_test
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import Part, Prefill, SamplingParams, Session, Window
from tests.decoding.mixes import Mix, check, random_asks, undrafted
from tests.engine.test_torch_local import DEVICES, N_VOCAB, ids_of, opened, skip_where_tolerant, skip_without
from tests.engine.tiny_models import CONFIGS, tiny_model, with_ties

STOP = frozenset({3})
DTYPES = [torch.float32, torch.bfloat16]
BUCKETS = (4, 8, 32, 64)


@cache
def loaded(family: str, dtype: torch.dtype, device: str) -> TorchEngine:
    """An engine as a service would have it after the self-test, ties everywhere."""
    model = with_ties(tiny_model(family, dtype=dtype)).to(device)
    found = run_self_test(TorchEngine(model, name=family, buckets=BUCKETS))
    skip_where_tolerant(found, device)
    return TorchEngine(
        model, name=family, buckets=found.buckets, determinism=found.determinism, query_grain=found.query_grain
    )


def engine_like(other: TorchEngine, *, n_slots: int = 8192, n_kept_bytes: int = 0) -> TorchEngine:
    """A new engine over the same model, with what its self-test found."""
    return TorchEngine(
        other.model,
        name=other.name,
        buckets=other.buckets,
        determinism=other.determinism,
        query_grain=other.query_grain,
        kv_cache_bytes=n_slots * other.pool.shape.bytes_per_slot,
        prefix_cache_bytes=n_kept_bytes,
    )


def play(oracle: TorchEngine, seed: int, *, n_asks: int, longest: int, limit: int) -> int:
    """Two mixes of one set of asks on an engine that remembers prompts and has little room; prompts found again."""
    rng = random.Random(seed)
    asks = random_asks(rng, n_asks, n_vocab=N_VOCAB, longest=longest, limit=limit)
    answers = [undrafted(oracle, ask, STOP) for ask in asks]
    engine = engine_like(oracle, n_slots=4096, n_kept_bytes=2**18)
    engine.pass_times = {bucket: 1.0 + bucket * rng.choice([0.0, 0.01, 0.5]) for bucket in engine.buckets}
    n_found = 0
    for _ in range(2):
        order = rng.sample(range(n_asks), n_asks)
        mixed = [answers[i] for i in order]
        mix = Mix(engine, [asks[i] for i in order], mixed, n_vocab=N_VOCAB, seed=rng.randrange(2**32))
        n_found += sum(outcome.n_cached > 0 for outcome in check(mix, mixed, STOP, seed=seed))
        engine.check_integrity()
    return n_found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", CONFIGS)
def test_neighbours_change_nothing(family: str, dtype: torch.dtype, device: str) -> None:
    skip_without(device)
    assert play(loaded(family, dtype, device), 11, n_asks=8, longest=200, limit=20) > 0


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", CONFIGS)
def test_neighbours_change_nothing_at_length(family: str, dtype: torch.dtype, device: str) -> None:
    """Eight mixes of new seeds, some across the block of keys that ends at position 512."""
    skip_without(device)
    first = random.SystemRandom().randrange(2**32)
    print(f"seeds from {first}")
    for seed in range(first, first + 8):
        play(loaded(family, dtype, device), seed, n_asks=10, longest=random.Random(seed).choice([90, 540]), limit=30)


# -- bits --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", CONFIGS)
def test_keys_and_values_are_the_same_in_every_bit_however_they_came(
    family: str, dtype: torch.dtype, device: str
) -> None:
    """Prompt and output of one sequence, read in chunks and windows of random sizes beside random neighbours: not only
    the choices, which forgive, but all keys and values are those of the sequence alone."""
    skip_without(device)
    oracle = loaded(family, dtype, device)
    if oracle.determinism == "tolerant":
        pytest.skip("tolerant here")
    ids = ids_of(600, 3)
    wanted = bits_of(oracle, ids, random.Random(0), beside=False)
    for seed in range(3):
        found = bits_of(engine_like(oracle), ids, random.Random(seed), beside=True)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True)), f"seed {seed}"


def bits_of(engine: TorchEngine, ids: list[int], rng: random.Random, *, beside: bool) -> list[torch.Tensor]:
    """Keys and values of all layers after `ids`: a prompt, then windows whose drafts are all accepted."""
    n_prompt = 470
    session = cast(Session, engine.open(ids[: n_prompt + 1], len(ids) - n_prompt))
    neighbours = [opened(engine, ids_of(n, n), 100) for n in (5, 40, 515)] if beside else []
    while session.n_pending:
        part = Prefill(session, min(session.n_pending, engine.prefill_grain * rng.randint(1, 2 if beside else 1)))
        engine.step([*_others(neighbours, rng, engine, part.n_rows), part])
    while session.length < len(ids):
        n_draft = min(rng.randint(0, 40) if beside else 0, len(ids) - session.length - 1)
        here = session.length
        # Masks that allow one token each force the choices, so the window is accepted whole.
        forced = [torch.tensor([token]).numpy() for token in [*ids[here + 1 : here + 1 + n_draft], 0]]
        window = Window(session, ids[here], ids[here + 1 : here + 1 + n_draft], SamplingParams(), forced)
        engine.step([*_others(neighbours, rng, engine, window.n_rows), window])
    slots = getattr(session, "slots")  # noqa: B009
    return [
        layer[:, slots.start : slots.start + len(ids)].clone() for layer in (*engine.pool.keys, *engine.pool.values)
    ]


def _others(neighbours: Sequence[Session], rng: random.Random, engine: TorchEngine, n_used: int) -> Iterator[Part]:
    """Windows of some of the neighbours, which are taken back before the next."""
    for other in neighbours:
        n_left = engine.buckets[-1] - n_used
        if rng.random() < 0.6 and n_left > 0:
            draft = [rng.randrange(N_VOCAB) for _ in range(rng.randint(0, min(n_left - 1, 9)))]
            other.rewind(max(0, other.length - len(other.prompt_ids) + 1))
            window = Window(other, rng.randrange(N_VOCAB), draft, SamplingParams())
            n_used += window.n_rows
            yield window
