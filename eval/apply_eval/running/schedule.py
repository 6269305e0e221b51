"""The order of a run: contestants take turns sample by sample, in an order drawn anew each time.

Whatever drifts while a run goes on (heat, other work on the machine) then hits all contestants alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

BLOCK_FACTOR = 4
"""Samples of a block for each concurrent request: enough for full batches, little to lose in a kill."""


class Turn(NamedTuple):
    """One contestant's turn on some samples."""

    number: int
    name: str
    repeat: int
    ids: tuple[str, ...]


def schedule(ids: Sequence[str], names: Sequence[str], *, repeats: int, concurrency: int, seed: int) -> Iterator[Turn]:
    """All turns in order.  Depends on the arguments alone, so that a run that goes on finds the same turns."""
    size = 1 if concurrency == 1 else concurrency * BLOCK_FACTOR
    number = 0
    for repeat in range(repeats):
        for start in range(0, len(ids), size):
            order = list(names)
            random.Random(f"{seed}-{repeat}-{start}").shuffle(order)
            for name in order:
                yield Turn(number, name, repeat, tuple(ids[start : start + size]))
                number += 1
