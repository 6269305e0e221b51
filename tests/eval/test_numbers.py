"""Figures as people read them."""

from __future__ import annotations

import pytest

from apply_eval.numbers import count, print_table, rate, seconds, share, times, verdict_sentence, with_interval
from apply_eval.rows import RunRow
from apply_eval.summary import SummaryOptions, summarise
from tests.eval.rows import facts, missing, refused, right, wrong


def test_numbers_as_people_read_them() -> None:
    assert (share(0.9441), share(None)) == ("94.4%", "–")
    assert (rate(4618.2), rate(8.123), rate(None)) == ("4,618", "8.12", "–")
    assert (seconds(0.0123), seconds(1.234), seconds(13.1), seconds(1234)) == ("12 ms", "1.23 s", "13.1 s", "1,234 s")
    assert (times(9.417), times(19.23)) == ("9.42×", "19.2×")
    assert (count(0.0), count(0.16), count(685.2)) == ("0", "0.16", "685")
    assert with_interval(share, 0.5, (0.4, 0.6)) == "50.0% (40.0%–60.0%)"
    assert with_interval(share, None, None) == "–"


def test_a_table_has_names_on_the_left_and_figures_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("", "silent\nerrors", "n"), [("plain", "0.5%", "1,000"), ("merged_edit", "–", "7")], "by name")
    assert capsys.readouterr().out.split("\n") == [
        "",
        "by name",
        "             silent",
        "             errors      n",
        "-----------  ------  -----",
        "plain          0.5%  1,000",
        "merged_edit       –      7",
        "",
    ]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [right("a", "d", confidence=0.99), right("b", "d", confidence=0.4), wrong("c", "d", confidence=0.4)],
            "2 of 3 right, 1 of them could have been applied unseen; no wrong one would have been",
        ),
        (
            [
                right("a", "d", confidence=0.99, findings=("doubt",)),
                wrong("b", "d", confidence=0.99),
                refused("c", "d"),
            ],
            "1 of 3 right, 0 of them could have been applied unseen; 1 wrong would have been too",
        ),
        (
            [right("a", "d", confidence=0.99), missing("b", "d")],
            "1 of 1 right, 1 of them could have been applied unseen; no wrong one would have been"
            " (1 more not finished)",
        ),
        (
            [right("a", "d", confidence=0.99), refused("b", "d", "deadline_exceeded"), missing("c", "d")],
            "1 of 1 right, 1 of them could have been applied unseen; no wrong one would have been"
            " (2 more not finished)",
        ),
        ([refused("a", "d")], "0 of 1 right, 0 of them could have been applied unseen; no wrong one would have been"),
    ],
)
def test_a_verdict_counts_right_answers_and_what_was_flagged(rows: list[RunRow], sentence: str) -> None:
    summary = summarise(rows, [facts(row.id) for row in rows], ["d"], SummaryOptions())
    assert verdict_sentence(summary["d"]) == sentence
