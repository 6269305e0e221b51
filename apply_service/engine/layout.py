"""Which rows of a pass belong to which session, for both engines.

Windows come first, so that the head needs only the first rows, and never those of a prefill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from apply_service.engine.kv_cache import round_up
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, SamplingParams, Session, TokenIds, TokenSet, Window


class Segment(NamedTuple):
    """One session's rows in a pass.  They start at `position` of its sequence, whose slots start at `first_slot`.

    Attention reads `n_keys` slots.  PyTorch's attention gets `n_padded` query rows: the last row is repeated.
    """

    first_row: int
    n_rows: int
    position: int
    first_slot: int
    n_keys: int
    n_padded: int


class WindowRows(NamedTuple):
    """The rows of one window in a pass, and how they choose.

    `position`: absolute position of the first row's choice.  `allowed[i]`: the ids allowed in row i; None or no entry
    allows all.
    """

    first: int
    n_rows: int
    position: int
    sampling: SamplingParams
    allowed: Sequence[TokenSet | None] | None = None


class Layout(NamedTuple):
    """`ids` and `positions` [n_rows]; `windows[i]` are the rows of the i-th window of the parts."""

    ids: TokenIds
    positions: TokenIds
    segments: tuple[Segment, ...]
    windows: tuple[WindowRows, ...]

    @property
    def n_window_rows(self) -> int:
        return self.windows[-1].first + self.windows[-1].n_rows if self.windows else 0


def pack(
    parts: Sequence[Part],
    n_rows: int,
    *,
    n_vocab: int,
    n_keys: Callable[[Session, int], int],
    query_grain: int,
) -> Layout:
    """Lay out `parts` in `n_rows` rows.

    `n_keys(session, end)`: how many slots attention reads for a segment that ends at position `end`.  `query_grain`:
    attention pads the query rows of a segment to a multiple of it.

    Raises EngineFailure: a part reaches beyond its slots or the vocabulary, has fewer tokens than rows, or shares its
    session.  It would write into other sessions' slots or break the device.
    """
    if len({id(part.session) for part in parts}) < len(parts):
        raise EngineFailure("internal fault: one request was to be computed twice at once", value=len(parts))
    ids: list[int] = []
    positions: list[int] = []
    segments: list[Segment] = []
    windows: list[WindowRows] = []
    for part in sorted(parts, key=lambda part: not isinstance(part, Window)):
        session, first = part.session, len(ids)
        end = session.length + part.n_rows
        if isinstance(part, Window):
            new_ids: Sequence[int] = [part.last_id, *part.draft_ids]
            windows.append(WindowRows(first, part.n_rows, session.length + 1, part.sampling, part.allowed))
        else:
            new_ids = session.prompt_ids[session.length : end]
        if not session.is_open:
            raise EngineFailure("internal fault: a request was to be computed after its end")
        if len(new_ids) != part.n_rows or end > len(session.slots):
            message = f"internal fault: {len(new_ids)} tokens in {part.n_rows} rows up to position {end}"
            raise EngineFailure(message, value=end, limit=len(session.slots))
        if min(new_ids) < 0 or max(new_ids) >= n_vocab:
            worst = min(new_ids) if min(new_ids) < 0 else max(new_ids)
            raise EngineFailure(f"internal fault: the model has no token {worst}", value=worst, limit=n_vocab)
        keys, n_padded = n_keys(session, end), round_up(part.n_rows, query_grain)
        segments.append(Segment(first, part.n_rows, session.length, session.slots.start, keys, n_padded))
        ids += new_ids
        positions += range(session.length, end)
    padding = [0] * (n_rows - len(ids))
    rows = np.array([ids + padding, positions + padding], np.int64)
    return Layout(rows[0], rows[1], tuple(segments), tuple(windows))
