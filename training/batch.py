"""A batch of samples, and where in a stream of them a run stands.  Knows nothing of how samples are made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Place(NamedTuple):
    """Where a stream stands: the next batch of a chunk."""

    chunk: int = 0
    batch: int = 0


class Batch(NamedTuple):
    """`ids`, `positions`, `weights` [n_rows, n_tokens], padded at the end (weight 0); `following`: the place after
    it."""

    ids: Ints
    positions: Ints
    weights: Floats
    following: Place
