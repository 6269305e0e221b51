"""Where in a text the output's last tokens occur, and for how long they agree: numpy narrowing, no loop over it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apply_service.protocols import TokenIds

Positions = npt.NDArray[np.int64]
MAX_MATCH = 32


def agreement(ids: TokenIds, places: Positions, tail: Sequence[int], longest: int = MAX_MATCH) -> Positions:
    """For every place of `tail[-1]` in `ids`: how many tokens up to it (it included) agree with `tail`, at most
    `longest`."""
    lengths = np.ones(len(places), dtype=np.int64)
    rows = np.arange(len(places))
    for back in range(1, min(len(tail), longest)):
        stays = places >= back
        stays[stays] = ids[places[stays] - back] == tail[-1 - back]
        places, rows = places[stays], rows[stays]
        if not len(rows):
            break
        lengths[rows] += 1
    return lengths


class SuffixIndex:
    """Occurrences of every token of `ids` [n], sorted once (n log n), looked up in log n."""

    def __init__(self, ids: TokenIds) -> None:
        self.ids = ids
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]

    def occurrences(self, token: int) -> Positions:
        """Positions of `token`, rising."""
        low, high = np.searchsorted(self._sorted, [token, token + 1])
        return self._order[low:high]

    def matches(self, tail: Sequence[int]) -> tuple[Positions, Positions]:
        """For every occurrence of `tail[-1]`: the position after it, and how many tokens before it (it included) agree
        with `tail`, at most MAX_MATCH."""
        found = self.occurrences(tail[-1])
        return found + 1, agreement(self.ids, found, tail)
