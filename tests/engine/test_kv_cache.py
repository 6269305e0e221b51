"""The pool of slots: what is lent is nobody else's, what comes back is whole again."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.engine.kv_cache import KVShape, SlotPool
from apply_service.errors import EngineFailure
from tests.engine.tiny_models import CONFIGS

SHAPE = KVShape(n_layers=2, n_kv_heads=2, head_dim=4, dtype=torch.float32, device=torch.device("cpu"))


def small_pool(n_slots: int = 10) -> SlotPool:
    return SlotPool(SHAPE, n_slots)


def test_the_first_range_that_is_long_enough_is_taken() -> None:
    pool = small_pool()
    first, second, third = pool.take(3), pool.take(2), pool.take(5)
    assert (first, second, third) == (range(3), range(3, 5), range(5, 10))
    assert pool.n_free == 0
    pool.give_back(range(3))
    pool.give_back(range(5, 10))
    assert pool.take(4) == range(5, 9)
    assert pool.take(2) == range(2)
    assert pool.n_free == 2


def test_what_is_free_in_pieces_is_not_taken_as_one() -> None:
    pool = small_pool()
    for _ in range(5):
        pool.take(2)
    for start in (0, 4, 8):
        pool.give_back(range(start, start + 2))
    assert pool.n_free == 6
    assert pool.take(3) is None
    assert pool.n_free == 6


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_neighbours_that_come_back_are_one_range_again(order: tuple[int, ...]) -> None:
    pool = small_pool(9)
    lent = [pool.take(3) for _ in range(3)]
    for i in order:
        slots = lent[i]
        assert slots is not None
        pool.give_back(slots)
    assert pool.take(9) == range(9)


def test_a_range_may_come_back_in_parts() -> None:
    pool = small_pool()
    assert pool.take(10) == range(10)
    pool.give_back(range(7, 10))
    pool.give_back(range(2))
    pool.give_back(range(2, 7))
    assert pool.take(10) == range(10)


def test_an_empty_range_comes_back_unnoticed() -> None:
    pool = small_pool()
    pool.give_back(range(4, 4))
    assert pool.n_free == 10


@pytest.mark.parametrize("twice", [range(3), range(1), range(1, 2), range(2, 5), range(9, 10)])
def test_freeing_twice_is_an_error_and_changes_nothing(twice: range) -> None:
    pool = small_pool()
    pool.take(8)
    pool.give_back(range(3))
    before = pool.n_free
    with pytest.raises(EngineFailure, match="freed twice") as caught:
        pool.give_back(twice)
    assert caught.value.value == [twice.start, twice.stop]
    assert pool.n_free == before


@pytest.mark.parametrize("foreign", [range(8, 12), range(10, 11), range(-1, 1)])
def test_slots_that_the_pool_does_not_have_are_refused(foreign: range) -> None:
    pool = small_pool()
    pool.take(10)
    with pytest.raises(EngineFailure, match="do not exist"):
        pool.give_back(foreign)
    assert pool.n_free == 0


@settings(max_examples=200, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32), n_slots=st.integers(1, 40))
def test_against_one_bit_a_slot(seed: int, n_slots: int) -> None:
    """The naive pool: a list of which slots are lent, searched from the left."""
    rng = random.Random(seed)
    pool, lent, held = small_pool(n_slots), [False] * n_slots, list[range]()
    for _ in range(60):
        if held and rng.random() < 0.5:
            slots = held.pop(rng.randrange(len(held)))
            cut = rng.randrange(len(slots) + 1)
            pool.give_back(slots[cut:])
            if cut:
                held.append(slots[:cut])
            for i in slots[cut:]:
                lent[i] = False
        else:
            n = rng.randint(1, n_slots)
            start = next((i for i in range(n_slots - n + 1) if not any(lent[i : i + n])), None)
            taken = pool.take(n)
            assert taken == (None if start is None else range(start, start + n))
            if taken is not None:
                held.append(taken)
                lent[taken.start : taken.stop] = [True] * n
        assert pool.n_free == n_slots - sum(lent)


def test_a_full_pool_asks_for_room_before_it_gives_up() -> None:
    pool, asked = small_pool(), list[int]()

    def refuse(n_slots: int) -> bool:
        asked.append(n_slots)
        return False

    def make_room(_n_slots: int) -> bool:
        pool.give_back(range(4, 8))
        return True

    pool.make_room = refuse
    assert pool.take(10) == range(10)
    assert asked == []
    assert pool.take(3) is None
    pool.make_room = make_room
    assert pool.take(3) == range(4, 7)
    assert asked == [3]


def fill(pool: SlotPool) -> None:
    for i, layer in enumerate([*pool.keys, *pool.values]):
        layer.copy_(torch.arange(layer.numel()).reshape(layer.shape) + 1000 * (i + 1))


def test_clearing_touches_its_range_alone() -> None:
    pool, untouched = small_pool(), small_pool()
    fill(pool)
    fill(untouched)
    pool.keys[0][:, 4] = float("nan")
    pool.clear(range(3, 6))
    for layer, was in zip([*pool.keys, *pool.values], [*untouched.keys, *untouched.values], strict=True):
        assert not layer[:, 3:6].any()
        assert torch.equal(layer[:, :3], was[:, :3])
        assert torch.equal(layer[:, 6:], was[:, 6:])


def test_copying_reaches_every_layer_keys_and_values() -> None:
    pool, untouched = small_pool(), small_pool()
    fill(pool)
    fill(untouched)
    pool.copy(range(1, 4), range(6, 9))
    for layer, was in zip([*pool.keys, *pool.values], [*untouched.keys, *untouched.values], strict=True):
        assert torch.equal(layer[:, 6:9], was[:, 1:4])
        assert torch.equal(layer[:, :6], was[:, :6])
        assert torch.equal(layer[:, 9:], was[:, 9:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fresh_slots_are_zero_and_aligned(dtype: torch.dtype) -> None:
    """A masked key has weight 0, which only a finite value survives; kernels are at their best on cache lines."""
    pool = SlotPool(KVShape(1, 3, 5, dtype, torch.device("cpu")), 7)
    for layer in (*pool.keys, *pool.values):
        assert layer.shape == (3, 7, 5)
        assert layer.dtype == dtype
        assert not layer.any()
        assert layer.data_ptr() % 64 == 0


@pytest.mark.parametrize(
    ("family", "n_layers", "n_bytes"),
    [("llama", 2, 2 * 2 * 2 * 16 * 4), ("gemma2", 2, 2 * 2 * 2 * 16 * 4)],
)
def test_the_shape_is_read_from_the_config(family: str, n_layers: int, n_bytes: int) -> None:
    shape = KVShape.of(CONFIGS[family], torch.float32, torch.device("cpu"))
    assert (shape.n_layers, shape.n_kv_heads, shape.head_dim) == (n_layers, 2, 16)
    assert shape.bytes_per_slot == n_bytes


def test_a_config_without_kv_heads_or_head_size_has_those_of_its_queries() -> None:
    class Old:
        num_attention_heads = 4
        hidden_size = 32
        num_hidden_layers = 3

    shape = KVShape.of(Old(), torch.bfloat16, torch.device("cpu"))
    assert (shape.n_kv_heads, shape.head_dim, shape.bytes_per_slot) == (4, 8, 2 * 3 * 4 * 8 * 2)
