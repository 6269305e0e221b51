"""Estimates of acceptance: where they start, how they move, and what follows from them."""

from __future__ import annotations

import pytest

from apply_service.drafting.drafter import COUNTED_TOKENS, LearningDrafter, expected_tokens, worthwhile_length
from apply_service.protocols import Draft


def after(drafter: LearningDrafter, kind: str, n_drafted: int, n_accepted: int, next_id: int) -> float:
    """What is expected of such drafts after one of `n_drafted` tokens, counted from 0."""
    drafter.draft(range(n_drafted), kind, "somewhere")
    drafter.observe(n_accepted, next_id)
    return drafter.expected(kind)


def test_an_estimate_starts_at_its_prior_and_moves_with_what_is_seen() -> None:
    drafter = LearningDrafter({"sure": (9.0, 1.0), "guess": (1.0, 1.0)})
    assert drafter.draft([1], "sure", "somewhere") == Draft([1], 0.9, "somewhere")
    assert after(drafter, "sure", n_drafted=9, n_accepted=5, next_id=99) == 14 / 16
    assert drafter.expected("guess") == 0.5, "kinds do not mix"


def test_only_the_first_tokens_of_a_draft_count() -> None:
    drafter = LearningDrafter({"long": (0.0, 1.0)})
    assert after(drafter, "long", n_drafted=300, n_accepted=200, next_id=-1) == COUNTED_TOKENS / (COUNTED_TOKENS + 1)


def test_a_cut_draft_that_was_accepted_is_no_rejection() -> None:
    drafter = LearningDrafter({"draft": (1.0, 1.0)})
    assert after(drafter, "draft", n_drafted=9, n_accepted=2, next_id=2) == 3 / 4
    drafter.observe(0, 7)
    assert drafter.expected("draft") == 3 / 4, "a draft is counted once"


@pytest.mark.parametrize(("acceptance", "n"), [(0.0, 5), (0.5, 1), (0.5, 6), (0.93, 40), (1.0, 7), (0.5, 0)])
def test_expected_tokens_is_the_sum_of_the_chances(acceptance: float, n: int) -> None:
    assert expected_tokens(Draft(range(n), acceptance)) == pytest.approx(sum(acceptance**k for k in range(1, n + 1)))


def test_a_draft_ends_where_its_tokens_are_hardly_reached() -> None:
    assert worthwhile_length(0.5, 0.2, 100) == 2
    assert worthwhile_length(0.1, 0.2, 100) == 0
    assert worthwhile_length(1.0, 0.2, 100) == 100
