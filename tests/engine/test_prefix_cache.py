"""The prefix cache: what it restores is what was kept, of the same owner, and it never holds more than it may."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.engine.kv_cache import KVShape, PrefixCache, SlotPool
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import Prefill, Session
from tests.engine.test_torch_local import DEVICES, skip_without
from tests.engine.tiny_models import CONFIGS, tiny_model

GRAIN = 4
SHAPE = KVShape(n_layers=1, n_kv_heads=1, head_dim=1, dtype=torch.float64, device=torch.device("cpu"))


class Cached:
    """A cache over a pool whose keys tell what they are of: a number made of the owner and all tokens so far."""

    def __init__(self, n_slots: int = 100, max_slots: int = 100) -> None:
        self.pool = SlotPool(SHAPE, n_slots)
        self.cache = PrefixCache(self.pool, grain=GRAIN, max_slots=max_slots)

    def open(self, owner: str, ids: Sequence[int], n_slots: int | None = None) -> tuple[range, int]:
        n_slots = n_slots or len(ids) + 2
        slots = self.pool.take(n_slots)
        assert slots is not None
        return slots, self.cache.restore(owner, ids, slots)

    def close(self, owner: str, ids: Sequence[int], slots: range, n_read: int | None = None) -> None:
        n_read = len(ids) - 1 if n_read is None else n_read
        self.pool.keys[0][0, slots.start : slots.start + n_read, 0] = torch.tensor(marks(owner, ids[:n_read])).double()
        self.cache.keep(owner, ids[:n_read], slots)

    def serve(self, owner: str, ids: Sequence[int], n_slots: int | None = None) -> int:
        """One request from admission to its end; how many of its tokens were known."""
        slots, n_known = self.open(owner, ids, n_slots)
        found = self.pool.keys[0][0, slots.start : slots.start + n_known, 0]
        assert found.tolist() == marks(owner, ids[:n_known])
        self.close(owner, ids, slots)
        assert self.pool.n_free + self.cache.n_slots == self.pool.n_slots
        return n_known


def marks(owner: str, ids: Sequence[int]) -> list[float]:
    return [float(hash((owner, tuple(ids[: i + 1]))) % 1_000_003) for i in range(len(ids))]


A, B = list(range(10, 23)), list(range(50, 63))


def test_a_prompt_seen_before_is_known_but_for_its_last_token() -> None:
    cached = Cached()
    assert cached.serve("me", A) == 0
    assert cached.serve("me", A) == 12
    assert cached.serve("me", A[:12]) == 8, "the last token is the first window's"


def test_only_whole_chunks_are_known() -> None:
    cached = Cached()
    cached.serve("me", A[:11])
    assert cached.serve("me", [*A[:11], 1, 2, 3, 4]) == 8


def test_the_longest_beginning_is_found() -> None:
    cached = Cached()
    cached.serve("me", A)
    cached.serve("me", [*A[:4], *B])
    assert cached.serve("me", [*A[:8], *B]) == 8
    assert cached.serve("me", [*A[:4], *B[:4], 1, 2, 3]) == 8
    assert cached.serve("me", [9, *A]) == 0, "only from the start on"


def test_owners_are_apart() -> None:
    cached = Cached()
    cached.serve("me", A)
    assert cached.serve("you", A) == 0
    assert cached.serve("", A) == 0
    assert cached.serve("me", A) == 12
    assert cached.serve("you", A) == 12


def test_no_owner_can_be_spelt_so_that_it_reaches_anothers_prompts() -> None:
    """Token bytes that go on where a name ends: the name `me` + the token 7 is not the owner `me\\x07...`."""
    cached = Cached()
    token = int.from_bytes(b"ABCDEFGH", "little")
    cached.serve("me", [token] * 9)
    assert cached.serve("meABCDEFGH", [token] * 9) == 0


def test_zero_keeps_nothing() -> None:
    cached = Cached(max_slots=0)
    cached.serve("me", A)
    assert cached.serve("me", A) == 0
    assert cached.pool.n_free == 100


def test_a_prompt_too_long_to_keep_is_kept_as_far_as_it_goes() -> None:
    cached = Cached(max_slots=10)
    cached.serve("me", A)
    assert cached.cache.n_slots == 8
    assert cached.serve("me", A) == 8


def test_a_longer_prompt_takes_the_place_of_its_beginning() -> None:
    cached = Cached()
    cached.serve("me", A[:5])
    cached.serve("me", A)
    assert cached.cache.n_slots == 12
    cached.serve("me", A[:9])
    assert cached.cache.n_slots == 12, "and what begins a known one is not kept again"


def test_the_least_recently_used_goes_first() -> None:
    cached = Cached(n_slots=60, max_slots=24)
    for ids in (A, B):
        cached.serve("me", ids)
    assert cached.serve("me", A) == 12
    cached.serve("me", [1] * 13)
    assert cached.cache.n_slots == 24
    assert cached.serve("me", B) == 0
    cached = Cached(n_slots=60, max_slots=24)
    for ids in (A, B):
        cached.serve("me", ids)
    cached.serve("me", [1] * 13)
    assert cached.serve("me", A) == 0


def test_one_that_ends_again_counts_as_used() -> None:
    """Two that ran side by side: the second, opened before the first was kept, restored nothing."""
    cached = Cached(n_slots=80, max_slots=24)
    first, second = cached.open("me", A), cached.open("me", A)
    third = cached.open("me", B)
    for ids, slots in ((A, first[0]), (B, third[0]), (A, second[0])):
        cached.close("me", ids, slots)
    cached.serve("me", [1] * 13)
    assert cached.serve("me", A) == 12


def test_what_two_prompts_share_stays_known_when_one_is_dropped() -> None:
    """The bug: chunks that both held were forgotten with the one that was kept last, the other could not be reached."""
    cached = Cached(n_slots=60, max_slots=24)
    cached.serve("me", [*A[:8], 1, 1, 1, 1, 1])
    cached.serve("me", [*A[:8], 2, 2, 2, 2, 2])
    assert cached.serve("me", [*A[:8], 1, 1, 1, 1, 1]) == 12
    cached.serve("me", B)
    assert cached.cache.n_slots == 24
    assert cached.serve("me", [*A[:8], 1, 1, 1, 1, 1]) == 12


def test_room_is_made_of_the_least_recently_used_that_lie_together() -> None:
    cached = Cached(n_slots=24)
    for owner in ("a", "b", "c"):
        cached.close(owner, A[:9], cached.open(owner, A[:9], 8)[0])
    assert cached.pool.n_free == 0
    assert cached.cache.make_room(10)
    assert cached.pool.take(10) == range(10)
    assert cached.cache.ranges == [range(16, 24)]


def test_room_costs_no_entry_that_lies_elsewhere() -> None:
    """The oldest entry is shut in between sequences that run: dropping it would open nothing."""
    cached = Cached(n_slots=24)
    held = [cached.open(owner, A[:9], 4 if owner == "x" else 8)[0] for owner in ("old", "x", "b")]
    for owner, slots in zip(("old", "b"), held[::2], strict=True):
        cached.close(owner, A[:9], slots)
    assert cached.pool.n_free == 4
    assert cached.cache.make_room(12)
    assert cached.cache.ranges == [range(8)]
    assert cached.pool.take(12) == range(12, 24)


def test_where_no_room_can_be_made_nothing_is_dropped() -> None:
    cached = Cached(n_slots=24)
    held = [cached.open(owner, A[:9], 8)[0] for owner in ("a", "b", "c")]
    cached.close("a", A[:9], held[0])
    cached.close("c", A[:9], held[2])
    assert not cached.cache.make_room(10)
    assert cached.cache.ranges == [range(8), range(16, 24)]


def test_a_full_pool_makes_room_at_admission_and_only_then() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(64,), kv_cache_bytes=0, prefix_cache_bytes=2**40)
    assert engine.pool.n_slots == 2048
    for i in range(8):
        read(engine, [i] * 130, 300).close()
    assert engine.prefix_cache.n_slots == 8 * 128
    running = read(engine, [9] * 300, 200)
    assert engine.prefix_cache.n_slots == 8 * 128, "beside the entries there was room"
    large = engine.open([10] * 100, 800)
    assert large is not None
    assert engine.prefix_cache.n_slots == 0
    large.close()
    kept = read(engine, [7] * 130, 300)
    kept.close()
    other = engine.open([11] * 100, 400)
    assert other is not None
    before = engine.prefix_cache.ranges
    assert len(before) == 1
    assert engine.open([8] * 10, 1000) is None
    assert engine.prefix_cache.ranges == before, "waiting for room costs no entry"
    for session in (running, other):
        session.close()
    engine.check_integrity()


def read(engine: TorchEngine, prompt: Sequence[int], limit: int, owner: str = "me") -> Session:
    """A session whose prompt has been read, a chunk a pass."""
    session = engine.open(prompt, limit, owner=owner)
    assert isinstance(session, Session)
    while session.n_pending:
        engine.step([Prefill(session, min(session.n_pending, engine.prefill_grain))])
    return session


def test_the_baseline_gets_the_room_of_prompts_kept() -> None:
    """The bug: it shares the slots, but not the cache that could free them, and waited for room that nobody held."""
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(64,), kv_cache_bytes=0, prefix_cache_bytes=2**40)
    read(engine, [1] * 1500, 100).close()
    assert engine.prefix_cache.n_slots > 1024
    plain = engine.plain().open([1] * 1500, 100)
    assert plain is not None
    assert plain.n_cached == 0, "it is measured from the start"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", CONFIGS)
def test_restored_bits_are_those_of_a_prefill(family: str, dtype: torch.dtype, device: str) -> None:
    """A prompt that begins like a known one: every key and value as if it had been read from the start."""
    skip_without(device)
    ids = torch.randint(0, 512, (300,), generator=torch.Generator().manual_seed(5)).tolist()
    model = tiny_model(family, dtype=dtype).to(device)
    engine = TorchEngine(
        model,
        name=family,
        buckets=(8, 64),
        determinism="bitwise",
        prefix_cache_bytes=200 * KVShape.of(model.config, dtype, torch.device(device)).bytes_per_slot,
    )
    other = TorchEngine(engine.model, name=family, buckets=(8, 64))
    fresh = read(other, ids, 20)
    read(engine, [*ids[:200], 1, 2, 3], 600 if device == "cpu" else 200).close()
    restored = read(engine, ids, 20)
    assert (restored.n_cached, fresh.n_cached) == (192, 0)
    for found, wanted in zip(contents(engine, restored), contents(other, fresh), strict=True):
        assert torch.equal(found, wanted)


def test_where_all_slots_are_attended_to_only_as_many_slots_restore() -> None:
    """As on CUDA: another number of keys gives other bits, so what a session has read is none of another size's."""
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(64,), prefix_cache_bytes=2**24)
    engine.attends_in_blocks = False
    ids = [7, 8, 9] * 50
    found = {}
    for determinism in ("bitwise", "tolerant"):
        engine.determinism = determinism
        read(engine, ids, 300).close()
        found[determinism] = [read(engine, ids, limit).n_cached for limit in (300, 900)]
    assert found == {"bitwise": [128, 0], "tolerant": [128, 128]}


