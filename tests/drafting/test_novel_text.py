"""`prompt_lookup` and `suffix`: drafts from prompt and output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from apply_service.drafting.lookup import PromptLookup, Suffix
from apply_service.protocols import Draft, DraftContext, Drafter
from tests.adversarial import told
from tests.drafting.simulation import job, passes
from tests.plain_bytes import PlainBytes

Made = Callable[[DraftContext], Drafter]
BOTH = pytest.mark.parametrize("drafter", [PromptLookup, Suffix])


def context(prompt_ids: Sequence[int]) -> DraftContext:
    return DraftContext(PlainBytes().encode_sources(job("", "", "")), prompt_ids, max_new_tokens=8)


def draft(drafter: Made, prompt_ids: Sequence[int], output_ids: Sequence[int], limit: int = 4) -> list[int]:
    return list(drafter(context(prompt_ids)).propose(output_ids, limit).token_ids)


@BOTH
def test_what_followed_before_is_drafted(drafter: Made) -> None:
    assert draft(drafter, [1, 2, 3, 4, 5, 6, 7, 8], [9, 2, 3, 4]) == [5, 6, 7, 8]


@BOTH
def test_the_longest_match_counts(drafter: Made) -> None:
    assert draft(drafter, [7, 1, 2, 3, 11, 9, 2, 3, 12, 5, 3, 13], [7, 1, 2, 3], limit=1) == [11]


@BOTH
def test_a_run_goes_on_past_what_is_written(drafter: Made) -> None:
    assert draft(drafter, [1], [4, 5, 4, 5, 4, 5, 4, 5]) == [4, 5, 4, 5]


@BOTH
def test_a_new_token_gives_no_draft(drafter: Made) -> None:
    assert draft(drafter, [1, 2, 3], [4]) == []
    assert draft(drafter, [], []) == []
    assert draft(drafter, [1, 2, 1], [], limit=0) == []


@BOTH
def test_the_source_is_named(drafter: Made) -> None:
    assert drafter(context([1, 2, 3])).propose([1, 2], 1).source == "prompt"
    assert drafter(context([9])).propose([1, 2, 3, 1, 2], 1).source == "output"


@BOTH
def test_more_output_than_was_said_at_first_is_taken(drafter: Made) -> None:
    made = drafter(context([1, 2]))
    output = [int(token) for token in np.random.default_rng(1).integers(10, 10_000, 500)]
    for n in (3, 90, 500):
        made.propose(output[:n], 3)
        made.observe(told(0, -1))
    assert list(made.propose(output + output[5:9], 1).token_ids) == output[9:10]


def test_of_equal_places_lookup_takes_the_nearest_one_ahead() -> None:
    """Copying goes forward: after the first block comes the second, though the last one occurs later."""
    prompt = [1, 2, 50, 51, 1, 2, 60, 61, 1, 2, 70, 71]
    lookup = PromptLookup(context(prompt))
    assert list(lookup.propose([9, 1, 2], 2).token_ids) == [50, 51]
    lookup.observe(told(2, 8))
    assert list(lookup.propose([9, 1, 2, 50, 51, 8, 1, 2], 2).token_ids) == [60, 61]


def test_of_equal_places_suffix_takes_the_last_and_trusts_a_sole_continuation_more() -> None:
    split = Suffix(context([1, 2, 3, 50, 1, 2, 3, 60])).propose([9, 1, 2, 3], 1)
    sole = Suffix(context([1, 2, 3, 60, 1, 2, 3, 60])).propose([9, 1, 2, 3], 1)
    assert split.token_ids == sole.token_ids == [60]
    assert split.expected_acceptance < sole.expected_acceptance


@BOTH
def test_an_unmatched_draft_lowers_what_is_expected_and_shortens_the_next(drafter: Made) -> None:
    made = drafter(context([1, 2, 3, 4, 5, 6, 7, 8, 9] * 3))
    first = last = made.propose([3], 100)
    for _ in range(30):
        made.observe(told(0, 99))
        last = made.propose([3], 100)
    assert last.expected_acceptance < first.expected_acceptance
    assert len(last.token_ids) < len(first.token_ids)


@BOTH
def test_a_file_is_copied_from_the_prompt(drafter: Made) -> None:
    original = "".join(
        f"def function_{i}(a, b):\n    total_{i} = a + b * {i}\n    return total_{i}\n\n" for i in range(60)
    )
    after = original.replace("b * 30", "b // 31").replace("def function_50", "def renamed")
    stats = passes(drafter, job(original, "", ""), after)
    assert stats.completion_tokens / stats.passes > 40
    assert set(stats.accepted_by_source) <= {"prompt", "output"}


def test_drafts_hold_plain_integers() -> None:
    """Ids go into tensors and JSON."""
    found: Draft = PromptLookup(context([1, 2, 3, 1])).propose([2], 2)
    assert [type(token) for token in found.token_ids] == [int, int]
