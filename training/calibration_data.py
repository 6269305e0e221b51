"""Edits to calibrate the model's confidence on: real ones that it was not trained on, sketched as chat models write.

Reads and draws, nothing else.  The development sets are refused as everywhere in training.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from apply_eval.sketch import draw_sketch
from training.corpus import Edit, read_edits, split_by_repository

Side = Literal["fit", "report"]

TRIES = 4


class CalibrationEdit(NamedTuple):
    """One edit to answer.  `side`: whether the map is fitted on it or reported on it; all edits of a file are on one
    side."""

    id: str
    side: Side
    edit: Edit
    update: str


def held_out_edits(source: Path) -> list[Edit]:
    """The edits of `source` that training leaves out.  Raises ExcludedRepository: the source holds an evaluation
    repository."""
    return split_by_repository(read_edits(source))[1]


def draw_edits(edits: Sequence[Edit], *, n_sketches: int, max_lines: int, seed: int) -> Iterator[CalibrationEdit]:
    """Up to `n_sketches` snippets in sloppy styles of each edit of at most `max_lines`, in an order that the seed
    draws: any beginning of it is a fair sample."""
    small = [edit for edit in edits if edit.before.count("\n") <= max_lines]
    for draw in range(n_sketches):
        order = list(range(len(small)))
        random.Random(f"order {seed} {draw}").shuffle(order)
        for at in order:
            edit, rng = small[at], random.Random(f"sketch {seed} {draw} {at}")
            drawn = draw_sketch(
                edit.before, edit.after, language=edit.language, path=edit.path, clean=0.0, rng=rng, tries=TRIES
            )
            if drawn is not None:
                yield CalibrationEdit(f"{draw}-{at}", side_of(edit), edit, drawn.update)


def side_of(edit: Edit) -> Side:
    """By a hash of the file's name, so that two edits of one file never stand on both sides."""
    return "fit" if hashlib.sha256(f"{edit.repo} {edit.path}".encode()).digest()[1] % 2 else "report"
