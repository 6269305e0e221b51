"""A hunk carried over to the stretch of the file that it misquotes: what the file tells is done, nothing is guessed."""

from __future__ import annotations

import json

import pytest

from apply_service.errors import ApplyError
from apply_service.types import ApplyResult
from tests.edits.test_call_forms import apply

FILE = """\
import os
import sys

LIMIT = 10


def first(path):
    # the name alone
    name = os.path.basename(path)
    kind = name.rsplit(".")[-1]
    return name, kind


def second(path):
    size = os.path.getsize(path)

    return size
"""


def followed(old: str, new: str, original: str = FILE) -> str | None:
    """Return the text after the failure's `next` was sent; None if there is none."""
    try:
        result: ApplyResult = apply(json.dumps({"path": "a.py", "old_string": old, "new_string": new}), original)
    except ApplyError as error:
        told = [one["next"] for one in error.failures if one["next"]]
        return apply(str(told[0]), original).merged_code if told else None
    return result.merged_code


@pytest.mark.parametrize(
    ("old", "new", "gone", "come"),
    [
        pytest.param(
            "import sys\n\nLIMIT = 10\n\ndef first(path):",
            "import sys\n\nLIMIT = 20\n\ndef first(path):",
            "LIMIT = 10", "LIMIT = 20",
            id="a blank line less than the file has",
        ),
        pytest.param(
            "    size = os.path.getsize(path)\n    return size",
            "    size = os.path.getsize(path) // 1024\n    return size",
            "getsize(path)\n", "getsize(path) // 1024\n",
            id="a blank line below the changed line",
        ),
        pytest.param(
            "    kind = name.rsplit(\".\")[-1]\n    name = os.path.basename(path)\n    return name, kind",
            "    kind = name.rsplit(\".\")[-1]\n    name = os.path.basename(path)\n    return kind",
            "return name, kind", "return kind",
            id="swapped lines above the changed one",
        ),
        pytest.param(
            "    name = os.path.basename(path)\n    kind = name.rsplit('.')[-1]\n    return name, kind",
            "    name = os.path.basename(path)\n    kind = name.rsplit('.', 1)[-1]\n    return name, kind",
            'rsplit(".")', "rsplit('.', 1)",
            id="other quotes in the changed line",
        ),
        pytest.param(
            "    # the name\n    name = os.path.basename(path)\n    kind = name.split(\".\")[-1]",
            "    # the bare name\n    name = os.path.basename(path)\n    kind = name.split(\".\")[-1]",
            "# the name alone", "# the bare name alone",
            id="a word lost in the changed line",
        ),
        pytest.param(
            "def first(path):\n    name = os.path.basename(path)\n    kind = name.rsplit('.')[-1]\n    return name, "
            "kind",
            "def first(path):\n    name = os.path.basename(path)\n    kind = name.rsplit('.')[-1]\n    return kind",
            "return name, kind", "return kind",
            id="a comment left out away from the change",
        ),
    ],
)  # fmt: skip
def test_what_the_file_tells_is_done(old: str, new: str, gone: str, come: str) -> None:
    assert FILE.count(gone) == 1
    assert followed(old, new) == FILE.replace(gone, come)


def test_swapped_lines_go_as_a_whole() -> None:
    body = '    # the name alone\n    name = os.path.basename(path)\n    kind = name.rsplit(".")[-1]\n'
    swapped = '    name = os.path.basename(path)\n    # the name alone\n    kind = name.rsplit(".")[-1]\n'
    old, new = (
        f"def first(path):\n{text}    return name, kind\n" for text in (swapped, "    name, kind = cut(path)\n")
    )
    assert followed(old, new) == FILE.replace(body, "    name, kind = cut(path)\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "def first(path):\n    name = os.path.basename(path)\n",
            "def first(path):\n    path = str(path)\n    name = os.path.basename(path)\n",
            id="the file has a comment where the new line goes",
        ),
        pytest.param(
            "import os\nimport sys\nLIMIT = 10\n",
            "import os\nimport sys\nSIZE = 5\nLIMIT = 10\n",
            id="a blank line is lost where the new line goes, and both sides are alike",
        ),
        pytest.param(
            "    name = os.path.basename(path)\n    sort = name.rsplit(\"!\", 7)[0]\n    return name, kind\n",
            "    name = os.path.basename(path)\n    sort = name.rsplit(\"!\", 8)[0]\n    return name, kind\n",
            id="the changed line is another one",
        ),
    ],
)  # fmt: skip
def test_what_the_file_does_not_tell_is_refused(old: str, new: str) -> None:
    assert followed(old, new) is None


@pytest.mark.parametrize("n", [0, 1, 2])
def test_the_quotes_last_line_end_is_no_blank_line(n: int) -> None:
    """A block at the file's end shows the final newline as a blank line: it is none of those that the block adds."""
    new = "    return size\n{}\ndef third():\n    pass\n"
    update = f"a.py\n<<<<<<< SEARCH\n    return size\n\n=======\n{new}\n>>>>>>> REPLACE\n"
    assert apply(update.format("\n" * n), FILE).merged_code == FILE + "\n" * n + "\ndef third():\n    pass\n"
