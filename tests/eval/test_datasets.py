"""Records come back as they were written; what is wrong with a file is said with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apply_eval.datasets import EditRecord, join_updates, measure_edit, read_records, write_records
from apply_eval.errors import DataError


def record(name: str = "r1", **changes: Any) -> EditRecord:
    before, after = "a\nb\nc\n", "a\nB\nc\n"
    values: dict[str, Any] = {"update": "a\nB\nc\n", "language": "python", "path": "x.py", "tags": ("clean",)}
    return EditRecord(name, before, after, measure_edit(before, after), **(values | changes))


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.xz"])
def test_records_come_back_as_written(tmp_path: Path, name: str) -> None:
    records = [record(), record("r2", style="minimal", subject="Straße", path=None)]
    assert write_records(tmp_path / name, records) == 2
    assert read_records(tmp_path / name) == records


def test_line_ends_inside_texts_survive(tmp_path: Path) -> None:
    odd = EditRecord("r", "a\r\nb\u2028c\rd\n", "a\r\nx\n", measure_edit("a\r\nb\u2028c\rd\n", "a\r\nx\n"))
    write_records(tmp_path / "s.jsonl", [odd])
    assert read_records(tmp_path / "s.jsonl") == [odd]


def test_a_row_with_the_three_texts_is_enough(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", {"before": "a\nb\n", "after": "a\nc\n", "update": "a\nc\n"})
    (found,) = read_records(path)
    assert (found.measures.lines_added, found.measures.lines_removed, found.measures.edit_kind) == (1, 1, "replace")
    assert found.id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"before": "a", "after": "b"}\n{"before": "a"}\n', "line 2: field `after` is missing"),
        ('{"before": 1, "after": "b"}\n', "line 1: field `before` is a int, not a string"),
        ('{"before": "a", "after": "b", "tags": "x"}\n', "field `tags` is not a list"),
        ("[1, 2]\n", "line 1: not a JSON object"),
        ("{oops\n", "line 1: not JSON"),
        ('{"id": "x", "before": "a", "after": "b"}\n' * 2, "holds the id 'x' twice"),
        ("\n\n", "holds no sample"),
        ("", "holds no sample"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_records(path)
    assert message in caught.value.message


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such data set"):
        read_records(tmp_path / "none.jsonl")


def test_a_file_that_is_not_xz_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl.xz").write_bytes(b"not xz")
    with pytest.raises(DataError, match="can't read"):
        read_records(tmp_path / "s.jsonl.xz")


def test_updates_replace_snippets_and_tags_by_id(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "u.jsonl", {"id": "b", "update": "new", "tags": ["odd"]})
    (joined,) = join_updates([record("a"), record("b")], path)
    assert (joined.id, joined.update, joined.tags) == ("b", "new", ("odd",))


def test_updates_for_unknown_ids_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "u.jsonl", {"id": "zzz", "update": "new"})
    with pytest.raises(DataError) as caught:
        join_updates([record("a")], path)
    assert caught.value.value == ["zzz"]


def test_real_records_are_read_and_measured_alike(extra_data: Path) -> None:
    records = read_records(extra_data / "real_diffs_dev.jsonl")[:60]
    for found in records:
        again = measure_edit(found.before, found.after)
        assert again.n_lines_before == found.measures.n_lines_before
        changed = (again.lines_added, again.lines_removed)
        assert changed == pytest.approx((found.measures.lines_added, found.measures.lines_removed), abs=12)


@pytest.mark.parametrize(
    ("after", "kind", "added", "removed"),
    [
        ("a\nb\nx\nc\n", "insert", 1, 0),
        ("a\nc\n", "delete", 0, 1),
        ("a\nX\nY\nc\n", "replace", 2, 1),
        ("x\na\nb\n", "mixed", 1, 1),
    ],
)
def test_kind_and_counts(after: str, kind: str, added: int, removed: int) -> None:
    measures = measure_edit("a\nb\nc\n", after)
    assert (measures.edit_kind, measures.lines_added, measures.lines_removed) == (kind, added, removed)
    assert measures.n_lines_before == 3
