"""Seeds of random tests: new every time, shown where the test fails, and repeated by `TEST_SEED=N`."""

from __future__ import annotations

import os
import random


def draw_seed() -> int:
    """The seed of the environment, else a new one; printed, which pytest shows of a test that fails.

    What threads and processes do at the same moment is not in it: the same seed asks the same, at other moments.
    """
    given = os.environ.get("TEST_SEED")
    seed = random.SystemRandom().randrange(2**32) if given is None else int(given)
    print(f"seed {seed}: TEST_SEED={seed} repeats it")
    return seed
