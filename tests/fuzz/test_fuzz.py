"""A short run of the fuzzer: `make fuzz` is the long one."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.fuzz.edits import EXACT, Ambiguous, Change, Draft, Edit, write_lazy
from tests.fuzz.run import drawn, judge, run
from tests.seeds import draw_seed

N_EDITS = 500
MOST_FLAGGED = 0.1
"""Share of the edits in an exact format that may be answered with an error or a doubt."""


def test_nothing_is_altered_unseen() -> None:
    found = list(run(draw_seed(), N_EDITS))
    assert [one for one in found if one.outcome == "unseen"] == []
    counts = Counter(one.format for one in found if one.outcome == "exact")
    assert counts.keys() == set(EXACT)
    assert counts.total() >= (1 - MOST_FLAGGED) * N_EDITS


def test_a_seed_draws_the_same_edit_again() -> None:
    assert drawn(3, 14, EXACT) == drawn(3, 14, EXACT)


@pytest.mark.parametrize(
    ("wanted", "update", "outcome"),
    [
        (b"a\nB\n", "<<<<<<< SEARCH\nb\n=======\nB\n>>>>>>> REPLACE\n", "exact"),
        (b"a\nX\n", "<<<<<<< SEARCH\nb\n=======\nB\n>>>>>>> REPLACE\n", "unseen"),
        (b"a\nB\n", "<<<<<<< SEARCH\nz\n=======\nB\n>>>>>>> REPLACE\n", "flagged"),
    ],
)
def test_other_bytes_are_unseen_unless_an_error_or_a_doubt_tells(wanted: bytes, update: str, outcome: str) -> None:
    assert judge(Edit("search_replace", b"a\nb\n", update, wanted, "x.py"), "exact")[0] == outcome


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_of_the_line_behind_a_marker_is_not_drawn(seed: int) -> None:
    def draw(*new: str) -> str:
        draft = Draft(tuple("abcdefgh"), (Change(3, 3, new),), has_newline=True, path="x.py")
        return write_lazy(random.Random(seed), draft)[0]

    assert "new" in draw("new")
    with pytest.raises(Ambiguous, match="copies"):
        draw("f", "  g")  # the first line behind two lines of context, and behind three
