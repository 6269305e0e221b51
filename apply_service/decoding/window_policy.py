"""How many draft tokens of each sequence go into the next pass.

A pass has one of a few sizes, each with a measured time, and all sequences that write share its rows.  Where each
draft token is accepted with probability a, token i is committed with probability a^i.  So rows go to the highest a^i
first, and the size is the one with the most expected tokens a second (docs/drafting.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from apply_service.protocols import Draft

CERTAIN = 0.9995
"""The highest acceptance that a draft can claim, so that equal drafts share rows evenly."""
LADDER = np.log(CERTAIN) * 2.0 ** np.arange(24)
"""Natural logs of thresholds of a token's chance to be committed."""


def share_rows(drafts: Sequence[Draft], pass_times: Mapping[int, float], max_rows: int) -> list[int]:
    """How many tokens of each draft go into the pass.

    Every sequence has one more row, for its last token.  Together the rows fit in `max_rows` and in the chosen size;
    `max_rows` must have room for one row a sequence.
    """
    n_own = len(drafts)
    n_rows = max_rows - n_own
    lengths = np.array([min(len(draft.token_ids), max(0, n_rows)) for draft in drafts], dtype=np.int64)
    chances = np.nan_to_num(np.array([draft.expected_acceptance for draft in drafts], np.float64)).clip(0.0, CERTAIN)
    if lengths.sum() > n_rows:
        # Leave out most of what is surely not among the best, so that there is little to sort: keep the tokens above
        # the first threshold that enough of them pass.
        with np.errstate(divide="ignore"):
            passing = np.minimum(np.floor(LADDER[:, None] / np.log(chances)), lengths).astype(np.int64)
        is_enough = passing.sum(axis=1) >= n_rows
        lengths = passing[np.argmax(is_enough)] if is_enough.any() else lengths
    owners = np.repeat(np.arange(n_own), lengths)
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    values = chances[owners] ** places
    order = np.argsort(-values, kind="stable")[:n_rows]
    expected = n_own + np.concatenate([[0.0], np.cumsum(values[order])])  # by number of the best draft tokens taken
    room = {size: min(len(order), size - n_own) for size in sorted(pass_times) if n_own <= size <= max_rows}
    # Where no size fits, all rows are used.
    n_shared = len(order) if not room else room[max(room, key=lambda size: expected[room[size]] / pass_times[size])]
    return [int(n) for n in np.bincount(owners[order[:n_shared]], minlength=n_own)]
