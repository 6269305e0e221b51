"""Soak: thousands of random requests, everything going wrong that can; afterwards nothing is stuck, lost or leaked."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from apply_service.engine.layout import Layout
from apply_service.engine.passes import PassInputs, PassOutput
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import Engine, Part
from apply_service.service import Service
from tests.decoding.mixes import random_asks, undrafted
from tests.engine.tiny_models import tiny_model
from tests.fake_engine import FakeEngine, hashed
from tests.seeds import draw_seed
from tests.soak import Clients, Injected, Soak

STOP = frozenset({7})
ENDS = {"FinalEvent", "EngineFailure", "Cancelled", "DeadlineExceeded", "NeedsMoreContext", "ContextLimitExceeded"}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Crashes by the thousand are logged with their traces; here they are wanted."""
    caplog.set_level(logging.CRITICAL)


def soaked(soak: Soak, n_requests: int, *, seed: int) -> Clients:
    """Run the requests; everything is checked but what is the engine's own."""
    with Service(soak.run, max_active=24, queue_limit=30, max_timeout_s=600) as service:
        clients = Clients(soak, service, seed=seed)
        clients.run(n_requests, n_threads=12)
        assert service.wait_until_idle(60)
        service.check_integrity()
    print(clients.n_submitted, "accepted;", dict(clients.seen))
    clients.check()
    assert soak.draft_engine.n_open == 0
    # A hundred requests need not meet every rare end; a thousand do.
    assert set(clients.seen) >= ({*ENDS, "left", "forgotten"} if n_requests >= 1000 else {"FinalEvent"})
    return clients


def soak_of(
    engine: Engine, oracle: Engine, *, seed: int, n_vocab: int, faulty_id: int, n_asks: int, longest: int
) -> Soak:
    rng = random.Random(seed)
    asks = random_asks(rng, n_asks, n_vocab=n_vocab, longest=longest, limit=15)
    # The mixes' own broken drafter is none of the faults here.
    asks = [replace(ask, drafter="suffix") if ask.drafter == "failing" else ask for ask in asks]
    answers = [undrafted(oracle, ask, STOP) for ask in asks]
    drafting = FakeEngine(hashed(n_vocab, order=1), max_draft=15, max_open=4)
    return Soak(engine, asks, answers, STOP, n_vocab, faulty_id, drafting, rng)


# -- the fake engine ---------------------------------------------------------------------------------------------------
def soak_fake(n_requests: int) -> None:
    """With little room, few rows and a forward that fails on sequences which begin with the id 13."""
    seed = draw_seed()
    table: dict[tuple[int, ...], npt.NDArray[np.float32]] = {}

    def logits(ids: Sequence[int]) -> npt.NDArray[np.float32]:
        if ids[0] == 13 and len(ids) > 3:
            raise Injected
        key = tuple(ids[-2:])
        if key not in table:
            table[key] = hashed(13, seed=seed, order=2)(ids)
        return table[key]

    engine = FakeEngine(
        logits, max_draft=15, max_rows=48, max_open=12, prefill_grain=8, n_kept_prompts=30, context_limit=500
    )
    soak = soak_of(engine, FakeEngine(logits), seed=seed, n_vocab=13, faulty_id=13, n_asks=60, longest=40)
    soaked(soak, n_requests, seed=seed)
    assert engine.n_open == 0


def test_a_thousand_requests_on_the_fake_engine() -> None:
    soak_fake(1000)


@pytest.mark.slow
def test_ten_thousand_requests_on_the_fake_engine() -> None:
    soak_fake(10_000)


# -- real keys and values ----------------------------------------------------------------------------------------------
class FaultyEngine(TorchEngine):
    """Fails in the middle of a forward, with some layers' keys and values written, where a sequence begins with the id
    511."""

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__(model, **options)
        self._is_faulty = False
        model.base_model.layers[-1].register_forward_pre_hook(self._fail)

    def run(
        self, parts: Sequence[Part], n_rows: int, *, is_greedy: bool, n_head_rows: int | None = None
    ) -> tuple[PassOutput, Layout, PassInputs]:
        self._is_faulty = any(part.session.prompt_ids[0] == 511 for part in parts)
        return super().run(parts, n_rows, is_greedy=is_greedy, n_head_rows=n_head_rows)

    def _fail(self, *_: object) -> None:
        if self._is_faulty:
            raise Injected


def soak_real(n_requests: int) -> None:
    """A pool of four sessions' slots, prompts kept in what is left of them."""
    seed = draw_seed()
    engine = FaultyEngine(
        tiny_model("qwen2"),
        name="q",
        buckets=(4, 16, 64),
        determinism="bitwise",
        kv_cache_bytes=0,
        prefix_cache_bytes=2**19,
    )
    assert engine.pool.n_slots == 2048
    oracle = TorchEngine(engine.model, name="q", buckets=(4, 16, 64))
    soak = soak_of(engine, oracle, seed=seed, n_vocab=500, faulty_id=511, n_asks=30, longest=150)
    soaked(soak, n_requests, seed=seed)
    engine.check_integrity()
    assert engine.prefix_cache.n_slots > 0
    assert engine.prefix_cache.make_room(2048)
    assert engine.pool.n_free == 2048


def test_a_hundred_requests_on_real_keys_and_values() -> None:
    soak_real(100)


@pytest.mark.slow
def test_five_hundred_requests_on_real_keys_and_values() -> None:
    soak_real(500)
