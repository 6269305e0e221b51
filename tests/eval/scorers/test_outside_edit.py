"""Hand-made answers that are wrong inside the edit, outside it, or both."""

from __future__ import annotations

from apply_eval.scorers.outside_edit import count_lines_outside

BEFORE = "".join(f"{i}\n" for i in range(20))
WANTED = BEFORE.replace("10\n", "ten\n", 1)


def test_a_right_answer_has_none() -> None:
    assert count_lines_outside(BEFORE, WANTED, WANTED) == 0


def test_wrong_inside_the_edit_alone() -> None:
    assert count_lines_outside(BEFORE, WANTED, BEFORE) == 0
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("ten\n", "zehn\n")) == 0
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("ten\n", "")) == 0
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("ten\n", "ten\nmore\n")) == 0


def test_lines_lost_or_altered_elsewhere() -> None:
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("3\n4\n", "", 1)) == 2
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("3\n", "three\n", 1)) == 1
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("17\n18\n19\n", "")) == 3


def test_lines_added_elsewhere() -> None:
    assert count_lines_outside(BEFORE, WANTED, WANTED + "a\nb\n") == 2
    assert count_lines_outside(BEFORE, WANTED, "// remark\n" + WANTED) == 1


def test_a_cut_that_starts_in_the_edit_counts_beyond_it() -> None:
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("ten\n11\n12\n", "")) == 2


def test_a_lost_final_newline_is_a_line() -> None:
    assert count_lines_outside(BEFORE, WANTED, WANTED.rstrip("\n")) >= 1


def test_changed_line_ends_are_wrong_lines() -> None:
    assert count_lines_outside(BEFORE, WANTED, WANTED.replace("\n", "\r\n")) >= 19


def test_an_insertion_in_the_wrong_place() -> None:
    wanted = BEFORE.replace("5\n", "5\nnew\n", 1)
    misplaced = BEFORE.replace("14\n", "14\nnew\n", 1)
    assert count_lines_outside(BEFORE, wanted, misplaced) == 1


def test_a_new_file_is_all_edit() -> None:
    assert count_lines_outside("", "a\nb\n", "c\n") == 0
