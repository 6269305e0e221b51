"""The copy drafters against a target that writes a known answer: where they realign, and how many passes that takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from apply_service.drafting.copy import CopyDrafter, MergedEdit, Original, OriginalSnippet
from apply_service.drafting.lookup import agreement
from apply_service.protocols import DraftContext
from tests.drafting.simulation import job, passes, passes_of
from tests.plain_bytes import PlainBytes

FILE = "".join(f"def function_{i}(a, b):\n    total_{i} = a + b * {i}\n    return total_{i}\n\n\n" for i in range(60))


def test_the_original_drafts_everything_but_the_change() -> None:
    after = FILE.replace("b * 30", "b // 31")
    stats = passes(Original, job(FILE, "", FILE), after)
    assert stats.rejections <= 6, "at most one for each byte that is new"
    assert stats.passes <= len(after) / 256 + 7


def test_a_deleted_block_is_skipped_over() -> None:
    start, end = FILE.index("def function_20("), FILE.index("def function_24(")
    after = FILE[:start] + FILE[end:]
    stats = passes(Original, job(FILE, "", FILE), after)
    assert stats.rejections <= 3


def test_an_inserted_block_comes_from_the_update() -> None:
    new = "def brand_new(x):\n    return helper(x) * 17\n\n\n"
    at = FILE.index("def function_30(")
    after = FILE[:at] + new + FILE[at:]
    edit = job(FILE, f"# ... existing code ...\n{new}# ... existing code ...\n", FILE)
    alone, both = passes(Original, edit, after), passes(OriginalSnippet, edit, after)
    assert both.passes < alone.passes / 2
    assert both.accepted_by_source["update"] >= len(new) - 20


def test_a_right_predicted_merge_is_never_rejected() -> None:
    after = FILE.replace("total_7", "sum_7").replace("function_50", "renamed")
    stats = passes(MergedEdit, job(FILE, "", after), after)
    assert stats.rejections == 0
    assert stats.passes == -(-(len(after) + 1) // 256)


def test_a_wrong_predicted_merge_costs_a_few_passes_not_the_file() -> None:
    wrong = FILE.replace("b * 30", "b * 99").replace("def function_10(a, b)", "def function_10(a)")
    stats = passes(MergedEdit, job(FILE, "", wrong), FILE)
    assert stats.rejections <= 4
    assert stats.passes <= len(FILE) / 256 + 8


@pytest.mark.parametrize("drafter", [Original, OriginalSnippet, MergedEdit])
def test_empty_files_and_empty_updates(drafter: type[CopyDrafter]) -> None:
    assert passes(drafter, job("", "", ""), "").passes == 1
    assert passes(drafter, job("", "new\n", "new\n"), "new\n").passes <= 5


def test_agreement_against_a_plain_search() -> None:
    rng = np.random.default_rng(8)
    ids = rng.integers(0, 4, 300)
    for _ in range(50):
        tail = rng.integers(0, 4, rng.integers(1, 12)).tolist()
        ends = np.flatnonzero(ids == tail[-1]) + 1
        lengths = agreement(ids, ends - 1, tail)
        wanted = {}
        for i, token in enumerate(ids.tolist()):
            n = 0
            while n < len(tail) and i - n >= 0 and ids[i - n] == tail[-1 - n]:
                n += 1
            if token == tail[-1]:
                wanted[i + 1] = n
        assert dict(zip(ends.tolist(), lengths.tolist(), strict=True)) == wanted


def test_lines_that_the_merge_drops_wrongly_are_taken_up_where_they_stand() -> None:
    """The line after them begins as they do, and they occur once more further on: the target does not go there."""
    opening = "    workers = find_all_workers(here, there)\n"
    first, dropped = FILE[:600] + opening, "    remove(alpha)\n    discard(alpha)\n    notify(alpha)\n"
    rest = (
        f"    remove(beta)\n    done()\n\n\ndef other():\n{opening}    remove(alpha)\n    finish(alpha)\n" + FILE[600:]
    )
    original = first + dropped + rest
    sources = PlainBytes().encode_sources(job(original, "", first + rest))
    places = [*range(len(first)), *range(len(first + dropped), len(original) + 1), len(original)]
    drafter = MergedEdit(DraftContext(replace(sources, predicted_to_original=np.array(places))))
    stats = passes_of(drafter, original)
    assert stats.rejections == 1
    assert stats.accepted_by_source["original"] >= len(dropped) - 12
