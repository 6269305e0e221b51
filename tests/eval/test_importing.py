"""Foreign rows become records; what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apply_eval.errors import DataError
from apply_eval.importing import import_records
from tests.eval.samples import PYTHON

AFTER = PYTHON.replace("import json\n", "import json\nimport math\n")


def rows(tmp_path: Path, *found: dict[str, str]) -> Path:
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return path


def test_their_field_names(tmp_path: Path) -> None:
    path = rows(tmp_path, {"old": "a\nb\n", "new": "a\nc\n", "edit": "a\nc\n", "path": "x/y.go"})
    renames = {"before": "old", "after": "new", "update": "edit"}
    records, n_skipped = import_records(path, renames=renames, sketch_styles=None, seed=0)
    assert n_skipped == 0
    assert (records[0].before, records[0].after, records[0].update) == ("a\nb\n", "a\nc\n", "a\nc\n")
    assert records[0].language == "go"
    assert records[0].measures.edit_kind == "replace"


def test_without_updates_the_remedy_is_named(tmp_path: Path) -> None:
    path = rows(tmp_path, {"before": "a\n", "after": "b\n"})
    with pytest.raises(DataError) as caught:
        import_records(path, renames={}, sketch_styles=None, seed=0)
    assert "--sketch" in caught.value.remedy


def test_snippets_are_sketched_and_impossible_ones_counted(tmp_path: Path) -> None:
    path = rows(tmp_path, {"before": PYTHON, "after": AFTER, "path": "a.py"}, {"before": "a\n", "after": "a"})
    records, n_skipped = import_records(path, renames={}, sketch_styles="clean", seed=0)
    assert n_skipped == 1
    assert "import math" in records[0].update
    assert records[0].update_style["is_clean"] is True


def test_no_sample_left_is_an_error(tmp_path: Path) -> None:
    path = rows(tmp_path, {"before": "a\n", "after": "a"})
    with pytest.raises(DataError, match="gives no sample"):
        import_records(path, renames={}, sketch_styles="mixed", seed=0)
