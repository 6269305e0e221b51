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

SCRIPT = """\
import fs from "fs";
import path from "path";

const options = {
  depth: 2,
  follow: true,
};

export function walk(dir) {
  const found = [];
  for (const name of fs.readdirSync(dir)) {
    found.push(path.join(dir, name));
  }
  return found;
}

export function count(dir) {
  return walk(dir).length;
}
"""

WORKFLOW = """\
name: build
on: push
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v3
      - name: Lint
        run: make lint
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python:
          - "3.10"
          - "3.11"
    steps:
      - uses: actions/checkout@v3
      - name: Run tests
        run: make test
"""

README = """\
# Tool

A small tool.

## Install

- with pip
- from source

## Use

Call it.

## Contact

Write to us.
"""


def after(text: str, *swaps: tuple[str, str]) -> str:
    """The text with some pieces swapped; each stands in it once."""
    for old, new in swaps:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def merged(original: str, update: str, language: str, instruction: str = "") -> str:
    readings = merge_placed(
        original.removesuffix("\n").split("\n"),
        update.split("\n"),
        language=language,
        path=None,
        instruction=instruction,
    )
    assert readings
    return "\n".join(op.text for op in readings[0][1] if op.kind != "drop") + "\n"


HELPER = "def parse_head(argv):\n    return argv[0]\n"
HEAD_PLACED = ("def parse_tail(argv):", HELPER + "\n\ndef parse_tail(argv):")
JSON_PLACED = ("import os\n", "import json\nimport os\n")
CLEAR = "    def clear(self):\n        self.rows = []\n"
CLEAR_PLACED = ("    def save(self", CLEAR + "\n    def save(self")

PYTHON_CASES = {
    "add right after": ("# add right after parse_args\n" + HELPER, [HEAD_PLACED]),
    "goes below": ("# goes directly below parse_args()\n" + HELPER, [HEAD_PLACED]),
    "in front of": ("# put this in front of parse_tail\n" + HELPER, [HEAD_PLACED]),
    "ahead of": ("# new function, ahead of `parse_tail`\n" + HELPER, [HEAD_PLACED]),
    "between": ("# insert between parse_args() and parse_tail()\n" + HELPER, [HEAD_PLACED]),
    "marker with words": ("# ... existing code (add this before parse_tail) ...\n" + HELPER, [HEAD_PLACED]),
    "markers around": (
        "# add right after parse_args\n# ... existing code ...\n" + HELPER + "# ... existing code ...",
        [HEAD_PLACED],
    ),
    "method between": ("# in Store, goes between load() and save()\n" + CLEAR, [CLEAR_PLACED]),
    "head with colon": ("# Store: add just above save\n" + CLEAR, [CLEAR_PLACED]),
    "end of class": (
        "# append at the end of class Store\n" + CLEAR,
        [("        write(name, self.rows)\n", "        write(name, self.rows)\n\n" + CLEAR)],
    ),
    "end of file": (
        "# at the very bottom of the file\n" + HELPER,
        [("    print(args)\n", "    print(args)\n\n\n" + HELPER)],
    ),
    "first import": ("# very first import, above `import os`\nimport json", [JSON_PLACED]),
    "after an import": (
        "# with the other imports, after `import os`\nimport re",
        [("import os\n", "import os\nimport re\n")],
    ),
    "replaces a block in a method": (
        "# replaces the try block in load()\n        text = read(name)",
        [
            (
                '        try:\n            text = open(name).read()\n        except OSError:\n            text = ""\n',
                "        text = read(name)\n",
            )
        ],
    ),
    "replaces a function": (
        "# replaces parse_tail\ndef last_of(argv):\n    return argv[-1:]",
        [("def parse_tail(argv):\n    return argv[-1]", "def last_of(argv):\n    return argv[-1:]")],
    ),
    "takes the place of": (
        "# this takes the place of the `write(...)` call in save\n        dump(name, self.rows)",
        [("write(name", "dump(name")],
    ),
    "instead of": ("# instead of `import sys`\nfrom sys import argv", [("import sys\n", "from sys import argv\n")]),
    "the raise": (
        '# save(): replaces the raise\n            raise KeyError("no name")',
        [("ValueError", "KeyError")],
    ),
    "new signature": (
        "# load(): new signature, the body stays\n    def load(self, name, encoding=None):",
        [("def load(self, name):", "def load(self, name, encoding=None):")],
    ),
    "only the def line": (
        "# replace only the def line of size\n    def size(self) -> int:",
        [("def size(self):", "def size(self) -> int:")],
    ),
    "removes a function": ("# removes parse_tail()", [("def parse_tail(argv):\n    return argv[-1]\n\n\n", "")]),
    "drops an import": ("# imports: just delete `from pathlib import Path`", [("from pathlib import Path\n", "")]),
    "is gone": (
        "# the `size` property is gone (decorator included)",
        [("    @property\n    def size(self):\n        return len(self.rows)\n\n", "")],
    ),
    "top of the body": (
        "# main: very top of the body, before args\n    setup()",
        [("    args = parse_args", "    setup()\n    args = parse_args")],
    ),
    "end of function": (
        "# at the end of main()\n    return args",
        [("    print(args)\n", "    print(args)\n    return args\n")],
    ),
    "after a loop": (
        "# in load, right after the for loop\n        self.rows.sort()",
        [("            self.rows.append(row)\n", "            self.rows.append(row)\n        self.rows.sort()\n")],
    ),
    "docstring line": (
        '# class Store: replaces the first line of the docstring\n    """Keeps the rows of a table.',
        [('"""Keeps rows.', '"""Keeps the rows of a table.')],
    ),
    "line number": ("# replaces line 2\nimport json", [("import sys\n", "import json\n")]),
    "dedented": ("# Store: insert right before save()\ndef clear(self):\n    self.rows = []", [CLEAR_PLACED]),
    "repeats its anchor": (
        "# in __init__, below self.root\n        self.root = root\n        self.name = None",
        [("        self.root = root\n", "        self.root = root\n        self.name = None\n")],
    ),
    "several, in any order": (
        "# add after parse_args\n" + HELPER + "\n# imports: above `import os`\nimport json",
        [HEAD_PLACED, JSON_PLACED],
    ),
    "same again": (
        "# parse_args: replace only the def line\ndef parse_args(argv=()):\n\n"
        "# same for parse_tail\ndef parse_tail(argv=()):",
        [("def parse_args(argv):", "def parse_args(argv=()):"), ("def parse_tail(argv):", "def parse_tail(argv=()):")],
    ),
    "two lines of words": (
        "# goes into Store, as the last method,\n# right below save()\n" + CLEAR,
        [("        write(name, self.rows)\n", "        write(name, self.rows)\n\n" + CLEAR)],
    ),
    "from one to the other": (
        "# save: replaces everything from the `if not name` check to the write call\n        dump(self.rows)",
        [
            (
                '        if not name:\n            raise ValueError("no name")\n        write(name, self.rows)\n',
                "        dump(self.rows)\n",
            )
        ],
    ),
}

