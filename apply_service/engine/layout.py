"""Which rows of a pass belong to which session, and which of them choose a token, for both engines.

Only rows that choose go through the head: none of a prompt, and in a window those where the target has a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from apply_service.engine.kv_cache import round_up
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, SamplingParams, Session, TokenIds, TokenSet, Verification, Window


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
    """The rows of one window that go through the head, and how they choose.

    They are rows `first` to `first + n_rows` of the head.  `places`: which choices of the window they make; None: all.
    `position`: absolute position of the window's first choice.  `allowed[i]`: the ids allowed in row i; None or no
    entry allows all.
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
        """Yield the head's rows that have a mask, with it."""
        for row, ids in zip(range(self.first, self.first + self.n_rows), self.allowed or (), strict=False):
            if ids is not None:
                yield row, ids

    def verified(self, window: Window, choices: Sequence[int], logprobs: Sequence[float] | None) -> Verification:
        """Return what comes of `window`, given the choices and their log probabilities in all rows of the head.

        Draft tokens are accepted as long as each equals the choice before it.  A choice depends only on the tokens
        before it, so this is exact.  A choice that the target is not asked for is the one that the mask allows.
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
    """`ids` and `positions` [n_rows]; `head_rows` [n_head_rows]: the rows that go through the head; `windows[i]` are
    those of the i-th window of the parts."""

    ids: TokenIds
    positions: TokenIds
    segments: tuple[Segment, ...]
    windows: tuple[WindowRows, ...]
    head_rows: TokenIds

    def verified(
        self, parts: Sequence[Part], choices: Sequence[int], logprobs: Sequence[float] | None
    ) -> list[Verification]:
        """Return what comes of each window, given the choices in all rows of the head."""
        windows = (part for part in parts if isinstance(part, Window))
        return [rows.verified(part, choices, logprobs) for rows, part in zip(self.windows, windows, strict=True)]


def asked_places(window: Window) -> list[int] | None:
    """Return the choices of a window that the target is asked for; None: all."""
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
