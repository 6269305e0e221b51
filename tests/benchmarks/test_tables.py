"""The tables say what the summary says, and where it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.decoding.samples import summarise
from benchmarks.decoding.tables import render
from benchmarks.report import number, ratio
from tests.benchmarks.samples import sample


def result() -> dict[str, Any]:
    samples = [sample("hf_plain", 10, group) for group in "abc"]
    samples += [sample("merged_edit", 131, group) for group in "abc"]
    samples += [sample("hf_plain", 50, group, batch=8) for group in "abc"]
    samples += [sample("merged_edit", 49, group, batch=8) for group in "abc"]
    return {
        "provenance": {
            "created": "2026-11-21T10:00:00+00:00",
            "command": ["bench.py", "--limit", "3"],
            "seed": 4,
            "data": [{"name": "own_edits.jsonl", "sha256": "0"}],
            "commit": "0123456789abcdef",
            "dirty": True,
            "versions": {"torch": "2.13", "transformers": "5.23"},
            "hardware": {"cpu": "Some CPU", "n_cpus": 2, "system": "Linux x86_64"},
        },
        "device": {"kind": "cpu", "name": "Some CPU", "threads": 2, "cuda": None},
        "targets": [
            {
                "name": "replay:tiny",
                "is_replay": True,
                "n_params": 2_000_000,
                "dtype": "float32",
                "determinism": "bitwise",
                "n_cases": 3,
                "n_too_long": 1,
                "prompt_tokens": 1234,
                "output_tokens": 900,
                "chars_a_token": 3.5,
            }
        ],
        "summary": summarise(samples),
        "constrain": "none",
        "is_complete": True,
    }


def test_a_result_names_its_source_and_that_it_is_a_replay() -> None:
    page = render(result())
    assert "`python -m benchmarks.bench --limit 3`, commit 0123456789ab with uncommitted changes" in page
    assert "2 threads, torch 2.13, transformers 5.23" in page
    assert "own_edits.jsonl; seed 4" in page
    assert "random weights, the known answer replayed" in page
    assert "3 edits (1 more were too long)" in page


def test_a_run_that_was_stopped_says_so() -> None:
    assert "stopped before its end" not in render(result())
    assert "stopped before its end" in render(result() | {"is_complete": False})


def test_rows_hold_the_figures() -> None:
    page = render(result())
    row = next(line for line in page.split("\n") if line.startswith("| `merged_edit` | 131"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2] == "13.1x [13.1, 13.1]"
    assert cells[6:9] == ["10.0", "2.00", "75.0%"]
    assert "| `merged_edit` | 131 (13.1x [13.1, 13.1]) | 49.0 (0.98x [0.98, 0.98]) |" in page


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0, "0"), (0.3333, "0.33"), (9.999, "10.00"), (12.34, "12.3"), (12345.6, "12,346")]
)
def test_numbers_have_about_three_figures(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_ratio_without_an_interval_has_none() -> None:
    assert ratio({"median": 2.0, "low": None, "high": None, "n": 1}) == "2.00x"
    assert ratio(None) == ""
