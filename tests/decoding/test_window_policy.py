"""How rows are shared, against every way of sharing them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.decoding.window_policy import CERTAIN, Want, share_rows

ACCEPTANCES = [0.0, 0.2, 0.5, 0.9, 0.99, 1.0]


def committed(wants: Sequence[Want], shares: Sequence[int]) -> float:
    """Tokens expected of a pass: the target's own of every sequence, and token i of a draft with probability a^i."""
    return len(wants) + sum(
        min(want.acceptance, CERTAIN) ** i for want, n in zip(wants, shares, strict=True) for i in range(1, n + 1)
    )


def rate(wants: Sequence[Want], shares: Sequence[int], pass_times: Mapping[int, float]) -> float:
    """Tokens a second, in the smallest pass that has room."""
    rows = len(wants) + sum(shares)
    return committed(wants, shares) / pass_times[min(size for size in pass_times if size >= rows)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Want], dict[int, float], int]:
    wants = draw(
        st.lists(st.builds(Want, st.integers(0, 4), st.sampled_from(ACCEPTANCES)), min_size=1, max_size=3),
    )
    sizes = sorted(draw(st.sets(st.integers(1, 14), min_size=1, max_size=4)) | {len(wants)})
    steps = draw(st.lists(st.floats(0.0, 2.0), min_size=len(sizes), max_size=len(sizes)))
    times = dict(zip(sizes, itertools.accumulate(steps, initial=0.5), strict=False))
    return wants, times, draw(st.integers(len(wants), max(sizes)))


@settings(max_examples=500, deadline=None, print_blob=True)
@given(cases())
def test_no_other_sharing_commits_more_a_second(case: tuple[list[Want], dict[int, float], int]) -> None:
    wants, pass_times, max_rows = case
    shares = share_rows(wants, pass_times, max_rows)
    assert all(0 <= n <= want.n_tokens for n, want in zip(shares, wants, strict=True))
    assert len(wants) + sum(shares) <= max_rows
    usable = max(size for size in pass_times if size <= max_rows)
    others = itertools.product(*(range(want.n_tokens + 1) for want in wants))
    allowed = [other for other in others if len(wants) + sum(other) <= usable]
    best = max(rate(wants, other, pass_times) for other in allowed)
    assert rate(wants, shares, pass_times) == pytest.approx(best)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_rows_are_never_exceeded(seed: int) -> None:
    rng = random.Random(seed)
    n_own = rng.randint(1, 80)
    wants = [Want(rng.choice([0, 1, 7, 255]), rng.choice([*ACCEPTANCES, 2.0, -1.0, math.nan])) for _ in range(n_own)]
    max_rows = rng.randint(n_own, 300)
    pass_times = {size: rng.uniform(0.5, 3) for size in rng.sample([1, 4, 8, 16, 32, 64, 128, 256], rng.randint(1, 8))}
    shares = share_rows(wants, pass_times, max_rows)
    assert len(shares) == n_own
    assert all(0 <= n <= want.n_tokens for n, want in zip(shares, wants, strict=True))
    assert n_own + sum(shares) <= max_rows


@pytest.mark.parametrize("acceptance", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("n_own", [2, 3, 17, 64])
def test_equals_get_equal_rows(n_own: int, acceptance: float) -> None:
    shares = share_rows([Want(255, acceptance)] * n_own, {256: 1.0}, 256)
    assert n_own + sum(shares) == 256
    assert max(shares) - min(shares) <= 1


def test_the_surer_draft_gets_more_rows() -> None:
    wants = [Want(255, 0.5), Want(255, 0.99), Want(255, 0.9)]
    doubtful, sure, likely = share_rows(wants, {128: 1.0}, 128)
    assert doubtful < likely < sure


def test_a_short_draft_leaves_its_rows_to_others() -> None:
    assert share_rows([Want(3, 1.0), Want(255, 0.9)], {64: 1.0}, 64) == [3, 59]


def test_a_larger_pass_must_be_worth_its_time() -> None:
    times = {4: 1.0, 64: 1.1, 256: 4.0}
    assert share_rows([Want(255, 0.99)], times, 256) == [63]
    assert share_rows([Want(255, 0.1)], times, 256) == [3]
    assert share_rows([Want(255, 0.1)] * 30, times, 256)[0] == 2, "thirty need the pass of 64 rows anyway"


def test_nothing_drafted_takes_nothing() -> None:
    assert share_rows([Want(0, 1.0), Want(0, 0.0)], {8: 1.0}, 8) == [0, 0]


def test_where_no_pass_fits_all_rows_are_used() -> None:
    """Half of the largest pass, say, while prompts are being read: the pass is of that size anyway."""
    assert share_rows([Want(255, 0.5), Want(255, 0.5)], {256: 1.0}, 128) == [63, 63]


def test_drafts_too_many_to_sort_are_shared_as_if_sorted() -> None:
    rng = np.random.default_rng(3)
    wants = [Want(255, float(a)) for a in rng.uniform(0.5, 1.0, 64)]
    shares = share_rows(wants, {256: 1.0}, 256)
    chances = sorted((min(want.acceptance, CERTAIN) ** i for want in wants for i in range(1, 256)), reverse=True)
    assert committed(wants, shares) == pytest.approx(64 + sum(chances[:192]))
