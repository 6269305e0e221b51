"""The comparison of merge and model: what the merge alone flags, and what is kept."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from apply_eval.datasets import EditRecord, measure_edit, write_records
from apply_service.target import Runtime, Target
from benchmarks.models import __main__ as models
from benchmarks.models.__main__ import MERGE, MergeAlone, open_runner


def test_the_merge_alone_needs_no_model() -> None:
    runner = open_runner(MERGE, Runtime(load=no_model), argparse.Namespace())
    assert runner.answer(lazy(0, update=RIGHT, after=RIGHT)).text == RIGHT


def no_model(name: str) -> Target:
    raise AssertionError(f"{name} was asked")


def lazy(at: int, *, update: str, after: str) -> EditRecord:
    before = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    return EditRecord(
        f"r{at}", before, after, measure_edit(before, after), update=update, path="a.py", language="python"
    )


RIGHT = "def f():\n    return 1\n\n\ndef g():\n    return 3\n"


def test_a_merge_that_is_not_certain_counts_as_flagged() -> None:
    sure = MergeAlone().answer(lazy(0, update=RIGHT, after=RIGHT))
    assert sure.text == RIGHT
    unsure = MergeAlone().answer(lazy(1, update="    return 3\n", after=RIGHT))
    assert ("doubt" in sure.findings, "doubt" in unsure.findings) == (
        sure.certainty != "certain",
        unsure.certainty != "certain",
    )
    assert unsure.certainty != "certain"


def test_a_run_keeps_its_figures_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.jsonl"
    write_records(data, [lazy(0, update=RIGHT, after=RIGHT), lazy(1, update=RIGHT, after=RIGHT + "more\n")])
    command = ["models", "--name", "embedded", "--part", "answers", "--set", "tiny", "--ways", MERGE, "--keep"]
    monkeypatch.setattr(sys, "argv", [*command, "--data", str(data)])
    monkeypatch.setattr(models, "FOLDER", tmp_path / "runs" / "models")
    monkeypatch.setattr(models, "RESULTS", tmp_path)
    assert models.main() == 0
    asked = capsys.readouterr().err
    kept = json.loads((tmp_path / "embedded-model-tiny.json").read_text())
    assert (kept["n_edits"], kept["complete"]) == (2, True)
    assert kept["ways"][MERGE]["exact_match"] == 0.5
    assert kept["ways"][MERGE]["n_refused"] == 0
    assert len(asked.splitlines()) == 2
    assert models.main() == 0
    assert capsys.readouterr().err == ""
