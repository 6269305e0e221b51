"""Answers that are wrong in the wording of context alone, and answers that are wrong otherwise."""

from __future__ import annotations

import pytest

from apply_eval.scorers.misquotes import is_same_but_misquotes

BEFORE = "import os\n\n# note that the cache is cleared\nlimit = 'ten'\nsize = 1\n"
WANTED = BEFORE.replace("size = 1", "size = 2")
UPDATE = '# note that ...\n    limit = "ten"\nsize = 2\n'


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        (WANTED, True),
        (WANTED.replace("'ten'", '"ten"'), True),
        (WANTED.replace("# note that the cache is cleared", "# note that ..."), True),
        (WANTED.replace("'ten'", '"ten"').replace("# note that the cache is cleared", "# note that ..."), True),
        (WANTED.replace("'ten'", "'eleven'"), False),
        (WANTED.replace("limit = 'ten'", "size = 2"), False),
        (WANTED.replace("limit = 'ten'\n", ""), False),
        (WANTED.replace("size = 2", "size = 1"), False),
        (BEFORE, False),
        (WANTED.replace("import os\n\n", "import os\n"), True),
        (WANTED.replace("# note that the cache is cleared\nlimit = 'ten'", "# note that ..."), False),
        (WANTED.replace("import os", "# note that ..."), False),
    ],
    ids=[
        "right", "other quotes", "short comment", "both", "not in the update", "a wanted line", "line lost",
        "edit lost", "no edit", "blank line", "two lines by one", "unlike",
    ],
)  # fmt: skip
def test_only_misquoted_lines_are_forgiven(answer: str, same: bool) -> None:
    assert is_same_but_misquotes(BEFORE, WANTED, answer, UPDATE) is same


def test_a_line_that_the_edit_writes_is_no_context() -> None:
    wanted = BEFORE.replace("size = 1", "size = 'one'")
    answer = wanted.replace("'one'", '"one"')
    assert not is_same_but_misquotes(BEFORE, wanted, answer, 'size = "one"\n')
