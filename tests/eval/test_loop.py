"""The loop: answers become rows, errors what they are, a service that is gone ends the run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from apply_eval.datasets import EditRecord
from apply_eval.loop import MAX_MISSING_IN_A_ROW, Loop, schedule
from apply_eval.rows import RowsFile, RunRow, read_rows_file
from apply_eval.runners import Answer
from apply_service.errors import (
    ApplyError,
    ContextLimitExceeded,
    DeadlineExceeded,
    EngineFailure,
    Overloaded,
    Unreachable,
)
from tests.eval.fake_contest import FakeRunner
from tests.eval.rows import record

RECORDS = {name: record(name) for name in ("b", "c", "d", "e")}


def run_loop(folder: Path, runner: FakeRunner) -> list[RunRow]:
    with RowsFile(folder / "rows.jsonl", {"names": [runner.name]}) as file:
        loop = Loop(RECORDS, {runner.name: runner}, file)
        loop.run(schedule(list(RECORDS), [runner.name], seed=0))
        return file.record.rows


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (ContextLimitExceeded("too long"), "refused", "context_limit"),
        (Unreachable("gone"), "missing", "unreachable"),
        (Overloaded("busy"), "missing", "overloaded"),
        (DeadlineExceeded("late"), "missing", "deadline_exceeded"),
        (EngineFailure("HTTP 500"), "missing", "engine_failure"),
    ],
)
def test_errors_are_told_apart(tmp_path: Path, error: ApplyError, outcome: str, code: str) -> None:
    row = run_loop(tmp_path, FakeRunner("x", errors=[error]))[0]
    assert (row.outcome, row.error, row.exact) == (outcome, code, False)
    assert row.message == error.message


def test_nothing_is_begun_when_time_is_up(tmp_path: Path) -> None:
    runner = FakeRunner("x")
    with RowsFile(tmp_path / "rows.jsonl", {"names": ["x"]}) as file:
        loop = Loop(RECORDS, {"x": runner}, file, until=time.monotonic() - 1)
        loop.run(schedule(list(RECORDS), ["x"], seed=0))
        assert file.record.rows == []
        loop.until = time.monotonic() + 600
        loop.run(schedule(list(RECORDS), ["x"], seed=0))
        assert len(file.record.rows) == len(RECORDS)


def test_a_crash_of_a_contestant_is_a_row(tmp_path: Path) -> None:
    class Broken(FakeRunner):
        def answer(self, edit: EditRecord) -> Answer:
            raise KeyError(edit.id)

    rows = run_loop(tmp_path, Broken("x"))
    assert {(row.outcome, row.error) for row in rows} == {("crashed", "exception:KeyError")}


def test_missing_samples_are_tried_again_and_answered_ones_are_not(tmp_path: Path) -> None:
    run_loop(tmp_path, FakeRunner("x", errors=[Unreachable("gone"), Unreachable("gone")]))
    again = FakeRunner("x")
    rows = run_loop(tmp_path, again)
    assert len(again.asked) == 2
    assert len(rows) == 4
    assert all(row.is_scored for row in rows)


def test_a_service_that_is_gone_ends_the_run_and_what_is_done_is_kept(tmp_path: Path) -> None:
    many = {f"s{i}": record(f"s{i}") for i in range(20)}
    runner = FakeRunner("x")
    answers = runner.answer

    def fail_later(edit: EditRecord) -> Answer:
        if len(runner.asked) >= 3:
            runner.asked.append(edit.id)
            raise Unreachable("connection refused")
        return answers(edit)

    runner.answer = fail_later  # type: ignore[method-assign]
    with RowsFile(tmp_path / "rows.jsonl", {}) as file:
        loop = Loop(many, {"x": runner}, file)
        with pytest.raises(Unreachable, match="5 times in a row: connection refused"):
            loop.run(schedule(list(many), ["x"], seed=0))
    assert len(runner.asked) == 3 + MAX_MISSING_IN_A_ROW
    assert len(read_rows_file(tmp_path / "rows.jsonl").rows) == 3 + MAX_MISSING_IN_A_ROW


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    class Interrupted(FakeRunner):
        def answer(self, edit: EditRecord) -> Answer:
            if edit.id == "d":
                raise KeyboardInterrupt
            return super().answer(edit)

    with pytest.raises(KeyboardInterrupt):
        run_loop(tmp_path, Interrupted("x"))
    assert [row.id for row in read_rows_file(tmp_path / "rows.jsonl").rows] == ["b", "c"]


def test_warm_up_asks_everyone_and_counts_nothing(tmp_path: Path) -> None:
    runner = FakeRunner("x", errors=[ContextLimitExceeded("too long")])
    with RowsFile(tmp_path / "rows.jsonl", {}) as file:
        Loop(RECORDS, {"x": runner}, file).warm_up(RECORDS["b"])
        assert runner.asked == ["b"]
        assert file.record.rows == []