OTHER_CASES = {
    "second import": (
        SCRIPT, "javascript", '// second import line, right below the fs import\nimport os from "os";',
        [('import fs from "fs";\n', 'import fs from "fs";\nimport os from "os";\n')],
    ),
    "last property": (
        SCRIPT, "javascript", "// options: add as the last property, after follow\n  hidden: false,",
        [("  follow: true,\n", "  follow: true,\n  hidden: false,\n")],
    ),
    "jsx comment": (
        SCRIPT, "javascript", "/* replaces the body line of count() */\n  return walk(dir).filter(Boolean).length;",
        [("  return walk(dir).length;", "  return walk(dir).filter(Boolean).length;")],
    ),
    "inside the loop": (
        SCRIPT, "javascript", "// walk(): inside the for loop, above found.push\n    if (!name) continue;",
        [("    found.push", "    if (!name) continue;\n    found.push")],
    ),
    "function after function": (
        SCRIPT, "javascript", "// add between walk and count\nexport function isEmpty(dir) {\n  return !count(dir);\n}",
        [("export function count",
          "export function isEmpty(dir) {\n  return !count(dir);\n}\n\nexport function count")],
    ),
    "dotted path": (
        WORKFLOW, "yaml", '# jobs.test.strategy.matrix.python: last entry\n          - "3.12"',
        [('          - "3.11"\n', '          - "3.11"\n          - "3.12"\n')],
    ),
    "step of a job": (
        WORKFLOW, "yaml", "# test job: insert between the checkout step and Run tests\n      - run: make deps",
        [("      - name: Run tests", "      - run: make deps\n      - name: Run tests")],
    ),
    "replaced in a job": (
        WORKFLOW, "yaml", "# lint job: replaces the checkout step\n      - uses: actions/checkout@v4",
        [("  lint:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v3",
          "  lint:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4")],
    ),
    "new section": (
        README, "markdown", '<!-- new section, right before "## Contact" -->\n## Licence\n\nFree.',
        [("## Contact", "## Licence\n\nFree.\n\n## Contact")],
    ),
    "list item": (
        README, "markdown", '<!-- append to the list under "## Install" -->\n- with npm',
        [("- from source\n", "- from source\n- with npm\n")],
    ),
    "removed item": (README, "markdown", "<!-- removes the `from source` item -->", [("- from source\n", "")]),
}  # fmt: skip


@pytest.mark.parametrize("case", PYTHON_CASES)
def test_says_where_code_goes(case: str) -> None:
    update, swaps = PYTHON_CASES[case]
    assert merged(PYTHON, update, "python") == after(PYTHON, *swaps)


@pytest.mark.parametrize("case", OTHER_CASES)
def test_other_languages(case: str) -> None:
    original, language, update, swaps = OTHER_CASES[case]
    assert merged(original, update, language) == after(original, *swaps)


def test_instruction_says_where() -> None:
    assert merged(PYTHON, HELPER, "python", "add parse_head right after parse_args") == after(PYTHON, HEAD_PLACED)


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
