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

from apply_service.decoding.scheduler import CERTAIN, share_rows
from apply_service.protocols import Draft

ACCEPTANCES = [0.0, 0.2, 0.5, 0.9, 0.99, 1.0]


def draft_of(n_tokens: int, acceptance: float) -> Draft:
    return Draft(range(n_tokens), acceptance)


def committed(drafts: Sequence[Draft], shares: Sequence[int]) -> float:
    """Tokens expected of a pass: the target's own of every sequence, and token i of a draft with probability a^i."""
    return len(drafts) + sum(
        min(draft.expected_acceptance, CERTAIN) ** i
        for draft, n in zip(drafts, shares, strict=True)
        for i in range(1, n + 1)
    )


def rate(drafts: Sequence[Draft], shares: Sequence[int], pass_times: Mapping[int, float]) -> float:
    """Tokens a second, in the smallest pass that has room."""
    rows = len(drafts) + sum(shares)
    return committed(drafts, shares) / pass_times[min(size for size in pass_times if size >= rows)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Draft], dict[int, float], int]:
    drafts = draw(
        st.lists(st.builds(draft_of, st.integers(0, 4), st.sampled_from(ACCEPTANCES)), min_size=1, max_size=3),
    )
    sizes = sorted(draw(st.sets(st.integers(1, 14), min_size=1, max_size=4)) | {len(drafts)})
    steps = draw(st.lists(st.floats(0.0, 2.0), min_size=len(sizes), max_size=len(sizes)))
    times = dict(zip(sizes, itertools.accumulate(steps, initial=0.5), strict=False))
    return drafts, times, draw(st.integers(len(drafts), max(sizes)))


@settings(max_examples=500, deadline=None, print_blob=True)
@given(cases())
def test_no_other_sharing_commits_more_a_second(case: tuple[list[Draft], dict[int, float], int]) -> None:
    drafts, pass_times, max_rows = case
    shares = share_rows(drafts, pass_times, max_rows)
    assert all(0 <= n <= len(draft.token_ids) for n, draft in zip(shares, drafts, strict=True))
    assert len(drafts) + sum(shares) <= max_rows
    usable = max(size for size in pass_times if size <= max_rows)
    others = itertools.product(*(range(len(draft.token_ids) + 1) for draft in drafts))
    allowed = [other for other in others if len(drafts) + sum(other) <= usable]
    best = max(rate(drafts, other, pass_times) for other in allowed)
    assert rate(drafts, shares, pass_times) == pytest.approx(best)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_rows_are_never_exceeded(seed: int) -> None:
    rng = random.Random(seed)
    n_own = rng.randint(1, 80)
    drafts = [
        draft_of(rng.choice([0, 1, 7, 255]), rng.choice([*ACCEPTANCES, 2.0, -1.0, math.nan])) for _ in range(n_own)
    ]
    max_rows = rng.randint(n_own, 300)
    pass_times = {size: rng.uniform(0.5, 3) for size in rng.sample([1, 4, 8, 16, 32, 64, 128, 256], rng.randint(1, 8))}
    shares = share_rows(drafts, pass_times, max_rows)
    assert len(shares) == n_own
    assert all(0 <= n <= len(draft.token_ids) for n, draft in zip(shares, drafts, strict=True))
    assert n_own + sum(shares) <= max_rows


@pytest.mark.parametrize("acceptance", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("n_own", [2, 3, 17, 64])
def test_equals_get_equal_rows(n_own: int, acceptance: float) -> None:
    shares = share_rows([draft_of(255, acceptance)] * n_own, {256: 1.0}, 256)
    assert n_own + sum(shares) == 256
    assert max(shares) - min(shares) <= 1


def test_the_surer_draft_gets_more_rows() -> None:
    drafts = [draft_of(255, 0.5), draft_of(255, 0.99), draft_of(255, 0.9)]
    doubtful, sure, likely = share_rows(drafts, {128: 1.0}, 128)
    assert doubtful < likely < sure


def test_a_short_draft_leaves_its_rows_to_others() -> None:
    assert share_rows([draft_of(3, 1.0), draft_of(255, 0.9)], {64: 1.0}, 64) == [3, 59]


def test_a_larger_pass_must_be_worth_its_time() -> None:
    times = {4: 1.0, 64: 1.1, 256: 4.0}
    assert share_rows([draft_of(255, 0.99)], times, 256) == [63]
    assert share_rows([draft_of(255, 0.1)], times, 256) == [3]
    assert share_rows([draft_of(255, 0.1)] * 30, times, 256)[0] == 2, "thirty need the pass of 64 rows anyway"


def test_nothing_drafted_takes_nothing() -> None:
    assert share_rows([draft_of(0, 1.0), draft_of(0, 0.0)], {8: 1.0}, 8) == [0, 0]


def test_where_no_pass_fits_all_rows_are_used() -> None:
    """Half of the largest pass, say, while prompts are being read: the pass is of that size anyway."""
    assert share_rows([draft_of(255, 0.5), draft_of(255, 0.5)], {256: 1.0}, 128) == [63, 63]


def test_drafts_too_many_to_sort_are_shared_as_if_sorted() -> None:
    rng = np.random.default_rng(3)
    drafts = [draft_of(255, float(a)) for a in rng.uniform(0.5, 1.0, 64)]
    shares = share_rows(drafts, {256: 1.0}, 256)
    chances = sorted(
        (min(draft.expected_acceptance, CERTAIN) ** i for draft in drafts for i in range(1, 256)), reverse=True
    )
    assert committed(drafts, shares) == pytest.approx(64 + sum(chances[:192]))
