"""`apply-eval run`, `report` and `compare` from end to end, in process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from apply_eval.cli import main
from apply_eval.contest import Contest
from apply_eval.datasets import EditRecord, write_records
from apply_eval.loop import RunOptions
from apply_eval.runners import Answer
from apply_service.errors import Unreachable
from tests.doubles import ScriptedRun, make_result
from tests.eval.fake_contest import NAMES, FakeRunner, samples
from tests.eval.rows import record
from tests.live_server import live_server

MODEL = {"name": "made", "kind": "weights", "sha256": "0" * 64, "determinism": "bitwise", "device": "cpu"}
REPLAY = ["--target", "replay:tiny-2m", "--drafters", "original"]
PLAIN = {"is": "engine.plain()", "tok_s": {}, "n_samples": 0, "note": "made"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "d.jsonl"
    write_records(path, samples())
    return path


def results_of(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return values


class Stopped(FakeRunner):
    """Is interrupted at its seventh sample, once."""

    times = 0

    def answer(self, edit: EditRecord) -> Answer:
        if len(self.asked) == 7 and not Stopped.times:
            Stopped.times += 1
            raise KeyboardInterrupt
        return super().answer(edit)


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Fake contestants in place of a target; the class of `fast` may be replaced."""
    classes: dict[str, Any] = {}

    def open_contest(options: RunOptions, records: Sequence[EditRecord], *, plain: Any = None) -> Contest:
        runners = {name: classes.get(name, FakeRunner)(name) for name in NAMES}
        return Contest(runners, MODEL, plain or PLAIN)

    monkeypatch.setattr("apply_eval.contest.open_contest", open_contest)
    return classes


