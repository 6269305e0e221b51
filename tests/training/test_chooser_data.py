"""What the chooser may be fitted to: what is reported on is refused by file, split and repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apply_eval.datasets import EditRecord, write_records
from apply_eval.errors import DataError
from apply_service.errors import NeedsMoreContext
from apply_service.types import Reading
from tests.training.choices import AFTER, make_reading, make_record
from training.chooser_data import collect, feature_names, read_fit_records


def write(folder: Path, *records: EditRecord, name: str = "set.jsonl") -> Path:
    write_records(folder / name, records)
    return folder / name


@pytest.mark.parametrize(
    "name",
    ["real_diffs_dev.jsonl", "model_snippets_dev.jsonl", "peer_cases_dev.jsonl.xz", "check.jsonl", "My-Dev-set.jsonl"],
)
def test_a_set_that_is_reported_on_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, make_record("r"), name=name)
    with pytest.raises(DataError, match="reported on"):
        read_fit_records(path)
    fine = write(tmp_path, make_record("r"), name="develop_fit.jsonl")
    with pytest.raises(DataError, match="reported on"):
        read_fit_records(fine, path)
    assert len(read_fit_records(fine)) == 1


def test_records_of_the_check_split_are_left_out(tmp_path: Path) -> None:
    records = [make_record("a", split="fit"), make_record("b", split="check"), make_record("c")]
    assert [record.id for record in read_fit_records(write(tmp_path, *records))] == ["a", "c"]
    with pytest.raises(DataError, match="no record"):
        read_fit_records(write(tmp_path, make_record("b", split="check")))


@pytest.mark.parametrize("repo", ["pypa/hatch", "Square/Retrofit", "encode/starlette", "someone/starlette", ""])
def test_repositories_that_are_reported_on_are_refused_under_any_file(tmp_path: Path, repo: str) -> None:
    with pytest.raises(DataError, match="nothing may be fitted"):
        read_fit_records(write(tmp_path, make_record("a"), make_record("b", repo)))


def test_other_snippets_are_joined(tmp_path: Path) -> None:
    path = write(tmp_path, make_record("a"), make_record("b"))
    updates = tmp_path / "written.jsonl"
    updates.write_text('{"id": "b", "update": "other", "style": "minimal"}\n', encoding="utf-8")
    found = read_fit_records(path, updates)
    assert [(record.id, record.update, record.style) for record in found] == [("b", "other", "minimal")]


def test_readings_are_told_right_or_wrong_by_their_text() -> None:
    def readings_of(record: EditRecord) -> list[tuple[Reading, float]]:
        if record.id == "refused":
            raise NeedsMoreContext("no anchor")
        return [(make_reading("b2", matched=1.0), 1.0), (make_reading("B", matched=2.0), 0.5)]

    diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    records = [make_record("a"), make_record("refused"), make_record("other", update=diff)]
    windows = replace(make_record("crlf"), before="a\r\nb\r\nc\r\n", after=AFTER.replace("\n", "\r\n"))
    choices, n_others = collect([*records, windows], readings_of, source="s", weight=0.5)
    assert [(choice.id, choice.right, choice.weight) for choice in choices] == [
        ("a", (False, True), 0.5), ("refused", (), 0.5), ("crlf", (False, True), 0.5),
    ]  # fmt: skip
    assert n_others == 1
    assert choices[0].limits == (1.0, 0.5)
    assert feature_names(choices) == ("matched", "deleted", "noise")


def test_features_are_the_same_everywhere_and_finite() -> None:
    odd = make_reading("B")._replace(features={"matched": 1.0})
    with pytest.raises(DataError, match="differ in their features: deleted, noise"):
        collect([make_record("a")], lambda record: [(make_reading("B"), 1.0), (odd, 1.0)], source="s")
    with pytest.raises(DataError, match="not finite"):
        collect([make_record("a")], lambda record: [(make_reading("B", noise=float("nan")), 1.0)], source="s")
    one, _ = collect([make_record("a")], lambda record: [(make_reading("B"), 1.0)], source="s")
    other, _ = collect([make_record("a")], lambda record: [(odd, 1.0)], source="t")
    with pytest.raises(DataError, match="the sets differ"):
        feature_names([*one, *other])
    with pytest.raises(DataError, match="no reading"):
        feature_names([])
