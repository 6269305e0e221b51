"""`apply-eval` from end to end, in process: files in, files and exit codes out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from apply_eval.cli import main
from apply_eval.datasets import read_records, write_records
from tests.eval.git_history import make_repo
from tests.eval.samples import GO, PYTHON, TYPESCRIPT


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changed = {
        "a.py": PYTHON.replace("rows = [vars(r) for r in self.readings]", "rows = [vars(r) for r in self.newest()]"),
        "b.go": GO.replace("\tdata map[string]string\n", "\tdata map[string]string\n\tname string\n"),
        "c.ts": TYPESCRIPT.replace("let total = 0;", "let total = this.start;"),
    }
    first: dict[str, bytes | None] = {"a.py": PYTHON.encode(), "b.go": GO.encode(), "c.ts": TYPESCRIPT.encode()}
    second: dict[str, bytes | None] = {path: text.encode() for path, text in changed.items()}
    folder = tmp_path_factory.mktemp("cli") / "repo"
    return make_repo(folder, [("Add", "2025-01-01", first), ("Change", "2025-01-02", second)])


@pytest.fixture
def data(repo: Path, tmp_path: Path) -> Path:
    out = tmp_path / "mined.jsonl"
    assert main(["mine", "--repo", str(repo), "--out", str(out), "--seed", "3", "--styles", "clean"]) == 0
    return out


def test_quick_ends_with_one_sentence(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quick", str(repo), "--strategy", "exact", "--seed", "3", "--out", str(tmp_path / "quick")]) == 0
    sentence, _, report = capsys.readouterr().out.splitlines()
    assert sentence.startswith("2 of 2 right, ")
    assert report.startswith("report in file://")
    assert (tmp_path / "quick" / "report.html").stat().st_size > 10_000
    assert main(["quick", str(tmp_path)]) == 2, "no repository"


def test_mine_then_merge(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len({record.path for record in read_records(data)} & {"a.py", "b.go", "c.ts"}) == 2
    assert main(["merge", "--data", str(data), "--out", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert results["kind"] == "merge"
    assert results["n_total"] == 2
    assert len(results["rows"]) == 2
    assert results["provenance"]["data"][0]["name"] == "mined.jsonl"
    assert len(results["provenance"]["data"][0]["sha256"]) == 64
    assert results["provenance"]["hardware"]["n_cpus"] >= 1
    assert "of 2 exact" in capsys.readouterr().out


def test_merge_with_other_updates(data: Path, tmp_path: Path) -> None:
    record = read_records(data)[0]
    updates = tmp_path / "u.jsonl"
    updates.write_text(
        json.dumps({"id": record.id, "update": record.after, "tags": ["full_file"]}) + "\n", encoding="utf-8"
    )
    assert main(["merge", "--data", str(data), "--updates", str(updates), "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["n_total"] == results["n_exact"] == 1
    assert list(results["by_tag"]) == ["full_file"]


def test_one_split_and_the_figures_without_rows(data: Path, tmp_path: Path) -> None:
    parts = [replace(record, split=part) for record, part in zip(read_records(data), ("fit", "check"), strict=True)]
    write_records(tmp_path / "parts.jsonl", parts)
    out = tmp_path / "kept" / "merge.json"
    options = ["--data", str(tmp_path / "parts.jsonl"), "--threshold", "0.7", "--json", str(out)]
    assert main(["merge", *options, "--split", "check"]) == 0
    results = json.loads(out.read_text(encoding="utf-8"))
    assert (results["n_total"], results["split"]) == (1, "check")
    assert results["risk"]["at_threshold"]["threshold"] == 0.7
    assert "rows" not in results
    assert main(["merge", "--data", str(data), "--split", "fit"]) == 2


def test_limit(data: Path, tmp_path: Path) -> None:
    assert main(["merge", "--data", str(data), "--limit", "1", "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["n_total"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["merge", "--data", "none.jsonl"], "No such data set"),
        (["mine", "--repo", ".", "--out", "x.jsonl"], "Git refused"),
    ],
)
def test_bad_input_is_named_on_stderr(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_an_empty_set_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.jsonl").write_text("", encoding="utf-8")
    assert main(["merge", "--data", str(tmp_path / "e.jsonl")]) == 2
    assert "holds no sample" in capsys.readouterr().err


def test_unknown_arguments_stop_with_usage() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["merge", "--data", "x", "--cases", "-1"])
    assert caught.value.code == 2


def test_without_data_the_shipped_edits_are_merged(tmp_path: Path) -> None:
    assert main(["merge", "--limit", "5", "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["n_total"] == 5
    assert results["provenance"]["data"][0]["name"] == "own_edits.jsonl"


def test_an_error_is_told_with_what_offended_and_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "--data", str(tmp_path / "none.jsonl")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("apply-eval: ")
    assert str(tmp_path / "none.jsonl") in lines[0]
    assert lines[1:] == ["  Give the path of a JSONL file."]


def test_the_beginning_of_an_option_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["merge", "--lim", "3"])
    assert "unrecognized arguments: --lim 3" in capsys.readouterr().err


def test_a_threshold_is_a_probability(capsys: pytest.CaptureFixture[str]) -> None:
    for text, told in (("x", "'x' is no number"), ("1.5", "not between 0 and 1"), ("nan", "not between 0 and 1")):
        with pytest.raises(SystemExit):
            main(["merge", "--threshold", text])
        assert told in capsys.readouterr().err


@pytest.mark.parametrize(("text", "told"), [("x", "'x' is no whole number"), ("0", "0 is not positive")])
def test_what_is_no_number_is_told(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["merge", "--limit", text])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
