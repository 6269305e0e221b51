"""What becomes of samples: medians, `plain` as the faster candidate of each group, ratios of paired runs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.decoding.samples import Sample, summarise, with_plain
from tests.benchmarks.samples import sample


def rows_of(samples: list[Sample]) -> dict[tuple[int, str], dict[str, Any]]:
    return {(row["batch"], row["contender"]): row for row in summarise(samples)}


def test_plain_is_the_faster_candidate_of_each_group() -> None:
    samples = [
        sample("plain_engine", 10, "a"),
        sample("hf_plain", 20, "a"),
        sample("plain_engine", 30, "b"),
        sample("hf_plain", 25, "b"),
    ]
    plain = {s.group: s.tok_s for s in with_plain(samples) if s.contender == "plain"}
    assert plain == {"a": 20, "b": 30}
    row = rows_of(samples)[1, "plain"]
    assert row["tok_s"] == 25


def test_ratios_pair_the_groups_that_both_ran() -> None:
    speeds = {"a": (10, 100), "b": (20, 300), "c": (10, 120), "d": (50, 200)}
    samples = [sample("hf_plain", plain, group) for group, (plain, _) in speeds.items()]
    samples += [sample("merged_edit", fast, group) for group, (_, fast) in speeds.items()]
    samples += [sample("merged_edit", 9999, "only here"), sample("hf_prompt_lookup", 50, "a")]
    row = rows_of(samples)[1, "merged_edit"]
    assert row["vs_plain"]["n"] == 4
    assert row["vs_plain"]["median"] == pytest.approx(11)  # of 10, 15, 12, 4
    assert row["vs_plain"]["low"] <= 11 <= row["vs_plain"]["high"]
    assert row["vs_hf_prompt_lookup"] == {"median": 2.0, "low": None, "high": None, "n": 1}


def test_batches_and_targets_are_apart() -> None:
    samples = [
        sample("hf_plain", 10),
        sample("merged_edit", 30),
        sample("hf_plain", 100, batch=8, n_exact=8),
        sample("merged_edit", 150, batch=8, n_exact=7),
        sample("hf_plain", 1, target="embedded"),
        sample("merged_edit", 7, target="embedded"),
    ]
    rows = rows_of([s for s in samples if s.target != "embedded"])
    assert rows[1, "merged_edit"]["vs_plain"]["median"] == 3
    assert rows[8, "merged_edit"]["vs_plain"]["median"] == 1.5
    assert (rows[8, "merged_edit"]["n_exact"], rows[8, "merged_edit"]["n_edits"]) == (7, 8)
    both = [row["target"] for row in summarise(samples) if row["contender"] == "merged_edit" and row["batch"] == 1]
    assert both == ["replay:tiny", "embedded"]


def test_speeds_are_medians_and_counts_are_means() -> None:
    samples = [
        sample("merged_edit", 10, "a"),
        sample("merged_edit", 30, "b", passes=30, rejections=5, drafted=280, accepted=70, draft_s=0.0028),
        sample("plain_engine", 10, "a", is_capped=True, end_to_end_s=None, drafted=0, accepted=0),
    ]
    rows = rows_of(samples)
    fast, plain = rows[1, "merged_edit"], rows[1, "plain"]
    assert fast["tok_s"] == 20
    assert fast["tokens_per_pass"] == 200 / 40
    assert fast["rejections_per_edit"] == 3.5
    assert fast["acceptance"] == 160 / 400
    assert fast["draft_us_per_token"] == 10
    assert fast["chars_s"] == pytest.approx((400 / 11 + 400 / (1 + 100 / 30)) / 2)
    assert (plain["chars_s"], plain["acceptance"], plain["rejections_per_edit"]) == (None, None, None)


def test_a_sample_comes_back_from_json() -> None:
    one = sample("merged_edit", 10)
    assert Sample(**one.as_json()) == one
