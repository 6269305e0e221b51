"""Scopes, wording, blank lines and repeats that may be read in two ways: each pair differs in what decides."""

from __future__ import annotations

from tests.edits.merges import assert_merged

# -- white space -----------------------------------------------------------------------------------------------------


SHORT = "begin_with(box)\ncount = 1\ndone()  \nleave(box)\n"
LONGER = "begin_with(box)\ncount = 1\nwidth = measure(box)\ndone()\nleave(box)\n"


def test_a_short_line_taken_without_its_trailing_space() -> None:
    assert_merged(SHORT, LONGER, LONGER)
