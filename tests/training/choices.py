"""Edits with readings made by a seed: a right reading matches more and deletes less, and some edits have none."""

from __future__ import annotations

import random

from apply_eval.datasets import EditRecord, measure_edit
from apply_service.types import LineOp, Reading
from training.chooser_data import Choice

BEFORE = "a\nb\nc\n"
AFTER = "a\nB\nc\n"
NAMES = ("matched", "deleted", "noise")


def make_choices(n: int, *, n_repos: int = 6, seed: int = 0, source: str = "hand.jsonl") -> list[Choice]:
    """Choices in as many repositories; a third of the edits is hard: nothing tells their right reading apart."""
    rng = random.Random(seed)
    found = []
    for i in range(n):
        n_readings = rng.randint(1, 5)
        is_hard = rng.random() < 0.3
        at = None if rng.random() < 0.1 else rng.randrange(n_readings)
        features = tuple(
            {
                "matched": rng.gauss(1.5 if is_right else 0.0, 1.0),
                "deleted": float(rng.randint(0, 2) if is_right else rng.randint(1, 5)),
                "noise": rng.random(),
            }
            for is_right in (j == at and not is_hard for j in range(n_readings))
        )
        right = tuple(j == at for j in range(n_readings))
        repo, limits = f"owner/repo{i % n_repos}", (1.0,) * n_readings
        found.append(Choice(f"{source}-{i}", source, repo, "minimal", 1.0, features, right, limits))
    return found


def make_record(name: str, repo: str = "owner/one", *, split: str = "", update: str = "B\n") -> EditRecord:
    return EditRecord(name, BEFORE, AFTER, measure_edit(BEFORE, AFTER), update, "python", repo=repo, split=split)


def make_reading(new: str, **features: float) -> Reading:
    """`new` in the place of the second line; the features of NAMES that are not given are 0."""
    keep = [LineOp("keep", i, None, text) for i, text in ((0, "a"), (2, "c"), (3, ""))]
    ops = (keep[0], LineOp("drop", 1, None, "b"), LineOp("take", None, 0, new), *keep[1:])
    return Reading(ops, dict.fromkeys(NAMES, 0.0) | features, 0.0)
