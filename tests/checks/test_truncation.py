"""An answer that stops too early."""

from __future__ import annotations

import pytest

from apply_service.types import Certainty
from tests.checks.answers import answer, findings, severities

ORIGINAL = "\n".join(f"def f{i}():\n    return {i}\n\n" for i in range(10))
EDITED = ORIGINAL.replace("return 3", "return 33")
UPDATE = "# ...\ndef f3():\n    return 33\n# ..."


@pytest.mark.parametrize("certainty", list(Certainty))
@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.9])
@pytest.mark.parametrize("language", ["python", None])
def test_a_cut_tail_is_an_error(certainty: Certainty, share: float, language: str | None) -> None:
    merged = EDITED[: int(len(EDITED) * share)]
    item = answer(ORIGINAL, merged, update=UPDATE, expected=EDITED, certainty=certainty, language=language)
    assert severities(findings("truncation", item)) == {"error"}


def test_the_right_answer_is_not_truncated() -> None:
    assert findings("truncation", answer(ORIGINAL, EDITED, update=UPDATE)) == []


def test_a_file_that_collapses_is_an_error_unless_the_edit_says_so() -> None:
    small = "def f3():\n    return 33\n"
    overwritten = answer(ORIGINAL, small, update=small, expected=EDITED)
    assert severities(findings("truncation", overwritten)) == {"error"}
    guessed = answer(ORIGINAL, small, update=small, certainty=Certainty.GUESS)
    assert severities(findings("truncation", guessed)) == {"error"}, "no marker: the merger only guesses"
    said = answer(ORIGINAL, small, update=small)
    assert findings("truncation", said) == []


def test_a_small_file_may_shrink() -> None:
    original = "a = 1\nb = 2\nc = 3\nd = 4\n"
    assert findings("truncation", answer(original, "a = 1\n", update="a = 1", certainty=Certainty.GUESS)) == []


def test_a_deletion_at_the_end_that_the_edit_makes() -> None:
    merged = ORIGINAL[: ORIGINAL.index("def f9")]
    assert findings("truncation", answer(ORIGINAL, merged, update="# ...\ndef f8():\n    return 8\n")) == []


def test_an_uncertain_merge_may_keep_a_tail_that_the_update_replaces() -> None:
    """The update shows the file up to its end; the merger, unsure, keeps the old end as well."""
    update = "# ...\ndef f8():\n    return 8\n\ndef last():\n    return 99\n"
    merged = ORIGINAL[: ORIGINAL.index("def f9")] + "def last():\n    return 99\n"
    expected = ORIGINAL + "def last():\n    return 99\n"
    item = answer(ORIGINAL, merged, update=update, expected=expected, certainty=Certainty.LIKELY)
    assert findings("truncation", item) == []


def test_losing_the_final_newline_is_not_truncation() -> None:
    assert findings("truncation", answer(ORIGINAL, EDITED.rstrip("\n"), update=UPDATE, expected=EDITED)) == []


def test_a_no_op_is_not_truncation() -> None:
    item = answer(ORIGINAL, ORIGINAL, update="more()", expected=ORIGINAL + "more()\n")
    assert findings("truncation", item) == []
