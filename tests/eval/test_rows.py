"""Rows: answers judged, errors told apart, and the way to JSON and back."""

from __future__ import annotations

import json

import pytest

from apply_eval.rows import (
    MAX_DIFF_LINES,
    as_json,
    facts_of,
    facts_of_json,
    row_of_answer,
    row_of_json,
)
from apply_eval.runners import Answer
from tests.eval.rows import facts, missing, record, refused, right, wrong


def test_a_right_answer() -> None:
    edit = record("a")
    row = row_of_answer(edit, Answer(edit.after, latency_s=0.5, n_tokens=7), name="d")
    assert (row.exact, row.diff, row.n_chars, row.outcome) == (True, None, len(edit.after), "answered")
    assert row.is_decoded


def test_a_wrong_one_carries_its_diff() -> None:
    edit = record("a")
    row = row_of_answer(edit, Answer(edit.before, latency_s=0.5), name="d")
    assert not row.exact
    assert row.diff is not None
    assert "-b = 22\n+b = 2" in row.diff
    assert not row.is_decoded


def test_long_diffs_are_cut() -> None:
    edit = record("a")
    row = row_of_answer(edit, Answer("".join(f"other {i}\n" for i in range(1000)), latency_s=0.5), name="d")
    assert row.diff is not None
    assert row.diff.count("\n") == MAX_DIFF_LINES
    assert row.diff.endswith("more lines")


@pytest.mark.parametrize("row", [right("a", "d"), wrong("b", "d", diff="x"), refused("c", "d"), missing("e", "d")])
def test_json_and_back(row) -> None:  # type: ignore[no-untyped-def]
    assert row_of_json(json.loads(json.dumps(as_json(row, with_texts=True)))) == row
    assert "diff" not in as_json(row, with_texts=False)


def test_fields_of_older_rows_are_left_out() -> None:
    row = right("a", "d")
    assert row_of_json({**as_json(row, with_texts=False), "repeat": 0}) == row
    with pytest.raises(TypeError, match="outcome"):
        row_of_json({"id": "a", "name": "d"})


def test_facts() -> None:
    found = facts_of(record("a", language=None, tags=("x", "y")))
    assert (found.language, found.size, found.kind, found.n_lines, found.tags) == (
        "unknown", "1-100", "replace", 4, ("x", "y"),
    )  # fmt: skip
    assert facts_of_json(json.loads(json.dumps({n: getattr(found, n) for n in found.__dataclass_fields__}))) == found
    assert found.digest != facts("a", update="other").digest