def test_a_run_writes_results_report_and_table(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--data", str(data), "--out", str(tmp_path / "r")]) == 0
    found = results_of(tmp_path / "r")
    assert found["complete"]
    assert list(found["summary"]) == list(NAMES)
    assert found["plan"]["model"] == MODEL
    assert found["provenance"]["data"][0]["name"] == "d.jsonl"
    assert (tmp_path / "r" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    out = capsys.readouterr().out
    assert "faster" in out
    assert "plain is engine.plain()" in out


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contest["fast"] = Stopped
    command = ["run", "--data", str(data), "--out", str(tmp_path / "r")]
    assert main(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    stopped = results_of(tmp_path / "r")
    assert not stopped["complete"]
    assert 6 <= stopped["summary"]["plain"]["n_scored"] < 30
    assert stopped["summary"]["plain"]["n_failed"] == 30 - stopped["summary"]["plain"]["n_scored"]
    assert main(command) == 0
    whole = results_of(tmp_path / "r")
    assert whole["complete"]
    assert whole["summary"]["fast"]["n_scored"] == 30
    assert len(whole["sessions"]) == 2


def test_a_finished_run_asks_nobody_again(contest: dict[str, Any], data: Path, tmp_path: Path) -> None:
    command = ["run", "--data", str(data), "--out", str(tmp_path / "r"), "--limit", "3"]
    assert main(command) == 0
    first = results_of(tmp_path / "r")
    asked: list[FakeRunner] = []

    def remember(name: str) -> FakeRunner:
        asked.append(FakeRunner(name))
        return asked[-1]

    contest.update(dict.fromkeys(NAMES, remember))
    assert main(command) == 0
    assert [runner.asked for runner in asked] == [[], [], []]
    assert results_of(tmp_path / "r")["summary"] == first["summary"]


def test_a_kill_in_the_first_line_begins_anew(contest: dict[str, Any], data: Path, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "rows.jsonl").write_bytes(b'{"plan":{"na')
    assert main(["run", "--data", str(data), "--out", str(tmp_path / "r"), "--limit", "3"]) == 0
    assert results_of(tmp_path / "r")["complete"]


def test_another_run_in_the_same_folder_is_refused_unless_fresh(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "--data", str(data), "--out", str(tmp_path / "r")]
    assert main(command) == 0
    assert main([*command, "--limit", "3"]) == 2
    assert "Another run lies in" in capsys.readouterr().err
    assert main([*command, "--limit", "3", "--fresh"]) == 0
    assert results_of(tmp_path / "r")["summary"]["fast"]["n_total"] == 3


def test_a_contestant_that_is_gone_ends_the_run_with_its_message(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contest["fast"] = lambda name: FakeRunner(name, errors=[Unreachable("connection refused")] * 99)
    assert main(["run", "--data", str(data), "--out", str(tmp_path / "r")]) == 2
    captured = capsys.readouterr().err
    assert "The contestant fast failed 5 times in a row: connection refused" in captured
    assert "same command again" in captured
    assert results_of(tmp_path / "r")["summary"]["fast"]["n_scored"] == 0


def test_the_merger_alone_is_measured_without_a_model(tmp_path: Path) -> None:
    assert main(["run", "--strategy", "exact", "--limit", "4", "--max-lines", "80", "--out", str(tmp_path)]) == 0
    found = results_of(tmp_path)
    assert list(found["summary"]) == ["exact"]
    assert found["plan"]["model"] is None
    assert found["summary"]["exact"]["n_total"] == 4
    assert found["summary"]["exact"]["tok_s"] is None
    assert (tmp_path / "data.jsonl").is_file()
    assert found["provenance"]["data"][0]["name"] == "data.jsonl"


def test_a_server_is_measured(tmp_path: Path) -> None:
    edit = record("a")
    write_records(tmp_path / "d.jsonl", [edit, record("b")])
    run = ScriptedRun(tokens=(edit.after,), result=make_result(edit.after))
    with live_server(run) as (url, _):
        command = ["run", "--data", str(tmp_path / "d.jsonl"), "--server", url]
        assert main([*command, "--out", str(tmp_path / "r")]) == 0
    found = results_of(tmp_path / "r")["summary"]["server"]
    assert (found["n_scored"], found["exact_match"]) == (2, 0.5)
    assert found["speedup_vs_plain"] is None
    assert len(run.requests) == 3, "one is the warm-up"


def test_nobody_at_the_url_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(tmp_path / "d.jsonl", [record("a")])
    command = ["run", "--data", str(tmp_path / "d.jsonl"), "--server", "http://127.0.0.1:9"]
    assert main([*command, "--out", str(tmp_path / "r")]) == 2
    assert "No sample could be scored" in capsys.readouterr().err
    assert not (tmp_path / "r" / "results.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--api-key", "k"], "--api-key would have no effect"),
        (["--dialect", "code_apply"], "--dialect would have no effect"),
        (["--server", "http://x", "--target", "replay:tiny-2m"], "--target would have no effect"),
        (["--server", "http://x", "--api-key", "env:NO_SUCH_VARIABLE"], "The environment has no NO_SUCH_VARIABLE"),
        (["--drafters", "magic"], "No such drafter"),
        (["--server", "ftp://x"], "not the URL of a service"),
        (["--data", "none.jsonl"], "No such data set"),
        (["--max-lines", "1"], "No shipped edit"),
        (["--peers", "hf-magic", *REPLAY], "No such peer: hf-magic"),
        (["--peers", "vllm", "--constrain", "none", *REPLAY], "No server was named"),
    ],
)
def test_bad_options_are_named(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--out", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err


def test_report_from_results_alone(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "--data", str(data), "--out", str(tmp_path / "r")])
    moved = tmp_path / "kept.json"
    (tmp_path / "r" / "results.json").rename(moved)
    assert main(["report", str(moved), "--out", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page" / "report.html").stat().st_size > 10_000
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "No results lie" in capsys.readouterr().err


class Worse(FakeRunner):
    """Wrong where the others are right."""

    def answer(self, edit: EditRecord) -> Answer:
        found = super().answer(edit)
        return Answer(edit.before, latency_s=found.latency_s, n_tokens=50, tok_s=1.0, passes=50, strategy="model")


def test_compare_fails_on_a_regression_alone(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(tmp_path / name) for name in ("a", "same", "worse")]
    for folder in runs[:2]:
        assert main(["run", "--data", str(data), "--out", folder]) == 0
    contest["fast"] = Worse
    assert main(["run", "--data", str(data), "--out", runs[2]]) == 0
    capsys.readouterr()
    assert main(["compare", runs[0], runs[1]]) == 0
    assert "no regression" in capsys.readouterr().out
    assert main(["compare", runs[0], runs[2]]) == 1
    out = capsys.readouterr().out
    assert "regressions: fast: exact_match, fast: silent_errors, fast: tok_s, fast: passes" in out
    assert "right in A alone: sample-" in out
    assert main(["compare", runs[2], runs[0]]) == 0, "better is no regression"
    assert main(["compare", runs[0], runs[0], "--pair", "plain=faster"]) == 0
    assert main(["compare", runs[0], runs[0], "--pair", "faster=plain"]) == 1


def test_compare_refuses_what_does_not_belong_together(
    contest: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "--data", str(data), "--out", str(tmp_path / "a")])
    write_records(data, [record(edit.id, update="other") for edit in samples()])
    main(["run", "--data", str(data), "--out", str(tmp_path / "b")])
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "different texts" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "a"), "--pair", "x=y"]) == 2
    assert "No such pair" in capsys.readouterr().err
