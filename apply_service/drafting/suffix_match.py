"""Where in a source the output's last tokens occur, and for how long they agree: numpy narrowing, no loop over the
file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apply_service.protocols import TokenIds

Positions = npt.NDArray[np.int64]
MAX_MATCH = 32


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
        alive = self.occurrences(tail[-1])
        ends = alive + 1
        lengths = np.ones(len(ends), dtype=np.int64)
        rows = np.arange(len(ends))
        for back in range(1, min(len(tail), MAX_MATCH)):
            stays = alive >= back
            stays[stays] = self.ids[alive[stays] - back] == tail[-1 - back]
            alive, rows = alive[stays], rows[stays]
            if not len(rows):
                break
            lengths[rows] += 1
        return ends, lengths
