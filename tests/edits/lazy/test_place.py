"""Snippets that say in comments where their code goes: small files, many wordings."""

from __future__ import annotations

import pytest

from apply_service.merge.words.directives import find_directives
from apply_service.merge.words.sites import merge_placed, place
from tests.edits.merges import assert_merged

PYTHON = '''\
import os
import sys
from pathlib import Path


class Store:
    """Keeps rows.

    In memory only.
    """

    def __init__(self, root):
        self.root = root
        self.rows = []

    @property
    def size(self):
        return len(self.rows)

    def load(self, name):
        try:
            text = open(name).read()
        except OSError:
            text = ""
        for row in text.split():
            self.rows.append(row)
        return text

    def save(self, name):
        if not name:
            raise ValueError("no name")
        write(name, self.rows)


def parse_args(argv):
    level = 1
    if argv:
        level = len(argv)
    return level


def parse_tail(argv):
    return argv[-1]


def main():
    args = parse_args(sys.argv)
    print(args)
'''


HELPER = "def parse_head(argv):\n    return argv[0]\n"


def test_code_that_no_directive_speaks_of_is_left_to_the_caller() -> None:
    update = "x = 1\n\n# add right after parse_args\n" + HELPER
    assert merge_placed(PYTHON.split("\n"), update.split("\n"), language="python", path=None) == []


def test_operations_take_every_line_once() -> None:
    original = PYTHON.split("\n")
    update = ["# replaces parse_tail", "def last_of(argv):", "    return argv[-1]"]
    (_, ops), *_ = merge_placed(original, update, language="python", path=None)
    assert [op.original_line for op in ops if op.original_line is not None] == list(range(len(original)))
    assert [op.update_line for op in ops if op.update_line is not None] == [1, 2]


def test_place_gives_alternatives_best_first() -> None:
    original = PYTHON.split("\n")
    update = ["# replaces the return", "    return None"]
    (directive,) = find_directives(original, update, language="python", path=None)
    found = place(original, update, directive, language="python")
    assert 1 < len(found) <= 4
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert all(item.reason and item.agreement > 0 for item in found)


@pytest.mark.parametrize(
    ("original", "update", "wanted"),
    [
        pytest.param(
            "start\n\ncd $BIN\nrun\n",
            "# add right before `cd $BIN`:\nmkdir $BIN\n\n",
            "start\n\nmkdir $BIN\n\ncd $BIN\nrun\n",
            id="as the snippet's end shows",
        ),
        pytest.param(
            "import { a } from './a'\n\nconst x = a()\n",
            "// add right after the import of './a':\n\nsetup({ strict: true })\n",
            "import { a } from './a'\n\nsetup({ strict: true })\n\nconst x = a()\n",
            id="below imports",
        ),
        pytest.param(
            "rule = all(\n    first(),\n    second(),\n)\n",
            "# insert directly after first():\n\n    # in between\n    between(),\n",
            "rule = all(\n    first(),\n    # in between\n    between(),\n    second(),\n)\n",
            id="none in a list without them",
        ),
    ],
)
def test_blank_lines_around_what_is_placed(original: str, update: str, wanted: str) -> None:
    assert_merged(original, update, wanted, language=None)
