"""The judge of mergers, with mergers made by hand: right, wrong and sure, wrong and unsure, refusing, crashing."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from apply_eval.datasets import EditRecord, measure_edit
from apply_eval.errors import DataError
from apply_eval.merge import (
    MergeAnswer,
    Merger,
    format_merger,
    print_summary,
    print_wrong_certain,
    run_merge,
    size_class,
    summarise,
)
from apply_service.errors import NeedsMoreContext
from apply_service.types import Certainty


def record(name: str, **changes: Any) -> EditRecord:
    before, after = "a\nb\nc\n", "a\nB\nc\n"
    values: dict[str, Any] = {"update": "a\nB\nc\n", "language": "python", "tags": ("clean",)}
    return EditRecord(name, before, after, measure_edit(before, after), **(values | changes))


def answer(text: str, certainty: Certainty = Certainty.CERTAIN, *, determined: bool = False) -> MergeAnswer:
    return MergeAnswer(text, certainty, determined, ("a reason",), "lazy_snippet")


def by_name(answers: dict[str, MergeAnswer | Exception]) -> Merger:
    def merge(found: EditRecord) -> MergeAnswer:
        chosen = answers[found.id]
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    return merge


ANSWERS: dict[str, MergeAnswer | Exception] = {
    "right": answer("a\nB\nc\n"),
    "wrong-certain": answer("a\nb\nc\n"),
    "wrong-likely": answer("a\nb\nc\n", Certainty.LIKELY),
    "wrong-determined": answer("a\nb\nc\n", Certainty.LIKELY, determined=True),
    "bytes": answer("a\r\nB\nc\n"),
    "refused": NeedsMoreContext("no anchor"),
    "crash": ZeroDivisionError("oops"),
}
RECORDS = [record(name, language=None if name == "crash" else "python") for name in ANSWERS]


@pytest.fixture
def summary() -> dict[str, Any]:
    return summarise(run_merge(RECORDS, by_name(ANSWERS)))


def test_counts(summary: dict[str, Any]) -> None:
    assert summary["kind"] == "merge"
    assert summary["schema_version"] == 1
    assert (summary["n_total"], summary["n_exact"], summary["n_wrong_certain"], summary["n_refused"]) == (7, 1, 3, 2)


def test_groups(summary: dict[str, Any]) -> None:
    assert summary["by_certainty"]["certain"] == {"n_total": 3, "n_exact": 1, "n_wrong_certain": 2, "n_refused": 0}
    assert summary["by_certainty"]["likely"] == {"n_total": 2, "n_exact": 0, "n_wrong_certain": 1, "n_refused": 0}
    assert summary["by_certainty"]["refused"]["n_total"] == 2
    assert {name: counts["n_total"] for name, counts in summary["by_language"].items()} == {"python": 6, "unknown": 1}
    assert summary["by_tag"]["clean"]["n_total"] == 7
    assert list(summary["by_size"]) == ["1-100"]


def test_rows(summary: dict[str, Any]) -> None:
    rows = {row["id"]: row for row in summary["rows"]}
    assert rows["right"]["exact"]
    assert rows["right"]["reasons"] == ["a reason"]
    assert {name for name, row in rows.items() if row["wrong_certain"]} == {
        "wrong-certain",
        "wrong-determined",
        "bytes",
    }
    assert rows["refused"]["error"] == "needs_more_context"
    assert rows["refused"]["message"] == "no anchor"
    assert rows["crash"]["error"] == "exception:ZeroDivisionError"
    assert all(row["ms"] >= 0 for row in rows.values())


READ = {
    "first": MergeAnswer("a\nB\nc\n", Certainty.LIKELY, False, (), "lazy_snippet", 0.9, ("a\nB\nc\n", "a\nb\nc\n")),
    "third": MergeAnswer("x", Certainty.LIKELY, False, (), "lazy_snippet", 0.3, ("x", "y", "a\nB\nc\n")),
    "nowhere": MergeAnswer("a\nB\n\nc\n", Certainty.LIKELY, False, (), "lazy_snippet", 0.8, ("a\nB\n\nc\n", "y")),
    "alone": MergeAnswer("a\nB\nc\n", Certainty.LIKELY, False, (), "lazy_snippet", 0.4),
    "determined": MergeAnswer("a\nB\nc\n", Certainty.CERTAIN, True, (), "whole_file"),
    "refused": NeedsMoreContext("no anchor"),
}


@pytest.fixture
def trust() -> dict[str, Any]:
    records = [record(name, style="minimal" if name in ("first", "third") else "") for name in READ]
    return summarise(run_merge(records, by_name(READ)), threshold=0.85)


def test_the_oracle_looks_among_the_first_readings(trust: dict[str, Any]) -> None:
    assert {k: found["n"] for k, found in trust["oracle"].items()} == {"1": 3, "2": 3, "4": 4, "8": 4}
    assert trust["oracle"]["4"]["share"] == 4 / 6
    rows = {row["id"]: row for row in trust["rows"]}
    assert {name: row["right_reading"] for name, row in rows.items()} == {
        "first": 1, "third": 3, "nowhere": None, "alone": 1, "determined": 1, "refused": None,
    }  # fmt: skip
    assert rows["alone"]["n_readings"] == 1


def test_coverage_stands_beside_errors(trust: dict[str, Any]) -> None:
    found = trust["risk"]["at_threshold"]
    assert (found["threshold"], found["n_applied"], found["n_wrong"], found["n_right_below"]) == (0.85, 2, 0, 1)
    assert trust["risk"]["curve"][-1] == [0.3, 5, 2, 5 / 6, 2 / 5]
    assert trust["risk"]["coverage_at"]["0.01"]["coverage"] == 2 / 6
    assert trust["calibration"]["n"] == 5


def test_what_the_format_determines_is_applied_always(trust: dict[str, Any]) -> None:
    assert {row["id"]: row["probability"] for row in trust["rows"]}["determined"] == 1.0


def test_near_misses(trust: dict[str, Any]) -> None:
    assert trust["exact"]["n"] == 3
    assert trust["same_but_blanks"]["n"] == trust["same_but_misquotes"]["n"] == 4


def test_styles(trust: dict[str, Any]) -> None:
    assert list(trust["by_style"]) == ["minimal", "all"]
    minimal = trust["by_style"]["minimal"]
    assert (minimal["n_total"], minimal["exact"]["share"]) == (2, 0.5)
    assert minimal["exact"]["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-3)
    assert minimal["at_threshold"]["n_applied"] == 1
    text = printed(lambda: print_summary(trust))
    assert "from 0.850 on: 33.3%" in text
    assert "0 of 2 wrong" in text
    assert "1 right answers below it" in text


def test_an_empty_set_is_an_error() -> None:
    with pytest.raises(DataError, match="empty"):
        run_merge([], by_name({}))


def test_progress_is_told_of_every_row() -> None:
    seen: list[int] = []
    run_merge(RECORDS[:3], by_name(ANSWERS), on_row=lambda: seen.append(1))
    assert len(seen) == 3


@pytest.mark.parametrize(("n_lines", "name"), [(1, "1-100"), (100, "1-100"), (101, "101-300"), (9999, "over 1500")])
def test_size_classes(n_lines: int, name: str) -> None:
    assert size_class(n_lines) == name


def test_the_served_merger_keeps_line_ends() -> None:
    found = EditRecord(
        "r",
        "first = 1\r\nsecond = 2\r\nthird = 3\r\n",
        "first = 1\r\nsecond = 20\r\nthird = 3\r\n",
        measure_edit("a\n", "b\n"),
        update="first = 1\nsecond = 20\nthird = 3\n",
        language="python",
    )
    for name in ("lazy_snippet", "auto"):
        assert format_merger(name)(found).text == found.after


def printed(show: Any) -> str:
    with redirect_stdout(StringIO()) as out:
        show()
    return out.getvalue()


def test_wrong_but_certain_answers_are_shown_with_their_diff() -> None:
    text = printed(lambda: print_wrong_certain(run_merge(RECORDS, by_name(ANSWERS)), RECORDS))
    assert text.count("wrong but certain:") == 3
    assert "wrong-likely" not in text
    assert "-B\n" in text
    assert "+b\n" in text


def test_the_summary_on_the_terminal(summary: dict[str, Any]) -> None:
    text = printed(lambda: print_summary(summary))
    assert "1 of 7 exact (14.3%), 3 wrong but certain, 2 refused" in text
    assert "by certainty" in text
