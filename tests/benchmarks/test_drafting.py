"""The drafting benchmarks: their target is ideal, their counts add up, and what they write is what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import drafting_cost, drafting_counts
from benchmarks.bench_cases import OWN_EDITS
from benchmarks.drafting_simulation import drive
from tests.adversarial import AlwaysWrong, RandomDraft

ANSWER = [*range(1, 40), 99]


def test_a_right_draft_takes_the_fewest_passes() -> None:
    class Right(RandomDraft):
        def propose(self, output_ids, limit):  # type: ignore[no-untyped-def]
            draft = super().propose(output_ids, limit)
            return type(draft)(ANSWER[len(output_ids) : len(output_ids) + limit], 0.75, "right")

    run = drive(lambda: Right(100), ANSWER, window=9)
    assert (len(run.passes), run.n_rejections, run.n_tokens) == (4, 0, 40)
    assert run.n_accepted == run.n_drafted == 36
    assert {one.expected_acceptance for one in run.passes} == {0.75}


def test_a_wrong_draft_takes_a_pass_for_every_token() -> None:
    run = drive(lambda: AlwaysWrong(ANSWER, 100), ANSWER, window=9)
    assert len(run.passes) == run.n_rejections == 40
    assert run.n_accepted == 0


def test_the_file_of_the_cost_benchmark() -> None:
    lines = [f"line_{i} = {i}" for i in range(100)]
    right, truth = drafting_cost.edit_job(lines, is_right=True)
    assert right.prediction.text == truth
    assert truth.count("if is_needed") == drafting_cost.N_CHANGES
    wrong, same = drafting_cost.edit_job(lines, is_right=False)
    assert same == truth
    assert wrong.prediction.text.count("if is_needed") == drafting_cost.N_CHANGES / 2
    for job in (right, wrong):
        takes = [op for op in job.prediction.ops if op.kind == "take"]
        assert all(job.prediction.update_lines[op.update_line or 0] == op.text for op in takes)
        assert "\n".join(op.text for op in job.prediction.ops if op.original_line is not None) == job.original


def test_the_cost_is_written_with_its_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "cost.json"
    monkeypatch.setattr(sys, "argv", ["drafting_cost", "--tokens", "800", "--runs", "1", "--out", str(out)])
    assert drafting_cost.main() == 0
    result = json.loads(out.read_text())
    assert result["provenance"]["hardware"]["cpu"]
    assert len(result["rows"]) == 2 * (len(drafting_cost.COPY) + len(drafting_cost.NOVEL))
    right = {row["drafter"]: row for row in result["rows"] if row["merge"] == "right"}
    assert right["merged_edit"]["rejections"] == 0
    assert right["merged_edit"]["passes"] < right["original"]["passes"]


def test_counts_by_drafter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, out = "none,merged_edit", tmp_path / "counts.json"
    arguments = ["drafting_counts", "--data", str(OWN_EDITS), "--limit", "1", "--drafters", names, "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert drafting_counts.main() == 0
    result = json.loads(out.read_text())
    assert result["n_edits"] == 1
    assert set(result["summary"]) == set(names.split(","))
    none, merged = result["summary"]["none"], result["summary"]["merged_edit"]
    assert none["tokens_per_pass"] == 1.0
    assert merged["passes_per_edit"] < none["passes_per_edit"]
    assert sum(row["n_drafts"] for row in merged["calibration"]) == merged["passes_per_edit"]
