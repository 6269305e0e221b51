"""Rows: answers judged, errors told apart, and the way to JSON and back."""

from __future__ import annotations

import json

import pytest

from apply_eval.rows import (
    MAX_DIFF_LINES,
    as_json,
    facts_of,
    facts_of_json,
    join_undrafted,
    row_of_answer,
    row_of_json,
    wrong_diff,
)
from apply_eval.runners import Answer
from apply_service.types import PassCount
from tests.eval.rows import facts, missing, record, refused, right, wrong


def test_a_right_answer() -> None:
    edit = record("a")
    row = row_of_answer(edit, Answer(edit.after, latency_s=0.5, n_tokens=7), name="d", repeat=0)
    assert (row.exact, row.diff, row.n_chars, row.outcome) == (True, None, len(edit.after), "answered")
    assert row.is_decoded


def test_a_wrong_one_carries_its_diff() -> None:
    edit = record("a")
    row = row_of_answer(edit, Answer(edit.before, latency_s=0.5), name="d", repeat=0)
    assert not row.exact
    assert row.diff is not None
    assert "-b = 22\n+b = 2" in row.diff
    assert not row.is_decoded


def test_long_diffs_are_cut() -> None:
    edit = record("a")
    diff = wrong_diff(edit, "".join(f"other {i}\n" for i in range(1000)))
    assert diff.count("\n") == MAX_DIFF_LINES
    assert diff.endswith("more lines")


@pytest.mark.parametrize("row", [right("a", "d"), wrong("b", "d", diff="x"), refused("c", "d"), missing("e", "d")])
def test_json_and_back(row) -> None:  # type: ignore[no-untyped-def]
    assert row_of_json(json.loads(json.dumps(as_json(row, with_diff=True)))) == row
    assert "diff" not in as_json(row, with_diff=False)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="surprise"):
        row_of_json({**as_json(right("a", "d"), with_diff=False), "surprise": 1})


def test_undrafted_passes_are_joined() -> None:
    counts = (PassCount(1, 0, 0, ""),) * 3 + (PassCount(5, 9, 4, "original"),) + (PassCount(1, 0, 0, ""),) * 2
    assert join_undrafted(counts) == (PassCount(3, 0, 0, ""), PassCount(5, 9, 4, "original"), PassCount(2, 0, 0, ""))


def test_facts() -> None:
    found = facts_of(record("a", language=None, tags=("x", "y")))
    assert (found.language, found.size, found.kind, found.n_lines, found.tags) == (
        "unknown", "1-100", "replace", 4, ("x", "y"),
    )  # fmt: skip
    assert facts_of_json(json.loads(json.dumps({n: getattr(found, n) for n in found.__dataclass_fields__}))) == found
    assert found.digest != facts("a", update="other").digest
