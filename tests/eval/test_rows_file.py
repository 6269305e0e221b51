"""The file that a run lives in: what it keeps, what it refuses, what a torn line costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply_eval.errors import DataError
from apply_eval.rows import RowsFile, read_rows_file
from tests.eval.rows import missing, right, wrong

PLAN = {"names": ["d"], "sample_ids": ["s1", "s2"], "seed": 1}


def written(path: Path) -> Path:
    with RowsFile(path, PLAN) as file:
        file.add_session({"commit": "c0ffee"})
        for row in (right("s1", "d"), wrong("s2", "d", diff="-a\n+b", findings=("syntax",)), missing("s3", "d")):
            file.add_row(row)
    return path


def test_everything_comes_back(tmp_path: Path) -> None:
    record = read_rows_file(written(tmp_path / "rows.jsonl"))
    assert record.plan == PLAN
    assert record.sessions == [{"commit": "c0ffee"}]
    assert record.rows == [
        right("s1", "d"),
        wrong("s2", "d", diff="-a\n+b", findings=("syntax",)),
        missing("s3", "d"),
    ]


def test_it_only_ever_grows(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl")
    before = path.read_bytes()
    with RowsFile(path, PLAN) as file:
        file.add_row(right("s3", "d"))
    assert path.read_bytes().startswith(before)
    assert read_rows_file(path).rows[-1] == right("s3", "d"), "the later row of a sample counts"
    assert len(read_rows_file(path).rows) == 3


@pytest.mark.parametrize("n_cut", [1, 2, 30, 90])
def test_a_torn_line_is_cut_off_and_nothing_else(tmp_path: Path, n_cut: int) -> None:
    path = written(tmp_path / "rows.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-n_cut])
    kept = read_rows_file(path).rows
    assert kept == [right("s1", "d"), wrong("s2", "d", diff="-a\n+b", findings=("syntax",))]
    with RowsFile(path, PLAN) as file:
        file.add_row(missing("s3", "d"))
    assert path.read_bytes() == whole


def test_a_kill_before_the_first_line_is_whole_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"plan": {"na')
    with RowsFile(path, PLAN) as file:
        assert file.record.plan == PLAN
    assert read_rows_file(path).rows == []


def test_another_run_is_not_mixed_in(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl")
    with pytest.raises(DataError, match="it differs in names, seed"):
        RowsFile(path, {**PLAN, "names": ["e"], "seed": 2})


@pytest.mark.parametrize("text", ["", "not json\n", "[]\n", '{"plan": {}}\n{"oops": 1}\n'])
def test_other_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"rows\.jsonl"):
        read_rows_file(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run lies"):
        read_rows_file(tmp_path / "none.jsonl")
