"""Everything that a pass needs of its parts, in one block of integers: written on the host, sent in one copy, read by
the device alone.

The block of a key (see `PassKey`) never moves, so a pass that was captured over it can be replayed with other contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from apply_service.engine.packing import Layout

FIELDS = ("ids", "positions", "slots", "next_ids", "known_ids", "windows")
"""Columns of n_rows; `tiles` of n_tiles * 3 comes last."""
NOTHING = -1

KnownRows = Sequence[tuple[int, Sequence[int]]]
"""First row, and the tokens that its row and the next ones are to choose (a replay target's)."""


class PassKey(NamedTuple):
    """What a pass must have in common with another one to be replayed as it.

    `n_head_rows` rows go through the head, of which `n_choices` are chosen from; where `is_greedy` the choice and its
    acceptance are part of the pass.
    """

    n_rows: int
    n_head_rows: int
    n_choices: int
    n_tiles: int
    n_splits: int
    is_greedy: bool


def power_of_two(n: int) -> int:
    """The next one from `n` on, 0 for 0: so that few kinds of passes come up."""
    return 1 << (n - 1).bit_length() if n else 0


class PassInputs:
    """Device tensors of int64, [n_rows] but for `tiles` [n_tiles, 3]:

    `ids`, `positions`; `slots`: where keys and values go, -1 for rows of padding; `next_ids`: the draft token that
    is accepted if it is the row's choice, -1 where there is none; `known_ids`: see `KnownRows`, -1 where nothing is;
    `windows`: the number of the row's window; rows outside all windows have their own numbers, which no window has.
    """

    def __init__(self, key: PassKey, device: torch.device) -> None:
        self.key = key
        n_numbers = len(FIELDS) * key.n_rows + 3 * key.n_tiles
        is_cuda = device.type == "cuda"
        self._host = torch.zeros(n_numbers, dtype=torch.int64, pin_memory=is_cuda)
        self._device = torch.zeros(n_numbers, dtype=torch.int64, device=device) if is_cuda else self._host
        self._sent = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]
        columns = self._device[: len(FIELDS) * key.n_rows].view(len(FIELDS), key.n_rows)
        self.ids, self.positions, self.slots, self.next_ids, self.known_ids, self.windows = columns.unbind()
        self.tiles = self._device[len(FIELDS) * key.n_rows :].view(-1, 3)

    def fill(self, layout: Layout, known: KnownRows = (), tiles: Iterable[tuple[int, int, int]] = ()) -> None:
        """Write a pass into the block and send it; waits until the block before it has left."""
        if self._sent is not None:
            self._sent.synchronize()
        n_rows = self.key.n_rows
        numbers: npt.NDArray[np.int64] = self._host.numpy()
        _write_rows(numbers[: len(FIELDS) * n_rows].reshape(len(FIELDS), n_rows), layout, known)
        table = numbers[len(FIELDS) * n_rows :].reshape(-1, 3)
        table[:] = 0
        for i, tile in enumerate(tiles):
            table[i] = tile
        if self._sent is not None:
            self._device.copy_(self._host, non_blocking=True)
            self._sent.record()


def _write_rows(columns: npt.NDArray[np.int64], layout: Layout, known: KnownRows) -> None:
    ids, positions, slots, next_ids, known_ids, windows = columns
    ids[:] = layout.ids[0].numpy()
    positions[:] = layout.positions[0].numpy()
    columns[2:5] = NOTHING
    windows[:] = np.arange(columns.shape[1])
    for segment in layout.segments:
        rows = slice(segment.first_row, segment.first_row + segment.n_rows)
        slots[rows] = segment.first_slot + positions[rows]
    for i, window in enumerate(layout.windows):
        stop = window.first + window.n_rows
        next_ids[window.first : stop - 1] = ids[window.first + 1 : stop]
        windows[window.first : stop] = i
    for first, wanted in known:
        known_ids[first : first + len(wanted)] = wanted