def contents(engine: TorchEngine, session: Session) -> list[torch.Tensor]:
    slots = slice(session.slots.start, session.slots.start + session.length)
    return [layer[:, slots] for layer in (*engine.pool.keys, *engine.pool.values)]


@settings(max_examples=150, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32), max_slots=st.integers(0, 48))
def test_against_a_list_of_prompts(seed: int, max_slots: int) -> None:
    """Random requests of few tokens, so that beginnings are shared: what is known never exceeds what a list of all
    prompts ever kept allows, is of the right owner and content (`serve` looks), and an unbounded cache knows it all."""
    rng = random.Random(seed)
    cached = Cached(n_slots=120, max_slots=max_slots)
    unbounded = Cached(n_slots=5000, max_slots=5000)
    seen: list[tuple[str, list[int]]] = []
    for _ in range(40):
        owner = rng.choice(["a", "b"])
        ids = [rng.choice([1, 2]) for _ in range(rng.randint(1, 5)) for _ in range(GRAIN)][: rng.randint(1, 20)]
        wanted = max((shared(ids[:-1], past[:-1]) for who, past in seen if who == owner), default=0)
        assert unbounded.serve(owner, ids) == wanted
        assert cached.serve(owner, ids) <= wanted
        assert cached.cache.n_slots <= max_slots
        seen.append((owner, ids))
        if rng.random() < 0.1:
            cached.cache.make_room(rng.randint(1, 120))
    assert cached.cache.make_room(cached.pool.n_slots)
    assert cached.pool.n_free == cached.pool.n_slots


def shared(ids: Sequence[int], past: Sequence[int]) -> int:
    """Tokens in the whole chunks that both begin with."""
    n = next((i for i, (a, b) in enumerate(zip(ids, past, strict=False)) if a != b), min(len(ids), len(past)))
    return n // GRAIN * GRAIN
