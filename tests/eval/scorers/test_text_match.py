"""Hand-made right and wrong answers for everything that compares texts."""

from __future__ import annotations

import pytest

from apply_eval.scorers.text_match import change_similarity, edit_similarity, is_exact, is_same_but_blanks

WANTED = "def f():\n    return 1\n\n\nx = 2\n"


@pytest.mark.parametrize(
    "answer",
    [
        WANTED.replace("\n", "\r\n"),
        WANTED.rstrip("\n"),
        WANTED + "\n",
        WANTED.replace("1", "1 "),
        WANTED.replace("    ", "\t"),
        WANTED.replace("x", "х"),
        "",
    ],
    ids=["line ends", "no final newline", "one newline more", "trailing space", "tabs", "look-alike letter", "empty"],
)
def test_one_byte_off_is_wrong(answer: str) -> None:
    assert is_exact(WANTED, WANTED)
    assert not is_exact(WANTED, answer)


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        (WANTED, True),
        (WANTED.replace("\n", "\r\n"), True),
        (WANTED.rstrip("\n"), True),
        (WANTED.replace("\n\n\n", "\n"), True),
        (WANTED.replace("1\n", "1  \t\n"), True),
        (WANTED.replace("    return", "  return"), False),
        (WANTED.replace("x = 2", "x  = 2"), False),
        (WANTED.replace("x = 2\n", ""), False),
        ("", False),
    ],
)
def test_blanks_and_line_ends_may_differ_and_nothing_else(answer: str, same: bool) -> None:
    assert is_same_but_blanks(WANTED, answer) is same


def test_empty_texts_are_equal_everywhere() -> None:
    assert is_exact("", "")
    assert is_same_but_blanks("", "\n \n")
    assert edit_similarity("", "") == 1.0
    assert change_similarity("", "", "") == 1.0


def test_edit_similarity_counts_characters() -> None:
    assert edit_similarity("abcd", "abcd") == 1.0
    assert edit_similarity("abcd", "abXd") == pytest.approx(3 / 4)
    assert edit_similarity("abcd", "abcdefgh") == pytest.approx(4 / 8)
    assert edit_similarity("aaaa", "bbbb") == 0.0


def test_change_similarity_looks_at_the_edit_alone() -> None:
    before = "".join(f"line {i}\n" for i in range(50))
    wanted = before.replace("line 10\n", "line ten\n").replace("line 40\n", "line forty\n")
    half = before.replace("line 10\n", "line ten\n")
    assert change_similarity(before, wanted, wanted) == 1.0
    assert change_similarity(before, wanted, before) == 0.0
    # two of four changed lines are there: 2 * 2 / (4 + 2)
    assert change_similarity(before, wanted, half) == pytest.approx(2 / 3)
    assert change_similarity(before, wanted, before.replace("line 10\n", "line 0\n")) == pytest.approx(2 / 6)
    # a lost edit in a long file still looks alike in characters
    assert edit_similarity(wanted, before) > 0.95


def test_an_answer_that_changes_something_where_nothing_was_wanted_shares_nothing() -> None:
    assert change_similarity("a\nb\n", "a\nb\n", "a\nc\n") == 0.0
