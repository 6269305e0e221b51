"""Names of drafters and chains, and who drafts what in a chain."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from apply_service.drafting.copy import Original
from apply_service.drafting.drafter import Chain, NoDraft, check_drafter, drafter_names, open_drafter
from apply_service.errors import UnknownDrafter, UnsupportedParameter
from apply_service.protocols import Draft, Verification
from tests.adversarial import told
from tests.drafting.simulation import job, passes

FILE = "".join(f"def function_{i}(a, b):\n    total_{i} = a + b * {i}\n    return total_{i}\n\n\n" for i in range(30))


def test_the_legal_names() -> None:
    names = list(drafter_names(has_draft_model=True))
    assert len(names) == len(set(names)) == 4 * 3 * 3, "each kind or none of it; all left out is `none`"
    assert {"none", "merged_edit", "suffix", "merged_edit+suffix", "original+prompt_lookup"} < set(names)
    assert "original_snippet+draft_model" in names
    assert {"merged_edit+suffix+draft_model", "suffix+lookahead", "lookahead"} < set(names)
    assert not any("draft_model" in name for name in drafter_names(has_draft_model=False))
    for name in names:
        check_drafter(name, has_draft_model=True)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "psychic",
        "merged_edit+",
        "+suffix",
        "suffix+merged_edit",
        "merged_edit+merged_edit",
        "merged_edit+none",
        "none+suffix",
        "merged_edit+suffix+suffix",
        "merged_edit + suffix",
        "suffix+suffix",
        "Merged_Edit",
    ],
)
def test_other_names_are_refused_with_the_legal_ones(name: str) -> None:
    with pytest.raises(UnknownDrafter) as caught:
        check_drafter(name, has_draft_model=False)
    assert caught.value.value == name
    assert {"none", "merged_edit", "suffix", "draft_model"} < set(caught.value.limit)  # type: ignore[arg-type]
    assert "in this order: original, " in caught.value.remedy


@pytest.mark.parametrize("name", ["draft_model", "merged_edit+draft_model"])
def test_a_draft_model_that_is_not_there_is_its_own_error(name: str) -> None:
    with pytest.raises(UnsupportedParameter, match="no draft model") as caught:
        check_drafter(name, has_draft_model=False)
    assert "draft_model" in caught.value.remedy


class Fixed(NoDraft):
    """Always drafts the same, and counts what it is told."""

    def __init__(self, ids: Sequence[int], acceptance: float, source: str) -> None:
        self.draft = Draft(ids, acceptance, source)
        self.n_asked = self.n_told = self.n_closed = 0

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self.n_asked += 1
        return self.draft

    def observe(self, verification: Verification) -> None:
        self.n_told += 1

    def close(self) -> None:
        self.n_closed += 1


@pytest.mark.parametrize(
    ("copied", "novel", "chosen", "n_asked"),
    [
        (Draft([1] * 20, 0.99), Draft([2] * 20, 0.999), "first", 0),
        (Draft([1] * 20, 0.3), Draft([2] * 5, 0.8), "second", 1),
        (Draft([1] * 20, 0.8), Draft([2] * 1, 0.9), "first", 1),
        (Draft([], 0.0), Draft([2], 0.1), "second", 1),
        (Draft([1], 0.5), Draft([], 0.0), "first", 1),
    ],
)
def test_the_second_drafts_where_the_first_is_lost(copied: Draft, novel: Draft, chosen: str, n_asked: int) -> None:
    first = Fixed(copied.token_ids, copied.expected_acceptance, "first")
    second = Fixed(novel.token_ids, novel.expected_acceptance, "second")
    chain = Chain(first, second)
    assert chain.propose([5], 20).source == chosen
    chain.observe(told(0, 7))
    assert (first.n_told, second.n_told) == ((1, 0) if chosen == "first" else (0, 1))
    assert second.n_asked == n_asked
    chain.close()
    assert (first.n_closed, second.n_closed) == (1, 1)


@pytest.mark.parametrize("second", ["suffix", "prompt_lookup"])
def test_novel_text_comes_from_the_second_and_the_first_takes_up_again(second: str) -> None:
    """The original knows nothing of what the update brings; the prompt does."""
    new = "".join(f'KEY_{c} = compute_the_value("{c * 9}", keyword=True)\n' for c in "abcdefgh")
    at = FILE.index("def function_15(")
    after = FILE[:at] + new + FILE[at:]
    edit = job(FILE, new, FILE)
    alone = passes(Original, edit, after)
    chained = passes(lambda context: open_drafter(f"original+{second}", context), edit, after)
    assert chained.passes < alone.passes / 2
    assert chained.accepted_by_source["prompt"] > len(new) / 2
    assert chained.accepted_by_source["original"] > len(FILE) - 300


def test_a_right_merge_never_asks_the_second() -> None:
    after = FILE.replace("total_7", "sum_7")
    stats = passes(lambda context: open_drafter("merged_edit+suffix", context), job(FILE, "", after), after)
    assert stats.rejections == 0
    assert set(stats.accepted_by_source) == {"predicted"}
