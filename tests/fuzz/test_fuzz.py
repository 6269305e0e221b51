"""A short run of the fuzzer: `make fuzz` is the long one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.edits import EXACT, Edit
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
