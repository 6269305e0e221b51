"""Changes that the update does not speak of."""

from __future__ import annotations

import pytest

from apply_service.types import Certainty
from tests.checks.answers import answer, findings, severities

LINES = [f"line_{i:02d} = {i}" for i in range(30)]
ORIGINAL = "\n".join(LINES) + "\n"
EDITED = ORIGINAL.replace("line_05 = 5", "line_05 = 55")
UPDATE = "line_04 = 4\nline_05 = 55\nline_06 = 6\n# ... existing code ..."


@pytest.mark.parametrize("certainty", list(Certainty))
def test_the_right_answer(certainty: Certainty) -> None:
    assert findings("outside_edit", answer(ORIGINAL, EDITED, update=UPDATE, certainty=certainty)) == []


@pytest.mark.parametrize("certainty", list(Certainty))
def test_a_lost_line_far_from_the_edit(certainty: Certainty) -> None:
    merged = EDITED.replace("line_20 = 20\n", "")
    item = answer(ORIGINAL, merged, update=UPDATE, expected=EDITED, certainty=certainty)
    found = findings("outside_edit", item)
    assert severities(found) == {"warning"}
    assert (found[0].lines, found[0].side) == ((21, 21), "original")


def test_a_lost_line_beside_the_edit_is_told_only_where_the_merge_is_certain() -> None:
    merged = EDITED.replace("line_07 = 7\n", "")
    assert findings("outside_edit", answer(ORIGINAL, merged, update=UPDATE, expected=EDITED)) != []
    unsure = answer(ORIGINAL, merged, update=UPDATE, expected=EDITED, certainty=Certainty.LIKELY)
    assert findings("outside_edit", unsure) == []


def test_an_invented_line() -> None:
    merged = EDITED.replace("line_20 = 20", "line_20 = twenty")
    messages = [
        verdict.message
        for verdict in findings("outside_edit", answer(ORIGINAL, merged, update=UPDATE, expected=EDITED))
    ]
    assert any("neither in the original nor in the edit" in message for message in messages)


def test_a_repeated_block() -> None:
    merged = EDITED.replace("line_20 = 20\n", "line_20 = 20\nline_10 = 10\nline_11 = 11\nline_12 = 12\n")
    found = findings("outside_edit", answer(ORIGINAL, merged, update=UPDATE, expected=EDITED))
    assert [verdict.lines for verdict in found] == [(22, 24)]
    assert "second time" in found[0].message


def test_one_more_brace_is_no_repeated_block() -> None:
    original = "{\n  a\n}\n{\n  b\n}\n"
    merged = "{\n  a\n}\n{\n  b\n}\n{\n  c\n}\n"
    assert findings("outside_edit", answer(original, merged, update="{\n  b\n}\n{\n  c\n}", language=None)) == []


def test_a_block_that_the_edit_moves() -> None:
    merged = "\n".join([*LINES[:3], *LINES[6:10], *LINES[3:6], *LINES[10:]]) + "\n"
    update = "\n".join(["# ...", LINES[2], *LINES[6:10], *LINES[3:6], LINES[10], "# ..."])
    assert findings("outside_edit", answer(ORIGINAL, merged, update=update)) == []


def test_an_uncertain_removal_across_a_marker() -> None:
    """The merger drops ten lines where the update has a marker: those lines are said to stay."""
    merged = "\n".join(LINES[:8] + LINES[18:]) + "\n"
    update = "line_07 = 7\n# ... existing code ...\nline_18 = 18\nline_19 = 19"
    found = findings("outside_edit", answer(ORIGINAL, merged, update=update, certainty=Certainty.LIKELY))
    assert severities(found) == {"warning"}
    assert found[0].lines == (9, 18)


@pytest.mark.parametrize("between", ["", "# REMOVED: lines\n"])
def test_an_uncertain_removal_between_neighbours(between: str) -> None:
    merged = "\n".join(LINES[:8] + LINES[18:]) + "\n"
    update = f"line_07 = 7\n{between}line_18 = 18\nline_19 = 19"
    assert findings("outside_edit", answer(ORIGINAL, merged, update=update, certainty=Certainty.LIKELY)) == []


def test_an_uncertain_merge_that_overwrites_the_file() -> None:
    update = "def new():\n    return 1\n"
    item = answer(ORIGINAL, update, update=update, certainty=Certainty.GUESS)
    assert severities(findings("outside_edit", item)) == {"warning"}


def test_a_replacement_of_about_its_size_is_said_even_after_a_marker() -> None:
    merged = ORIGINAL.replace("line_05 = 5\nline_06 = 6\n", "new_05 = 5\nnew_06 = 6\n")
    update = "# ... existing code ...\nnew_05 = 5\nnew_06 = 6\nline_07 = 7"
    assert findings("outside_edit", answer(ORIGINAL, merged, update=update, certainty=Certainty.LIKELY)) == []


def test_lines_that_a_block_quotes_are_said_to_go() -> None:
    update = "<<<<<<< SEARCH\nline_03 = 3\nline_04 = 4\nline_05 = 5\n=======\n>>>>>>> REPLACE\n"
    merged = ORIGINAL.replace("line_03 = 3\nline_04 = 4\nline_05 = 5\n", "")
    item = answer(ORIGINAL, merged, update=update, certainty=Certainty.LIKELY)
    assert findings("outside_edit", item) == []
    more = answer(ORIGINAL, merged.replace("line_06 = 6\n", ""), update=update, certainty=Certainty.LIKELY)
    assert [verdict.lines for verdict in findings("outside_edit", more)] == [(7, 7)]
