"""The other readings of a merge: what they are, and that each is a whole merge by the rules of `LineOp`."""

from __future__ import annotations

import pytest

from apply_service.formats import lazy_snippet
from apply_service.merge.variants import MAX_OTHERS, other_merges
from apply_service.protocols import EditContext
from apply_service.types import LineOp, Merge, Prediction

ORIGINAL = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
OPEN_END = "# ... existing code ...\ndef one():\n    return 11\n\ndef three():\n    pass\n"


def predict(original: str, update: str) -> Prediction:
    return lazy_snippet.predict(original, update, EditContext("numbers.py", "python"))


def texts(prediction: Prediction) -> list[str]:
    return [one.text for one in other_merges(Merge(prediction.ops), prediction.update_lines)]


def made(*ops: LineOp, update: str = "") -> Prediction:
    return Prediction(ops, tuple(update.split("\n")), certainty=predict(ORIGINAL, OPEN_END).certainty)


def test_a_file_that_the_snippet_may_have_cut_off_goes_on_below_the_new_lines() -> None:
    """The merge drops `two`, as nothing in the snippet says that it stays."""
    assert predict(ORIGINAL, OPEN_END).text.endswith("def three():\n    pass\n")
    assert (
        texts(predict(ORIGINAL, OPEN_END)).count(
            "import os\n\n\ndef one():\n    return 11\n\ndef three():\n    pass\n\n\ndef two():\n    return 2\n"
        )
        == 1
    )


def test_replaced_lines_stay_above_or_below_the_new_ones() -> None:
    prediction = made(
        LineOp("keep", 0, None, "a"), LineOp("drop", 1, None, "old"), LineOp("take", None, 0, "new"), update="new"
    )
    assert texts(prediction) == ["a\nnew\nold", "a\nold\nnew"]


def test_new_lines_may_stand_for_those_beside_them_as_well() -> None:
    lines = ["{", "  old", "}", "z"]
    keeps = [LineOp("keep", i, None, line) for i, line in enumerate(lines)]
    takes = [LineOp("take", None, i, line) for i, line in enumerate(["{", "  new", "}"])]
    assert "{\n  new\n}\nz" in texts(made(*takes, *keeps, update="{\n  new\n}"))
    assert "{\n  new\n}\nz" in texts(made(*keeps[:3], *takes, keeps[3], update="{\n  new\n}"))


def test_lines_that_the_snippet_shows_are_not_given_up() -> None:
    both = LineOp("both", 0, 1, "}")
    assert "}" not in texts(made(LineOp("take", None, 0, "}"), both, update="}\n}"))


def test_a_line_in_the_files_own_wording_may_be_meant_as_shown() -> None:
    prediction = made(LineOp("keep", 0, None, "a"), LineOp("both", 1, 0, "x  =  1"), update="x = 1")
    assert texts(prediction) == ["a\nx = 1"]


def test_a_line_in_the_snippets_wording_may_be_misquoted() -> None:
    prediction = made(LineOp("drop", 0, None, "x  =  1"), LineOp("take", None, 0, "x = 1"), update="x = 1")
    assert "x  =  1" in texts(prediction)


def test_a_blank_line_at_the_edge_of_new_lines_may_belong_to_them_or_not() -> None:
    prediction = made(LineOp("keep", 0, None, "a"), LineOp("take", None, 1, "b"), update="\nb\n")
    assert texts(prediction) == ["a\n\nb", "a\nb\n"]
    prediction = made(
        LineOp("keep", 0, None, "a"), LineOp("take", None, 0, ""), LineOp("take", None, 1, "b"), update="\nb"
    )
    assert texts(prediction) == ["a\nb"]


def test_nothing_changed_has_no_other_reading() -> None:
    assert texts(made(LineOp("keep", 0, None, "a"))) == []


@pytest.mark.parametrize(
    ("original", "update"),
    [
        (ORIGINAL, OPEN_END),
        (ORIGINAL, "# ... existing code ...\ndef one():\n    return 11\n# ... existing code ...\n"),
        ("a\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng\n", "x\n\nd\n\ny\n"),
        ("\n".join(f"x  =  {i}" for i in range(30)), "\n".join(f"x = {i}" for i in range(30)) + "\ny = 0"),
    ],
)
def test_each_is_another_text_and_a_merge_of_its_own(original: str, update: str) -> None:
    prediction = predict(original, update)
    found = other_merges(Merge(prediction.ops), prediction.update_lines)
    assert 0 < len(found) <= MAX_OTHERS
    assert len({prediction.text, *texts(prediction)}) == len(found) + 1
    for ops in found:
        shown = [op.original_line for op in ops if op.original_line is not None]
        used = [op.update_line for op in ops if op.update_line is not None]
        assert shown == list(range(len(original.split("\n"))))
        assert used == sorted(set(used))
        assert all(op.text == prediction.update_lines[op.update_line or 0] for op in ops if op.kind == "take")
        assert all(op.text == original.split("\n")[op.original_line or 0] for op in ops if op.kind != "take")
