"""How many draft tokens of each sequence go into the next pass.

A pass has a few possible sizes with measured times; its rows are shared by all sequences that write.  Token i of a
draft whose tokens are accepted with probability a each is committed with probability a^i, so rows go to the highest a^i
first, and the size is the one with the most committed tokens expected a second (docs/drafting.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

CERTAIN = 0.9995
"""No draft is taken to be surer than this, so that equal drafts share rows evenly."""
LADDER = np.log(CERTAIN) * 2.0 ** np.arange(24)
"""Natural logs of thresholds of a token's chance to be committed."""


class Want(NamedTuple):
    """A draft's length and the probability with which each of its tokens is accepted."""

    n_tokens: int
    acceptance: float


def share_rows(wants: Sequence[Want], pass_times: Mapping[int, float], max_rows: int) -> list[int]:
    """Draft tokens for each of `wants`, none more than it has.

    Every sequence has one row of its own besides; together they take at most `max_rows`, which must have room for
    these, or the next possible size below.
    """
    n_own = len(wants)
    owners, values = _values(wants, max_rows - n_own)
    order = np.argsort(-values, kind="stable")[: max_rows - n_own]
    gains = n_own + np.concatenate([[0.0], np.cumsum(values[order])])
    n_shared = _best_size(gains, n_own, pass_times, max_rows)
    return [int(n) for n in np.bincount(owners[order[:n_shared]], minlength=n_own)]


def _values(wants: Sequence[Want], n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """For every draft token that may be among the `n_rows` verified: whose it is, and its chance to be committed."""
    lengths = np.array([min(want.n_tokens, max(0, n_rows)) for want in wants], dtype=np.int64)
    chances = np.nan_to_num(np.array([want.acceptance for want in wants], np.float64)).clip(0.0, CERTAIN)
    lengths = _promising(lengths, chances, n_rows)
    owners = np.repeat(np.arange(len(wants)), lengths)
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    return owners, chances[owners] ** places


def _promising(lengths: np.ndarray, chances: np.ndarray, n_rows: int) -> np.ndarray:
    """The lengths without most of what is surely not among the `n_rows` best, so that there is little to sort: tokens
    above the first of a ladder of thresholds that enough of them pass."""
    if lengths.sum() <= n_rows:
        return lengths
    with np.errstate(divide="ignore"):
        passing = np.minimum(np.floor(LADDER[:, None] / np.log(chances)), lengths).astype(np.int64)
    is_enough = passing.sum(axis=1) >= n_rows
    return passing[np.argmax(is_enough)] if is_enough.any() else lengths


def _best_size(gains: np.ndarray, n_own: int, pass_times: Mapping[int, float], max_rows: int) -> int:
    """Draft tokens in the pass that commits most a second.  `gains[k]`: tokens expected with k draft tokens in it."""
    sizes = sorted(size for size in pass_times if n_own <= size <= max_rows)
    if not sizes:
        return min(len(gains) - 1, max(0, max_rows - n_own))
    fits = {size: min(len(gains) - 1, size - n_own) for size in sizes}
    return fits[max(sizes, key=lambda size: gains[fits[size]] / pass_times[size])]
