"""Chat around the file."""

from __future__ import annotations

import pytest

from tests.checks.answers import answer, findings, severities

ORIGINAL = "import os\n\n\ndef f():\n    return 1\n"
EDITED = ORIGINAL.replace("1", "2")
UPDATE = "def f():\n    return 2\n"


def found_in(
    merged: str, language: str | None = "python", original: str = ORIGINAL, expected: str = EDITED
) -> set[str]:
    return severities(
        findings("chat_text", answer(original, merged, update=UPDATE, expected=expected, language=language))
    )


def test_the_right_answer() -> None:
    assert found_in(EDITED) == set()


@pytest.mark.parametrize("fence", ["```", "```python", "~~~", "````md"])
@pytest.mark.parametrize("language", ["python", "markdown", "typescript", None])
def test_a_file_wrapped_in_a_fence(fence: str, language: str | None) -> None:
    assert found_in(f"{fence}\n{EDITED}{fence[:3]}\n", language) == {"error"}


def test_a_lone_fence_at_the_end() -> None:
    assert found_in(EDITED + "```\n") == {"error"}


@pytest.mark.parametrize(
    "tag",
    ["<updated-code>", "</updated-code>", "</code>", "<|im_end|>", "<|endoftext|>", "<think>", "[/INST]", "</update>"],
)
def test_a_tag_of_a_prompt(tag: str) -> None:
    assert found_in(EDITED + tag) == {"error"}
    assert found_in(tag + EDITED) == {"error"}


@pytest.mark.parametrize(
    "phrase",
    [
        "Here is the updated code:",
        "Here's the merged file:",
        "Sure! I can do that.",
        "Below is the complete updated file",
        "I've updated the function as requested.",
        "Let me know if you need anything else.",
        "Updated code:",
    ],
)
def test_a_phrase_at_either_end(phrase: str) -> None:
    assert found_in(f"{phrase}\n\n{EDITED}") == {"warning"}
    assert found_in(f"{EDITED}\n{phrase}\n") == {"warning"}


def test_a_markdown_file_keeps_its_fences_and_may_gain_one() -> None:
    original = "# T\n\n```sh\nls\n```\n"
    merged = original + "\n```sh\ncd\n```\n"
    item = answer(original, merged, update="```sh\ncd\n```", language="markdown")
    assert findings("chat_text", item) == []
    unexpected = answer(original, merged, update="x", expected=original, language="markdown")
    assert findings("chat_text", unexpected) == [], "a fence inside a Markdown file may be anything"


def test_a_docstring_with_a_fence_that_the_edit_brings() -> None:
    merged = 'def f():\n    """Use:\n\n    ```\n    f()\n    ```\n    """\n    return 2\n'
    assert findings("chat_text", answer(ORIGINAL, merged, update=merged)) == []


def test_a_file_about_such_tags() -> None:
    original = 'TAGS = ["<updated-code>", "</updated-code>", "<|im_end|>"]\nx = 1\n'
    merged = original + 'END = "</updated-code>"\n'
    assert findings("chat_text", answer(original, merged, update="x", expected=original)) == []


@pytest.mark.parametrize(
    "line",
    ["# Here is the updated list", 'print("Sure!")', "surely = 1", "let me = 2", "I = 3", "this_is_the_updated = 1"],
)
def test_code_is_no_chat(line: str) -> None:
    assert found_in(f"{line}\n{EDITED}") == set()
    assert found_in(f"{EDITED}{line}\n") == set()


def test_html_and_prose_may_speak() -> None:
    original = "<p>Hello</p>\n"
    item = answer(original, "Here is the updated list\n" + original, update="x", expected=original, language="html")
    assert findings("chat_text", item) == []
