"""The rows of a packed pass: the parts of all its sessions, one after the other, windows first, padded to a row count.

Windows come first so that the head is computed on a leading slice of the rows, and never on those of a prefill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch

from apply_service.engine.attention import Segment
from apply_service.engine.sampling import Rows
from apply_service.engine.session import TorchSession
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, Window


class Layout(NamedTuple):
    """`ids` and `positions` [1, n_rows] int64; `windows[i]` are the rows of the i-th window of the parts."""

    ids: torch.Tensor
    positions: torch.Tensor
    segments: tuple[Segment, ...]
    windows: tuple[Rows, ...]

    @property
    def n_window_rows(self) -> int:
        return self.windows[-1].first + self.windows[-1].n_rows if self.windows else 0


def pack(
    parts: Sequence[Part],
    n_rows: int,
    *,
    n_vocab: int,
    n_keys: Callable[[TorchSession, int], int],
    n_padded: Callable[[int], int],
) -> Layout:
    """Lay out `parts` in `n_rows` rows.  `n_keys(session, end)`: how many slots a segment that ends at position `end`
    attends to; `n_padded(n)`: how many query rows n rows take in the kernel.

    Raises:
        EngineFailure: a part reaches beyond its session's slots or the vocabulary of `n_vocab`, is not of as many rows
            as it says, or shares its session; unseen, it would write into its neighbours' slots or break the device.
    """
    _refuse_shared(parts)
    ids: list[int] = []
    positions: list[int] = []
    segments: list[Segment] = []
    windows: list[Rows] = []
    for part in windows_first(parts):
        session = cast(TorchSession, part.session)
        new_ids = part_ids(part)
        _refuse_impossible(part, new_ids, n_vocab)
        first, end = len(ids), session.length + part.n_rows
        if isinstance(part, Window):
            windows.append(Rows(first, part.n_rows, end - part.n_rows + 1, part.sampling, part.allowed))
        keys, padded = n_keys(session, end), n_padded(part.n_rows)
        segments.append(Segment(first, part.n_rows, session.length, session.slots.start, keys, padded))
        ids += new_ids
        positions += range(session.length, end)
    padding = [0] * (n_rows - len(ids))
    rows = torch.tensor([ids + padding, positions + padding], dtype=torch.int64)
    return Layout(rows[:1], rows[1:], tuple(segments), tuple(windows))


def windows_first(parts: Sequence[Part]) -> list[Part]:
    """The parts in the order of their rows."""
    return sorted(parts, key=lambda part: not isinstance(part, Window))


def _refuse_shared(parts: Sequence[Part]) -> None:
    if len({id(part.session) for part in parts}) < len(parts):
        raise EngineFailure("two parts of a pass are of one session", value=len(parts))


def _refuse_impossible(part: Part, ids: Sequence[int], n_vocab: int) -> None:
    session = cast(TorchSession, part.session)
    end = session.length + part.n_rows
    if not session.is_open:
        raise EngineFailure("the session is closed")
    if len(ids) != part.n_rows or end > session.capacity:
        raise EngineFailure(
            f"{len(ids)} tokens in {part.n_rows} rows up to position {end}", value=end, limit=session.capacity
        )
    if min(ids) < 0 or max(ids) >= n_vocab:
        worst = min(ids) if min(ids) < 0 else max(ids)
        raise EngineFailure(f"token {worst} is not in the vocabulary", value=worst, limit=n_vocab)


def part_ids(part: Part) -> list[int]:
    """The tokens whose keys and values the part adds."""
    if isinstance(part, Window):
        return [part.last_id, *part.draft_ids]
    session = cast(TorchSession, part.session)
    return list(session.prompt_ids[session.length : session.length + part.n_rows])
