"""Turns: everyone once a sample, neighbours in time, the order drawn."""

from __future__ import annotations

from collections import Counter

from apply_eval.loop import BLOCK_FACTOR, Turn, schedule

IDS, NAMES = [f"s{i}" for i in range(40)], ["a", "b", "c"]


def turns(**changes: int) -> list[Turn]:
    options = {"repeats": 1, "concurrency": 1, "seed": 0} | changes
    return list(schedule(IDS, NAMES, **options))


def test_everyone_answers_every_sample_once_a_repeat() -> None:
    for options in ({}, {"repeats": 3}, {"concurrency": 4}, {"concurrency": 64}):
        counts = Counter((name, i, turn.repeat) for turn in turns(**options) for name in [turn.name] for i in turn.ids)
        assert set(counts.values()) == {1}
        assert len(counts) == 40 * 3 * options.get("repeats", 1)


def test_contestants_take_turns_on_a_sample() -> None:
    for i in range(0, 120, 3):
        assert len({turn.ids for turn in turns()[i : i + 3]}) == 1
        assert {turn.name for turn in turns()[i : i + 3]} == set(NAMES)


def test_nobody_is_always_first() -> None:
    firsts = Counter(turn.name for turn in turns()[::3])
    assert all(5 < n < 25 for n in firsts.values())
    assert len(firsts) == 3


def test_the_seed_decides_alone() -> None:
    assert turns() == turns()
    assert turns(seed=1) != turns()
    assert [turn.number for turn in turns(concurrency=2)] == list(range(len(turns(concurrency=2))))


def test_blocks_fill_the_batch() -> None:
    sizes = [len(turn.ids) for turn in turns(concurrency=3)]
    assert max(sizes) == 3 * BLOCK_FACTOR
    assert sizes.count(3 * BLOCK_FACTOR) == 9
