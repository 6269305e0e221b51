"""All scorers on one answer."""

from __future__ import annotations

from apply_eval.datasets import EditRecord
from apply_eval.measures import measure_edit
from apply_eval.scorers.score import Scores, score_answer

BEFORE = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
AFTER = BEFORE.replace("return 1", "return 11")


def record(language: str | None = "python", path: str | None = "a.py") -> EditRecord:
    return EditRecord("r", BEFORE, AFTER, measure_edit(BEFORE, AFTER), language=language, path=path)


def test_a_right_answer_scores_full_marks() -> None:
    assert score_answer(record(), AFTER) == Scores(True, True, True, True, 1.0, 1.0, True, 0)


def test_a_wrong_one_is_told_apart_by_every_scorer() -> None:
    found = score_answer(record(), AFTER.replace("import os\n", "") + "}\n")
    assert (found.exact, found.same_but_blanks, found.same_tree, found.syntax_kept) == (False, False, False, False)
    assert found.lines_outside == 2
    assert 0.8 < found.edit_similarity < 1
    assert 0 < found.change_similarity < 1


def test_the_language_is_found_by_the_path_or_not_at_all() -> None:
    assert score_answer(record(language=None), AFTER).same_tree is True
    assert score_answer(record(language="toml", path="a.toml"), BEFORE).syntax_kept is None
    unknown = score_answer(record(language=None, path=None), AFTER)
    assert unknown.same_tree is None
    assert unknown.exact
