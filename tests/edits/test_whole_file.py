"""A whole file as the edit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apply_service.formats import whole_file
from apply_service.pipeline import apply
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, ApplyResult, Certainty, Prediction
from tests.edits.scripts import assert_contract

LINES = st.lists(st.sampled_from(["a", "b", "", "  c", "x = 1"]), max_size=8)


def predict(original: str, update: str, path: str | None = None) -> Prediction:
    prediction = whole_file.predict(original, update, EditContext(path))
    assert_contract(prediction, original, update)
    return prediction


@given(LINES, LINES)
def test_the_update_is_the_file(old: list[str], new: list[str]) -> None:
    original, update = "\n".join([*old, ""]), "\n".join([*new, ""])
    prediction = predict(original, update)
    assert prediction.text == update
    assert prediction.determined


def test_lines_that_stay_are_told_as_such() -> None:
    kinds = [op.kind for op in predict("a\nb\nc\n", "a\nB\nc\n").ops]
    assert kinds == ["both", "drop", "take", "both", "both"]


@pytest.mark.parametrize("original", ["", "x\n", "\n"])
@pytest.mark.parametrize(
    "write", ["```python\n{}```", "Here is the file:\n\n```python\n{}```\n", "app.py\n~~~\n{}~~~\n"]
)
def test_a_fence_is_taken_off(original: str, write: str) -> None:
    assert predict(original, write.format("import os\n\nprint(1)\n"), "app.py").text == "import os\n\nprint(1)\n"


def test_a_fence_inside_the_file_does_not_end_it() -> None:
    text = 'DOC = """\n```sh\nmake\n```\n"""\nx = "$1 \\\\1 `y`"\n'
    assert predict("old\n", f"```python\n{text}```\n", "app.py").text == text


def test_a_fence_without_end_is_doubtful() -> None:
    prediction = predict("old\n", "```python\nnew\n", "app.py")
    assert prediction.text == "new\n"
    assert prediction.certainty is Certainty.LIKELY


@pytest.mark.parametrize("path", ["README.md", "docs/x.rst"])
def test_the_fences_of_a_file_of_prose_stay(path: str) -> None:
    text = "Install it:\n\n```sh\nmake\n```\n\nThen run it.\n"
    assert predict("old\n", text, path).text == text
    assert predict("old\n", f"```markdown\n{text}```\n", path).text == text


def test_a_page_in_a_fence_between_sentences_is_the_fence_s_text() -> None:
    page = "The first line.\n\n    make\n\nThe last line.\n"
    new = page.replace("make", "make test")
    prediction = predict(page, f"I updated the page as you asked.\n\n```\n{new}```\n\nIt says more now.\n", "x.rst")
    assert prediction.text == new
    assert prediction.certainty is Certainty.LIKELY


def test_a_sentence_above_a_fence_may_be_said_about_the_page() -> None:
    update = "I wrote a page.\n\n```\nmake\n```\n"
    prediction = predict("old\n", update, "x.rst")
    assert prediction.text == update
    assert prediction.certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    ("original", "update", "text"),
    [
        ("a\n", "b", "b\n"),
        ("a", "b\n", "b"),
        ("a", "b", "b"),
        ("", "b", "b"),
        ("", "b\n", "b\n"),
    ],
)
def test_the_final_newline_is_the_original_s(original: str, update: str, text: str) -> None:
    assert predict(original, update).text == text


def test_a_tiny_result_is_doubtful() -> None:
    original = "".join(f"line {i}\n" for i in range(100))
    prediction = predict(original, "line 0\n")
    assert prediction.text == "line 0\n"
    assert prediction.certainty is Certainty.LIKELY
    assert "cut short" in prediction.reasons[0]
    assert predict(original, original.replace("line 5", "line five")).determined


def test_a_marker_tells_that_it_is_no_whole_file() -> None:
    assert predict("a\nb\n", "a\n# ... existing code ...\n").certainty is Certainty.GUESS
    assert predict("a\n# ... existing code ...\n", "b\n# ... existing code ...\n").determined


def test_it_is_never_detected() -> None:
    assert detect_format("import os\n\nprint(1)\n", named=None) == "lazy_snippet"
    assert detect_format("import os\n\nprint(1)\n", named="whole_file") == "whole_file"


# -- fences that may hold the whole file -------------------------------------------------------------------------------
SCRIPT = "#!/bin/sh\n# Starts the old server.\nset -e\n" + "".join(f"old_step_{n} --flag\n" for n in range(18))
MODULE = (
    "import os\n\n\ndef load(path):\n    return open(path).read()\n\n\ndef save(path, text):\n"
    "    open(path, 'w').write(text)\n"
)


def answer(original: str, body: str, path: str = "run.sh", around: str = "{}\n```\n{}```\n") -> ApplyResult:
    request = ApplyRequest(original, around.format(path, body), path=path, strategy="exact")
    return apply(request, Runtime(load=no_target))


def doubts(result: ApplyResult) -> list[str]:
    return [verdict.message for verdict in result.verdicts if verdict.check == "doubt" and not verdict.is_pass]


@pytest.mark.parametrize("around", ["{}\n```\n{}```\n", "Here is the new `{}`:\n\n```sh\n{}```\n"])
def test_a_script_rewritten_in_three_lines_keeps_none_of_the_old_ones(around: str) -> None:
    new = "#!/usr/bin/env python3\nimport server\nserver.start()\n"
    result = answer(SCRIPT, new, around=around)
    assert (result.merged_code, result.format) == (new, "whole_file")
    assert "the fence may hold the whole file, or a part of it" in doubts(result)[0]


def test_a_file_of_junk_is_replaced() -> None:
    new = "import os\n\n\n" + "".join(f"def step_{n}():\n    return {n}\n\n\n" for n in range(5)).rstrip() + "\n"
    assert answer("asdf\n", new, "a.py").merged_code == new


def test_the_old_first_comment_goes_with_the_old_file() -> None:
    new = "# Prints sums.\nimport sums\n\n\ndef main(words):\n" + "".join(f"    sums.add({n})\n" for n in range(9))
    old = "# Says hello.\nprint('hello')\n"
    assert answer(old, new, "a.py").merged_code == new


def test_a_whole_file_with_every_name_is_not_in_doubt() -> None:
    new = MODULE.replace("open(path).read()", "open(path).read().strip()")
    result = answer(MODULE, new, "a.py")
    assert (result.merged_code, result.format) == (new, "whole_file")
    assert [verdict for verdict in result.verdicts if not verdict.is_pass] == []


@pytest.mark.parametrize(
    "body",
    [
        "def save(path, text):\n    open(path, 'w').write(text.strip())\n",  # begins as a part does
        "import os\nimport json\n",  # a new import
        "import os\n\n\n# ... existing code ...\ndef save(path, text):\n    open(path, 'w').write(text.strip())\n",
    ],
)
def test_a_part_of_the_file_is_merged(body: str) -> None:
    result = answer(MODULE, body, "a.py")
    assert "def load(path)" in result.merged_code
    assert result.format == "lazy_snippet"


def test_an_order_above_the_fence_says_what_it_is() -> None:
    body = "import os\n" + "".join(f"step_{n} = {n}\n" for n in range(12))
    result = answer(MODULE, body, "a.py", "Replace the line `import os` of `{}` with:\n\n```python\n{}```\n")
    assert "def load(path)" in result.merged_code
