"""Lays out the rows of a pass for all engines: which session each row belongs to, and which rows choose a token.

Only rows that choose go through the head.  Rows of a prompt choose nothing, and a row of a window chooses only if the
target has a choice there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from apply_service.engine.kv_cache import round_up
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, SamplingParams, Session, TokenIds, TokenSet, Verification, Window


class Segment(NamedTuple):
    """One session's rows in a pass.

    The first row has the absolute position `position`, and position 0 has the slot `first_slot`.  Attention reads
    `n_keys` slots.  PyTorch's attention gets `n_padded` query rows; for that, the last row is repeated.
    """

    first_row: int
    n_rows: int
    position: int
    first_slot: int
    n_keys: int
    n_padded: int


class WindowRows(NamedTuple):
    """The rows of one window that go through the head, and how they choose.

    They are the rows from `first` to `first + n_rows` of the head.  `position`: the absolute position of the window's
    first choice.  `places[i]`: the choice of the window that row i makes.  If `places` is None, the rows make all
    choices in order.  `allowed[i]`: the ids that row i may choose; None or no entry allows all ids.
    """

    first: int
    n_rows: int
    position: int
    sampling: SamplingParams
    allowed: Sequence[TokenSet | None] | None = None
    places: Sequence[int] | None = None

    @property
    def positions(self) -> TokenIds:
        """The absolute position of each choice."""
        return self.position + np.asarray(range(self.n_rows) if self.places is None else self.places, np.int64)

    def masks(self) -> Iterator[tuple[int, TokenSet]]:
        """Yield each row of the head that has a mask, and the mask."""
        for row, ids in zip(range(self.first, self.first + self.n_rows), self.allowed or (), strict=False):
            if ids is not None:
                yield row, ids

    def verified(self, window: Window, choices: Sequence[int], logprobs: Sequence[float] | None) -> Verification:
        """Return the target's decision on `window`, from the choices and log probabilities of all rows of the head.

        A draft token is accepted if it equals the target's choice and all draft tokens before it are accepted.  This is
        exact, because a choice depends only on the tokens before it.  If the target is not asked for a choice, that
        choice is the only token that the mask allows.
        """
        rows = slice(self.first, self.first + self.n_rows)
        made, told = list(choices[rows]), [] if logprobs is None else list(logprobs[rows])
        if self.places is not None:
            assert window.allowed is not None
            given, chances = (
                [int(ids[0]) if ids is not None else -1 for ids in window.allowed],
                [0.0] * len(window.allowed),
            )
            for i, place in enumerate(self.places):
                given[place] = made[i]
                chances[place] = told[i] if told else 0.0
            made, told = given, chances
        drafted = window.draft_ids
        n_accepted = next((i for i, token in enumerate(drafted) if token != made[i]), len(drafted))
        n_chosen = n_accepted + 1
        return Verification(made[:n_chosen], None if logprobs is None else told[:n_chosen], made[n_chosen:])


class Layout(NamedTuple):
    """The rows of a pass.

    `ids` and `positions` are [n_rows].  `head_rows` [n_head_rows] are the rows that go through the head.  `windows[i]`
    describes the head's rows of the i-th window of the parts.
    """

    ids: TokenIds
    positions: TokenIds
    segments: tuple[Segment, ...]
    windows: tuple[WindowRows, ...]
    head_rows: TokenIds

    def verified(
        self, parts: Sequence[Part], choices: Sequence[int], logprobs: Sequence[float] | None
    ) -> list[Verification]:
        """Return the target's decision on each window, from the choices of all rows of the head."""
        windows = (part for part in parts if isinstance(part, Window))
        return [rows.verified(part, choices, logprobs) for rows, part in zip(self.windows, windows, strict=True)]


def asked_places(window: Window) -> list[int] | None:
    """Return the indices of the choices in a window that the target is asked for; None means all choices."""
    if window.allowed is None:
        return None
    asked = window.asked
    if asked is None:
        asked = [ids is None or len(ids) != 1 for ids in window.allowed]
    return None if all(asked) else [i for i, is_asked in enumerate(asked) if is_asked]


def pack(
    parts: Sequence[Part],
    n_rows: int,
    *,
    n_vocab: int,
    n_keys: Callable[[Session, int], int],
    query_grain: int,
) -> Layout:
    """Lay out `parts` in `n_rows` rows.

    `n_keys(session, end)`: the number of slots that attention reads for a segment that ends at position `end`.
    `query_grain`: attention pads the query rows of a segment to a multiple of this.

    Raises EngineFailure if a part reaches beyond its slots or the vocabulary, has fewer tokens than rows, belongs to a
    closed session, or shares its session with another part.  Such a part would write into slots of other sessions, or
    make the device fail.
    """
    if len({id(part.session) for part in parts}) < len(parts):
        raise EngineFailure("internal fault: one request was to be computed twice at once", value=len(parts))
    ids: list[int] = []
    positions: list[int] = []
    segments: list[Segment] = []
    windows: list[WindowRows] = []
    head_rows: list[int] = []
    for part in parts:
        session, first = part.session, len(ids)
        end = session.length + part.n_rows
        if isinstance(part, Window):
            n_pending, places = session.n_pending, asked_places(part)
            new_ids: Sequence[int] = [
                *session.prompt_ids[session.length : session.length + n_pending],
                part.last_id,
                *part.draft_ids,
            ]
            chosen = range(len(new_ids) - n_pending) if places is None else places
            allowed = part.allowed if places is None or part.allowed is None else [part.allowed[i] for i in places]
            start = session.length + n_pending + 1
            windows.append(WindowRows(len(head_rows), len(chosen), start, part.sampling, allowed, places))
            head_rows += [first + n_pending + i for i in chosen]
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
    return Layout(rows[0], rows[1], tuple(segments), tuple(windows), np.array(head_rows, np.int64))
