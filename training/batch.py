"""A batch of samples, and where in a stream of them a run stands.  Knows nothing of how samples are made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Unpadded = list[tuple[Array, Array, Array]]
"""Ids, positions and weights of each sample of a batch, longest first."""


class Place(NamedTuple):
    """Where a stream stands: the next batch of a chunk."""

    chunk: int = 0
    batch: int = 0


class Batch(NamedTuple):
    """`ids`, `positions`, `weights` [n_rows, n_tokens], padded at the end (weight 0); `following`: the place after
    it."""

    ids: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    following: Place


def padded(group: Unpadded, pad: int, following: Place) -> Batch:
    """The samples as one batch."""
    shape = (len(group), max(len(ids) for ids, _, _ in group))
    ids, positions, weights = np.full(shape, pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    for row, (own_ids, own_positions, own_weights) in enumerate(group):
        n = len(own_ids)
        ids[row, :n], positions[row, :n], weights[row, :n] = own_ids, own_positions, own_weights
    return Batch(ids, positions, weights, following)
