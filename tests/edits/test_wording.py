"""New lines that may be lines of the file written carelessly: each pair differs in what makes it an edit."""

from __future__ import annotations

import pytest

from tests.edits.merges import assert_merged, edited

MEASURE = """\
def measure(box):
    if box:
        begin_with(box)
        weigh_it_all(box)
    finish(box)
"""
CLOSE = """\
def close(pool):
    # Close the pool and every connection that it still holds open
    pool.stop()
    pool.clear()
    return None
"""


# -- white space -----------------------------------------------------------------------------------------------------
def test_a_stretch_that_only_moves_sideways() -> None:
    original = "def run(item):\n    first_step(1)\n    if item:\n        second_step(item)\n    last(2)\n"
    update = "def run(item):\n    first_step(1)\n    second_step(item)\n    last(2)\n"
    assert_merged(original, update, update)


def test_a_stretch_that_says_something_new_besides() -> None:
    original = "def run(item):\n    first_step(1)\n    if item:\n        second_step(item)\n    last(2)\n"
    update = "def run(item):\n    first_step(1)\n    second_step(item)\n    check(item)\n    last(2)\n"
    assert_merged(original, update, update)


def test_a_line_indented_otherwise_where_no_line_proves_the_margin() -> None:
    original = "def run():\n    do(1)\n    measure_all(item)\n    go(2)\n"
    update = "def run():\n    do(1)\n    if item:\n        measure_all(item)\n    go(2)\n"
    assert_merged(original, update, update)


def test_a_line_indented_otherwise_is_meant_where_another_is_indented_as_in_the_file() -> None:
    original = "def run():\n    do_the_first(1)\n    measure_all(item)\n    go(2)\n"
    update = "def run():\n    do_the_first(1)\n    if item:\n        measure_all(item)\n    go(2)\n"
    assert_merged(original, update, update)


SHORT = "begin_with(box)\ncount = 1\ndone()  \nleave(box)\n"
LONGER = "begin_with(box)\ncount = 1\nwidth = measure(box)\ndone()\nleave(box)\n"


def test_a_short_line_taken_without_its_trailing_space() -> None:
    assert_merged(SHORT, LONGER, LONGER)


def test_a_short_line_taken_as_the_file_has_it() -> None:
    assert_merged(edited(SHORT, "()  ", "()"), LONGER, LONGER)


# -- misquotations ---------------------------------------------------------------------------------------------------
def test_a_comment_that_lost_a_word_and_moved_may_be_the_files() -> None:
    update = edited(CLOSE, "    pool.stop()\n", "")
    update = edited(update, "    # Close the pool and every connection that it still holds open\n", "    pool.halt()\n")
    update = edited(
        update,
        "    pool.clear()\n",
        "    # Close the pool and every connection it still holds open\n    pool.clear()\n",
    )
    assert_merged(CLOSE, update, update)


@pytest.mark.parametrize(
    "comment",
    [
        pytest.param("# Close the pool and every connection that it still holds open", id="as in the file"),
        pytest.param("# Close the pool, then forget each of its connections", id="in other words"),
    ],
)
def test_a_comment_in_the_files_words_or_in_its_own_is_no_misquotation(comment: str) -> None:
    update = edited(CLOSE, "# Close the pool and every connection that it still holds open", comment)
    update = edited(update, "pool.stop()", "pool.halt()")
    assert_merged(CLOSE, update, update)


# -- trailing white space --------------------------------------------------------------------------------------------
def test_a_gap_before_a_remark_may_be_the_lines_own() -> None:
    update = edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)   # <- changed")
    assert_merged(MEASURE, update, edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)"))


def test_two_spaces_before_a_remark_are_the_remarks() -> None:
    update = edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)  # <- changed")
    assert_merged(MEASURE, update, edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)"))
