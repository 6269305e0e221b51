"""An answer without the edit."""

from __future__ import annotations

from tests.checks.answers import answer, findings, severities

ORIGINAL = "a = 1\nb = 2\nc = 3\n"


def test_nothing_changed_though_the_edit_says_so() -> None:
    found = findings("no_op", answer(ORIGINAL, ORIGINAL, update="b = 22", expected="a = 1\nb = 22\nc = 3\n"))
    assert severities(found) == {"warning"}
    assert "nothing of the edit is in the answer" in found[0].message


def test_an_edit_that_changes_nothing() -> None:
    found = findings("no_op", answer(ORIGINAL, ORIGINAL, update="b = 2"))
    assert severities(found) == {"warning"}
    assert "changes nothing" in found[0].message


def test_half_applied() -> None:
    expected = "a = 1\nb = 22\nc = 3\nd = 4\n"
    item = answer(ORIGINAL, "a = 1\nb = 22\nc = 3\n", update="b = 22\nc = 3\nd = 4\n", expected=expected)
    found = findings("no_op", item)
    assert severities(found) == {"warning"}
    assert "d = 4" in found[0].message


def test_applied_at_another_indentation_or_place_has_arrived() -> None:
    expected = "a = 1\nb = 22\nc = 3\n"
    assert findings("no_op", answer(ORIGINAL, "    b = 22\na = 1\nc = 3\n", update="b = 22", expected=expected)) == []


def test_the_right_answer() -> None:
    assert findings("no_op", answer(ORIGINAL, "a = 1\nb = 22\nc = 3\n", update="b = 22")) == []
    assert findings("no_op", answer(ORIGINAL, "a = 1\nc = 3\n", update="a = 1\nc = 3")) == []
