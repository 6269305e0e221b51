"""The lines that differ between two texts."""

from __future__ import annotations

import random

from apply_service.checks.changes import find_changes, verdicts_at
from apply_service.types import Verdict


def test_insertion_deletion_replacement() -> None:
    assert find_changes("a\nb\nc", "a\nx\nb\nc") == ((), (1,))
    assert find_changes("a\nb\nc", "a\nc") == ((1,), ())
    assert find_changes("a\nb\nc", "a\nB\nc") == ((1,), (1,))
    assert find_changes("a\nb", "a\nb") == ((), ())
    assert find_changes("", "a") == ((0,), (0,))


def test_what_is_left_is_the_same_on_both_sides() -> None:
    seed = 7
    rng = random.Random(seed)
    for case in range(300):
        old = [rng.choice("abcd") for _ in range(rng.randrange(12))]
        new = [rng.choice("abcd") for _ in range(rng.randrange(12))]
        found = find_changes("\n".join(old), "\n".join(new))
        old, new = "\n".join(old).split("\n"), "\n".join(new).split("\n")
        kept = [line for number, line in enumerate(old) if number not in found.removed]
        assert kept == [line for number, line in enumerate(new) if number not in found.added], f"seed {seed}: {case}"
        assert list(found.removed) == sorted(found.removed)


def test_each_run_of_lines_is_one_finding() -> None:
    found = verdicts_at("syntax", "error", "broken", [0, 1, 2, 5, 7, 6], "original")
    assert found == [
        Verdict("syntax", "error", "broken", (1, 3), "original"),
        Verdict("syntax", "error", "broken", (6, 8), "original"),
    ]
    assert verdicts_at("syntax", "error", "broken", []) == []
