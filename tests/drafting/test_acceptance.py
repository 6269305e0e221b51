"""Estimates of acceptance: where they start, how they move, and what follows from them."""

from __future__ import annotations

import pytest

from apply_service.drafting.acceptance import (
    COUNTED_TOKENS,
    Acceptance,
    Counts,
    expected_tokens,
    worthwhile_length,
)


def test_an_estimate_starts_at_its_prior_and_moves_with_what_is_seen() -> None:
    acceptance = Acceptance({"sure": Counts(9.0, 1.0), "guess": Counts(1.0, 1.0)})
    assert acceptance.expected("sure") == 0.9
    acceptance.learn("sure", n_accepted=5, is_rejected=True)
    assert acceptance.expected("sure") == 14 / 16
    assert acceptance.expected("guess") == 0.5, "kinds do not mix"


def test_only_the_first_tokens_of_a_draft_count() -> None:
    acceptance = Acceptance({"long": Counts(0.0, 1.0)})
    acceptance.learn("long", n_accepted=200, is_rejected=True)
    assert acceptance.expected("long") == COUNTED_TOKENS / (COUNTED_TOKENS + 1)


def test_a_cut_draft_that_stood_is_no_rejection() -> None:
    acceptance = Acceptance({"draft": Counts(1.0, 1.0)})
    acceptance.learn("draft", n_accepted=2, is_rejected=False)
    assert acceptance.expected("draft") == 3 / 4


@pytest.mark.parametrize(("acceptance", "n"), [(0.0, 5), (0.5, 1), (0.5, 6), (0.93, 40), (1.0, 7), (0.5, 0)])
def test_expected_tokens_is_the_sum_of_the_chances(acceptance: float, n: int) -> None:
    assert expected_tokens(acceptance, n) == pytest.approx(sum(acceptance**k for k in range(1, n + 1)))


def test_a_draft_ends_where_its_tokens_are_hardly_reached() -> None:
    assert worthwhile_length(0.5, 0.2, 100) == 2
    assert worthwhile_length(0.1, 0.2, 100) == 0
    assert worthwhile_length(1.0, 0.2, 100) == 100
