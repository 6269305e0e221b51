"""Where every row of a packed pass lies, and what may not be packed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.engine.layout import Layout, WindowRows, pack
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, Prefill, SamplingParams, Session, TokenSet, Window

VOCAB = 100


def session(prompt: Sequence[int], length: int, *, first_slot: int = 0, capacity: int = 64) -> Session:
    made = Session(
        prompt, range(first_slot, first_slot + capacity), owner="", n_cached=0, release=lambda _session: None
    )
    made.length = length
    return made


def packed(parts: Sequence[Part], n_rows: int) -> Layout:
    return pack(parts, n_rows, n_vocab=VOCAB, n_keys=lambda _session, end: -(-end // 16) * 16, query_grain=4)


def test_only_what_the_target_is_asked_for_goes_through_the_head() -> None:
    reading, writing, other = session(range(9), 2), session([7, 8], 5, first_slot=64), session([9], 0, first_slot=128)
    sampling = SamplingParams(0.5, 3)
    masks: list[TokenSet | None] = [None, np.array([1]), np.array([2, 3])]
    layout = packed(
        [
            Prefill(reading, 4),
            Window(writing, 40, [41, 42], sampling, masks),
            Window(other, 9, [], SamplingParams()),
        ],
        12,
    )
    assert layout.ids.tolist() == [2, 3, 4, 5, 40, 41, 42, 9, 0, 0, 0, 0]
    assert layout.positions.tolist() == [2, 3, 4, 5, 5, 6, 7, 0, 0, 0, 0, 0]
    assert layout.head_rows.tolist() == [4, 6, 7]
    first, second = layout.windows
    assert first == WindowRows(0, 2, 6, sampling, [None, masks[2]], [0, 2])
    assert second == WindowRows(2, 1, 1, SamplingParams())
    assert first.positions.tolist() == [6, 8]
    assert [(s.first_row, s.n_rows, s.position, s.first_slot, s.n_keys, s.n_padded) for s in layout.segments] == [
        (0, 4, 2, 0, 16, 4),
        (4, 3, 5, 64, 16, 4),
        (7, 1, 0, 128, 16, 4),
    ]


def test_a_window_may_bring_the_rest_of_its_prompt() -> None:
    here = session(range(9), 5)
    window = Window(
        here, 8, [41, 42], SamplingParams(), [np.array([41]), np.array([42]), np.array([3])], [False, True, False]
    )
    layout = packed([window], 8)
    assert window.n_rows == 6
    assert layout.ids.tolist() == [5, 6, 7, 8, 41, 42, 0, 0]
    assert layout.positions.tolist() == [5, 6, 7, 8, 9, 10, 0, 0]
    assert layout.head_rows.tolist() == [4]
    assert layout.windows[0].positions.tolist() == [10]


def test_a_pass_without_windows_has_no_rows_for_the_head() -> None:
    assert not len(packed([Prefill(session(range(9), 0), 8)], 8).head_rows)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_every_row_is_one_tokens_and_found_again(seed: int) -> None:
    rng = random.Random(seed)
    parts: list[Part] = []
    for i in range(rng.randint(1, 8)):
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randint(2, 30))]
        here = session(prompt, rng.randrange(len(prompt) - 1), first_slot=64 * i)
        if rng.random() < 0.5:
            parts.append(Prefill(here, rng.randint(1, here.n_pending)))
        else:
            here.length = rng.choice([here.length, len(prompt) - 1])
            parts.append(Window(here, prompt[-1], [rng.randrange(VOCAB) for _ in range(rng.randint(0, 9))], SAMPLING))
    n_used = sum(part.n_rows for part in parts)
    layout = packed(parts, n_used + rng.randint(0, 5))
    ids, positions = layout.ids.tolist(), layout.positions.tolist()
    by_slot = {segment.first_slot: segment for segment in layout.segments}
    rows: list[int] = []
    for part in parts:
        segment = by_slot[part.session.slots.start]
        own = slice(segment.first_row, segment.first_row + segment.n_rows)
        prompt = part.session.prompt_ids
        wanted = prompt[part.session.length :]
        if isinstance(part, Window):
            wanted = [*prompt[part.session.length : -1], part.last_id, *part.draft_ids]
        assert ids[own] == list(wanted)[: part.n_rows]
        assert positions[own] == list(range(part.session.length, part.session.length + part.n_rows))
        rows += range(own.start, own.stop)
    assert sorted(rows) == list(range(n_used))
    assert not any(ids[n_used:] + positions[n_used:])
    windows = [part for part in parts if isinstance(part, Window)]
    assert [rows.position for rows in layout.windows] == [len(window.session.prompt_ids) for window in windows]
    assert [ids[row] for row in layout.head_rows] == [i for one in windows for i in (one.last_id, *one.draft_ids)]


SAMPLING = SamplingParams()


def test_what_would_write_into_another_sequences_slots_is_refused() -> None:
    full = session([1, 2], 60, capacity=64)
    assert packed([Window(full, 2, [3, 4, 5], SAMPLING)], 4).segments[0].position == 60
    with pytest.raises(EngineFailure) as caught:
        packed([Window(full, 2, [3, 4, 5, 6], SAMPLING)], 5)
    assert (caught.value.value, caught.value.limit) == (65, 64)


@pytest.mark.parametrize("bad", [-1, VOCAB, 2**40])
def test_what_is_not_in_the_vocabulary_is_refused(bad: int) -> None:
    """On a CUDA device it would be an assertion that ends the device for everybody."""
    faulty: list[Part] = [
        Window(session([1, 2], 1), 2, [3, bad], SAMPLING),
        Window(session([1, 2], 1), bad, [], SAMPLING),
        Prefill(session([1, bad, 3], 0), 2),
    ]
    for part in faulty:
        with pytest.raises(EngineFailure, match="has no token") as caught:
            packed([part], 4)
        assert (caught.value.value, caught.value.limit) == (bad, VOCAB)


def test_one_session_twice_is_refused() -> None:
    here = session([1, 2], 1)
    with pytest.raises(EngineFailure, match="twice at once"):
        packed([Window(here, 2, [], SAMPLING), Window(here, 2, [], SAMPLING)], 4)


def test_more_rows_than_the_prompt_has_are_refused() -> None:
    """They would be rows of whoever comes next."""
    with pytest.raises(EngineFailure, match="5 tokens in 6 rows"):
        packed([Prefill(session([1] * 5, 0), 6), Prefill(session([2] * 5, 0, first_slot=64), 2)], 8)


def test_a_closed_session_is_refused() -> None:
    here = session([1, 2], 1)
    here.close()
    with pytest.raises(EngineFailure, match="after its end"):
        packed([Window(here, 2, [], SAMPLING)], 4)
