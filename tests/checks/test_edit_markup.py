"""Signs of an edit format in the result are found; a file's own are not."""

from __future__ import annotations

import pytest

from apply_service.checks.leaks import find_edit_markup
from apply_service.protocols import CheckInput
from apply_service.text.fidelity import ops_from_texts
from apply_service.types import Certainty, Prediction

PLAIN = "x = 100\ny = 200\n"


def severities(original: str, merged: str, update: str, language: str | None = "python") -> list[str]:
    lines = update.split("\n")
    rows = {line: row for row, line in enumerate(lines)}
    ops = [
        op._replace(update_line=rows.get(op.text)) if op.kind == "take" else op
        for op in ops_from_texts(original, merged)
    ]
    prediction = Prediction(tuple(ops), tuple(lines), Certainty.LIKELY)
    answer = CheckInput(original, merged, update, prediction, language)
    return [verdict.severity for verdict in find_edit_markup(answer)]


@pytest.mark.parametrize(
    "line",
    [
        "<<<<<<< SEARCH",
        ">>>>>>> REPLACE",
        "------- SEARCH",
        "+++++++ REPLACE",
        "<<<<<<< HEAD",
        "*** Begin Patch",
        "*** Update File: a.py",
        "@@ -1,2 +1,3 @@",
        "```python",
        "+z = 3",
        "-x = 100",
    ],
)
def test_signs_are_an_error(line: str) -> None:
    assert severities(PLAIN, PLAIN + line + "\n", line) == ["error"]


@pytest.mark.parametrize("line", ["=======", "-1", "- item", "--flag", "@decorator", "x << 3", "# +x", "+"])
def test_code_is_none(line: str) -> None:
    assert severities(PLAIN, PLAIN + line + "\n", line) == []


def test_a_list_is_no_diff() -> None:
    assert severities("- a\n", "- a\n+ b\n- c\n", "+ b\n- c", "markdown") == []
    assert severities("# x\n", "# x\n```sh\nmake\n```\n", "```sh\nmake\n```", "markdown") == []


def test_what_stood_there_before_is_a_warning_at_most() -> None:
    original = "a\n@@ -1 +1 @@\nb\n"
    assert severities(original, original, "@@ -1 +1 @@") == []
    assert severities(original, original + "@@ -1 +1 @@\n", "@@ -1 +1 @@") == ["warning"]


def test_markers_that_a_format_reads_are_no_text_of_a_model() -> None:
    update = "<<<<<<< SEARCH\nx = 100\n=======\nz = 3\n>>>>>>> REPLACE"
    assert severities(PLAIN, "z = 3\ny = 200\n", update) == []


def test_what_a_format_took_the_sign_off_is_content() -> None:
    assert severities(PLAIN, PLAIN + "+z = 3\n", "++z = 3") == []
