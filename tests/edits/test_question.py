"""What a question shows of the readings of an edit."""

from __future__ import annotations

import pytest

from apply_service.merge.rank.question import MAX_COLUMNS, MAX_LINES, short_diff, shown_readings
from apply_service.text.diff import unified_diff_text
from apply_service.types import OtherReading

TEN = [f"line {n}\n" for n in range(1, 11)]


def diff(old: list[str], new: list[str]) -> list[str]:
    return short_diff(unified_diff_text("".join(old), "".join(new), "a.txt"))


def test_a_short_diff_has_one_unchanged_line_around_each_hunk() -> None:
    assert diff(TEN, [*TEN[:4], "new\n", *TEN[5:]]) == ["@@ line 4 @@", " line 4", "-line 5", "+new", " line 6"]
    assert diff(TEN, TEN[1:-1]) == ["@@ line 1 @@", "-line 1", " line 2", "@@ line 9 @@", " line 9", "-line 10"]
    assert diff([], ["new\n"]) == ["@@ line 1 @@", "+new"]
    assert diff(TEN, TEN) == []


def test_lines_that_look_like_a_diff_are_lines() -> None:
    old = ["@@ -1 +1 @@\n", "--- a\n", "+++ b\n"]
    assert diff(old, [*old[:1], *old[2:]]) == ["@@ line 1 @@", " @@ -1 +1 @@", "---- a", " +++ b"]


@pytest.mark.parametrize(("n_more", "note"), [(1, "... 1 more line ..."), (7, "... 7 more lines ...")])
def test_a_long_diff_is_cut_and_says_so(n_more: int, note: str) -> None:
    shown = diff([], [f"{n}\n" for n in range(MAX_LINES - 1 + n_more)])
    assert (shown[-2:], len(shown)) == ([f"+{MAX_LINES - 2}", note], MAX_LINES + 1)


def test_a_long_line_is_cut_and_says_so() -> None:
    assert diff([], ["x" * 5000 + "\n"])[1] == "+" + "x" * (MAX_COLUMNS - 1) + "..."


@pytest.mark.parametrize(
    ("chances", "n_shown"),
    [
        ([0.5], 1),
        ([0.5, 0.1], 2),
        ([0.5, 0.2, 0.1, 0.1], 3),
        ([0.2] * 4, 4),
        ([0.2, 0.2, 0.2, 0.19, 0.1], 4),
        ([0.1] * 6, 5),
    ],
)
def test_three_readings_are_shown_and_five_of_equal_ones(chances: list[float], n_shown: int) -> None:
    assert len(shown_readings([OtherReading("0" * 12, chance, "") for chance in chances])) == n_shown


def test_equal_places_are_told_apart_by_the_scope_around_them() -> None:
    old = "".join(f"def {name}():\n    x = 1\n    y = 2\n\n    z = 3\n" for name in "ab")
    new = old[: old.rindex("z = 3")] + "z = 4\n"
    diff = unified_diff_text(old, new, "a.py")
    assert short_diff(diff, old)[0] == "@@ line 9, in def b(): @@"
    assert short_diff(diff)[0] == "@@ line 9 @@"
