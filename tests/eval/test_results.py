"""`results.json`: written whole, read back, refused where it is something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apply_eval.errors import DataError
from apply_eval.results import RESULTS, build_results, read_results, write_results
from apply_eval.rows import RunRecord
from apply_eval.summary import SummaryOptions
from tests.eval.fake_contest import N_SAMPLES, NAMES, do_run, plan, session
from tests.eval.rows import facts, missing, right, wrong


def results_of(record: RunRecord, *names: str) -> dict[str, Any]:
    return build_results(record, [facts(name) for name in names], SummaryOptions(), plain=None)


def test_a_whole_run(tmp_path: Path) -> None:
    do_run(tmp_path)
    values = json.loads((tmp_path / RESULTS).read_text(encoding="utf-8"))
    assert (values["kind"], values["schema_version"], values["complete"]) == ("run", 1, True)
    assert len(values["rows"]) == N_SAMPLES * len(NAMES)
    assert list(values["summary"]) == list(NAMES)
    assert values["provenance"]["commit"] == "c0ffee"
    assert all(values["summary"][name]["n_scored"] == N_SAMPLES for name in NAMES)
    assert values["summary"]["fast"]["speedup_vs_plain"] == pytest.approx(2.0)
    assert values["summary"]["faster"]["speedup_end_to_end"] == pytest.approx(3.0, rel=1e-4)
    assert not any("diff" in row for row in values["rows"])


def test_reading_it_back(tmp_path: Path) -> None:
    do_run(tmp_path)
    by_folder, by_file = read_results(tmp_path), read_results(tmp_path / RESULTS)
    assert by_folder.rows == by_file.rows
    assert by_folder.names == list(NAMES)
    wrong_ones = {(row.id, row.name) for row in by_folder.rows if row.outcome == "answered" and not row.exact}
    assert {(row.id, row.name) for row in by_folder.rows if row.diff is not None} == wrong_ones
    assert wrong_ones


def test_a_run_that_was_stopped_says_so() -> None:
    some = plan(names=["d"], sample_ids=["a", "b"])
    record = RunRecord(some, [session()], [right("a", "d")])
    found = results_of(record, "a", "b")
    assert not found["complete"]
    assert found["summary"]["d"]["n_total"] == 2
    assert found["summary"]["d"]["n_failed"] == 1
    record.all_rows.append(wrong("b", "d"))
    assert results_of(record, "a", "b")["complete"]


def test_nothing_scored_is_an_error() -> None:
    some = plan(names=["d"], sample_ids=["a"])
    for rows in ([], [missing("a", "d")]):
        with pytest.raises(DataError, match="no sample could be scored"):
            results_of(RunRecord(some, [session()], rows), "a")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_results(tmp_path, {"kind": "run", "rows": [], "samples": []})
    before = (tmp_path / RESULTS).read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_results(tmp_path, {"kind": "run", "rows": [1], "samples": []})
    assert (tmp_path / RESULTS).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no results of a run"),
        ('{"kind": "merge"}', "no results of a run"),
        ('{"kind": "run", "schema_version": 99}', "another schema"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / RESULTS).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_results(tmp_path)
    with pytest.raises(DataError, match="no results lie"):
        read_results(tmp_path / "none")
