"""Turns: everyone once a sample, neighbours in time, the order drawn."""

from __future__ import annotations

from collections import Counter

from apply_eval.loop import Turn, schedule

IDS, NAMES = [f"s{i}" for i in range(40)], ["a", "b", "c"]


def turns(**changes: int) -> list[Turn]:
    return schedule(IDS, NAMES, **({"seed": 0} | changes))


def test_everyone_answers_every_sample_once() -> None:
    counts = Counter(turns())
    assert set(counts.values()) == {1}
    assert len(counts) == 40 * 3


def test_contestants_take_turns_on_a_sample() -> None:
    for i in range(0, 120, 3):
        assert len({turn.id for turn in turns()[i : i + 3]}) == 1
        assert {turn.name for turn in turns()[i : i + 3]} == set(NAMES)


def test_nobody_is_always_first() -> None:
    firsts = Counter(turn.name for turn in turns()[::3])
    assert all(5 < n < 25 for n in firsts.values())
    assert len(firsts) == 3


def test_the_seed_decides_alone() -> None:
    assert turns() == turns()
    assert turns(seed=1) != turns()
