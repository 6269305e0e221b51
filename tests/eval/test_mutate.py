"""Random edits: varied, seeded, and harmless to the final newline."""

from __future__ import annotations

import random

import pytest

from apply_eval.fuzz import MUTATIONS, Mutation, mutate
from tests.eval.samples import PYTHON, SAMPLES


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_each_mutation_changes_something_most_of_the_time(mutation: Mutation) -> None:
    lines = PYTHON.split("\n")[:-1]
    changed = sum(mutation(list(lines), random.Random(seed)) != lines for seed in range(50))
    assert changed > 30


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_tiny_texts_are_no_trouble(mutation: Mutation) -> None:
    for lines in ([], [""], ["x"], ["a", "b"]):
        for seed in range(20):
            assert isinstance(mutation(list(lines), random.Random(seed)), list)


def test_the_final_newline_stays_as_it_was() -> None:
    for seed in range(100):
        for _, _, text in SAMPLES:
            changed = mutate(text, random.Random(seed))
            assert changed == "" or changed.endswith("\n")
            assert not mutate("a = 1\nb = 2", random.Random(seed)).endswith("\n\n")


def test_same_seed_same_edit() -> None:
    assert [mutate(PYTHON, random.Random(4)) for _ in range(2)] == [mutate(PYTHON, random.Random(4))] * 2
    assert len({mutate(PYTHON, random.Random(seed)) for seed in range(30)}) > 20
