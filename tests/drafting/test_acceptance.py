"""Estimates of acceptance: where they start, how they move, and what follows from them."""

from __future__ import annotations

import pytest

from apply_service.drafting.drafter import Counts, LearningDrafter, expected_tokens, worthwhile_length
from apply_service.drafting.lookup import PromptLookup, Suffix
from apply_service.protocols import Draft, DraftContext
from tests.adversarial import told
from tests.drafting.simulation import job
from tests.plain_bytes import PlainBytes

plain_bytes = PlainBytes()
NO_SOURCES = plain_bytes.encode_sources(job("", "", ""))


def after(drafter: LearningDrafter, kind: str, n_drafted: int, n_accepted: int, next_id: int) -> float:
    """What is expected of such drafts after one of `n_drafted` tokens, counted from 0."""
    drafter.draft(range(n_drafted), kind, "somewhere")
    drafter.observe(told(n_accepted, next_id))
    return drafter.expected(kind)


def made(priors: dict[str, Counts], learnt: dict[str, Counts] | None = None) -> LearningDrafter:
    """A drafter of a request, on a target that has learnt so much."""
    return LearningDrafter(DraftContext(NO_SOURCES, learnt={} if learnt is None else learnt), priors)


def test_an_estimate_starts_at_its_prior_and_moves_with_what_is_seen() -> None:
    drafter = made({"sure": (9.0, 1.0), "guess": (1.0, 1.0)})
    assert drafter.draft([1], "sure", "somewhere") == Draft([1], 0.9, "somewhere")
    assert after(drafter, "sure", n_drafted=9, n_accepted=5, next_id=99) == 14 / 16
    assert drafter.expected("guess") == 0.5, "kinds do not mix"


def test_a_large_prior_is_soon_outweighed() -> None:
    drafter = made({"long": (2500.0, 0.5)})
    assert drafter.expected("long") > 0.999
    assert after(drafter, "long", n_drafted=255, n_accepted=2, next_id=-1) < 0.975


def test_an_estimate_recovers_by_short_drafts_that_are_accepted() -> None:
    drafter = made({"long": (400.0, 1.0)})
    low = min(after(drafter, "long", n_drafted=9, n_accepted=0, next_id=-1) for _ in range(20))
    assert low < 0.7
    assert all(after(drafter, "long", n_drafted=9, n_accepted=9, next_id=9) > low for _ in range(40))
    assert drafter.expected("long") > 0.98


def test_the_next_request_on_a_target_starts_from_what_this_one_learnt() -> None:
    learnt: dict[str, Counts] = {}
    first = after(made({"draft": (1.0, 1.0)}, learnt), "draft", n_drafted=9, n_accepted=2, next_id=-1)
    assert made({"draft": (1.0, 1.0)}, learnt).expected("draft") == first == 3 / 5
    assert made({"draft": (1.0, 1.0)}).expected("draft") == 0.5, "another target has learnt nothing"


def test_drafters_learn_apart() -> None:
    learnt: dict[str, Counts] = {}
    context = DraftContext(plain_bytes.encode_sources(job("a\n", "", "")), [1, 2, 3, 1, 2], learnt=learnt)
    for drafter in (Suffix(context), PromptLookup(context)):
        assert drafter.propose([3], 4).token_ids
        drafter.observe(told(0, -1))
    assert {key.split()[0] for key in learnt} == {"Suffix", "PromptLookup"}


def test_a_cut_draft_that_was_accepted_is_no_rejection() -> None:
    drafter = made({"draft": (1.0, 1.0)})
    assert after(drafter, "draft", n_drafted=9, n_accepted=2, next_id=2) == 3 / 4
    drafter.observe(told(0, 7))
    assert drafter.expected("draft") == 3 / 4, "a draft is counted once"


@pytest.mark.parametrize(("acceptance", "n"), [(0.0, 5), (0.5, 1), (0.5, 6), (0.93, 40), (1.0, 7), (0.5, 0)])
def test_expected_tokens_is_the_sum_of_the_chances(acceptance: float, n: int) -> None:
    assert expected_tokens(Draft(range(n), acceptance)) == pytest.approx(sum(acceptance**k for k in range(1, n + 1)))


def test_a_draft_ends_where_its_tokens_are_hardly_reached() -> None:
    assert worthwhile_length(0.5, 0.2, 100) == 2
    assert worthwhile_length(0.1, 0.2, 100) == 0
    assert worthwhile_length(1.0, 0.2, 100) == 100
