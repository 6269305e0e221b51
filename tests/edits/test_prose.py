"""Prose around code without a fence: it is never written into the file, and what it orders is done or doubted."""

from __future__ import annotations

import pytest

from apply_service.edits.envelope import is_order, reads_as_english
from apply_service.edits.lazy.merge import NOWHERE, ORDER_IGNORED, merge
from apply_service.edits.prose import find_prose
from apply_service.edits.reply import read_reply
from apply_service.errors import MalformedEdit
from apply_service.types import Prediction

PYTHON = '''\
import os
import sys
from lib import (
    Alpha,
    Beta,
    Gamma,
)

LIMIT = 10


def load(path):
    """Load it."""
    with open(path) as f:
        text = f.read()
    return text


class Store:
    def get(self, key):
        return self.rows[key]

    def put(self, key, value):
        self.rows[key] = value
        self.flush()

    def flush(self):
        pass


def main():
    store = Store()
    print(store)
'''
TYPESCRIPT = """\
import { a } from "./a";
import { b } from "./b";

export function run(x: number): number {
  const y = x + 1;
  start(y);
  finish(y);
  return y;
}

export class Job {
  stop(): void {
    this.log("stop");
  }
}
"""
YAML = "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make test\n"
LUA = 'function stop()\n  print("b")\nend\n'
MARKDOWN = "# Tool\n\nSome words.\n\n## Install\n\nRun pip.\n\n## Usage\n\nCall it.\n"


def merged(update: str, original: str, language: str, path: str = "src/file") -> Prediction:
    """The merge as a request gets it."""
    reply = read_reply(update, original=original, path=path, language=language)
    return merge(original, reply.update, language=language, path=path, instruction=reply.prose)


ORDERS = [
    ("Replace the `LIMIT` line with:\n\nLIMIT = 20\n", PYTHON, "python", {"LIMIT = 10": "LIMIT = 20"}),
    ("Replace the `LIMIT` line with:\nLIMIT = 20\n", PYTHON, "python", {"LIMIT = 10": "LIMIT = 20"}),
    (
        "In `Store.put`, replace the `self.flush()` call with:\n\n        self.commit()\n",
        PYTHON,
        "python",
        {"        self.flush()": "        self.commit()"},
    ),
    (
        "Insert this before the `return text` line in `load`:\n\n    text = text.strip()\n",
        PYTHON,
        "python",
        {"    return text": "    text = text.strip()\n    return text"},
    ),
    ("Delete `Beta` from the imports:\n\n    Alpha,\n    Gamma,\n", PYTHON, "python", {"    Beta,\n": ""}),
    ("Remove the `flush` method from `Store`.\n", PYTHON, "python", {"    def flush(self):\n        pass\n\n": ""}),
    (
        "Add this import at the top:\n\nimport json\n\nThen, in `main`, replace the `print(store)` call with:\n\n"
        "    print(json)\n\nThat should do it.\n",
        PYTHON,
        "python",
        {"import os": "import json\nimport os", "print(store)": "print(json)"},
    ),
    (
        "Remove the `import sys` line.\n\nIn `Store.put`, replace `self.flush()` with:\n\n        self.commit()\n",
        PYTHON,
        "python",
        {"import sys\n": "", "        self.flush()": "        self.commit()"},
    ),
    (
        "Replace the `start(y)` call and everything up to (not including) the `return y` line with:\n\n  go(y);\n",
        TYPESCRIPT,
        "typescript",
        {"  start(y);\n  finish(y);\n": "  go(y);\n"},
    ),
    (
        'Add this import after the `b` import:\n\n```ts\nimport { c } from "./c";\n```\n\n'
        'In `stop`, replace the `this.log("stop")` call with:\n\n```ts\n    this.log("stopped");\n```\n',
        TYPESCRIPT,
        "typescript",
        {'from "./b";\n': 'from "./b";\nimport { c } from "./c";\n', '"stop"': '"stopped"'},
    ),
    (
        "Replace `runs-on: ubuntu-latest` with:\n\n    runs-on: ubuntu-22.04\n",
        YAML,
        "yaml",
        {"ubuntu-latest": "ubuntu-22.04"},
    ),
    ('Replace the `print("b")` call in `stop` with:\n\n  print("c")\n', LUA, "lua", {'"b"': '"c"'}),
    (
        "Add this section before the Usage section:\n\n## Configure\n\nSet `x`.\n",
        MARKDOWN,
        "markdown",
        {"## Usage": "## Configure\n\nSet `x`.\n\n## Usage"},
    ),
]


@pytest.mark.parametrize(("update", "original", "language", "changes"), ORDERS, ids=[case[0][:40] for case in ORDERS])
def test_an_order_in_prose_is_carried_out(update: str, original: str, language: str, changes: dict[str, str]) -> None:
    wanted = original
    for old, new in changes.items():
        assert wanted.count(old) == 1
        wanted = wanted.replace(old, new)
    assert merged(update, original, language).text == wanted


@pytest.mark.parametrize(
    "update",
    [
        "Replace the `frobnicate()` call with:\n\n    thing()\n",
        "Add this import at the top:\n\nimport json\n\nReplace the `frobnicate()` call with:\n\n    thing()\n",
    ],
)
def test_an_order_that_cannot_be_followed_is_doubted_and_nothing_is_dropped(update: str) -> None:
    prediction = merged(update, PYTHON, "python")
    assert prediction.probability is not None
    assert prediction.probability <= NOWHERE
    assert ORDER_IGNORED in prediction.reasons
    assert "    thing()" in prediction.text.split("\n")
    assert "Replace" not in prediction.text


@pytest.mark.parametrize("language", ["python", "lua", "swift", "typescript"])
def test_prose_that_orders_nothing_is_told_and_not_written(language: str) -> None:
    update = "I changed the limit as you asked.\n\nLIMIT = 30\n\nLet me know if anything else is needed.\n"
    reply = read_reply(update, original="LIMIT = 10\n", path="src/file", language=language)
    assert reply.update == "LIMIT = 30\n"
    assert reply.prose.split("\n") == ["I changed the limit as you asked.", "Let me know if anything else is needed."]
    assert [finding.check for finding in reply.findings] == ["reply"]


def test_prose_alone_is_refused() -> None:
    with pytest.raises(MalformedEdit, match="prose without code"):
        read_reply("The file looks good to me as it is.\n", original=PYTHON, path="a.py", language="python")


CONTENT = [
    ("python", PYTHON, 'HELP = """\nThis is the text of the help.\n\nAdd this to the path:\n\n    x\n"""\n'),
    ("python", PYTHON, 'Add this to the path of the program.\n\n    x\n\n"""\n\nLIMIT = 20\n'),
    ("python", PYTHON, "# Replace the last line of the file with:\n\nLIMIT = 20\n"),
    ("python", 'A = """\n\nThis is the text of the help.\n\n"""\n', "This is the text of the help.\n\nmore\n"),
    ("python", 'A = """\n\nThis is a text of the help.\n\n"""\n', "This is the text of the help.\n\nmore\n"),
    ("typescript", TYPESCRIPT, "/*\n\nThis is the licence of the file.\n\n*/\n"),
    ("markdown", MARKDOWN, "## Install\n\nAdd this line to your configuration:\n\n    x: 1\n"),
    ("markdown", MARKDOWN, "Here is the new text of the page.\n\nMore of it.\n"),
    ("html", "<p>\nThis is it.\n</p>\n", "<p>\n\nHere is the new text of the page.\n\n</p>\n"),
    (None, "x\n", "Here is the new text of the page.\n\nMore of it.\n"),
]


@pytest.mark.parametrize(("language", "original", "update"), CONTENT)
def test_text_of_the_file_is_no_prose(language: str | None, original: str, update: str) -> None:
    is_text = language in ("markdown", None)
    assert find_prose(update.split("\n"), original.split("\n"), language, is_text=is_text) == []


@pytest.mark.parametrize(
    ("text", "is_english", "orders"),
    [
        ("Replace the last line of `start()` with:", True, True),
        ("and drop `T5Config` at the end of the same block:", True, True),
        ("In `f`, replace `a[0] = {}` with:", True, True),
        ("1. Add this import at the top:", True, True),
        ("Here is the change that you asked for:", True, False),
        ("I've added the method to the class.", True, False),
        ("def replace(the, line):", False, False),
        ("Replace: the line is here", False, False),
        ("SELECT a FROM b WHERE c = 1.", False, False),
        ("x = the line of it.", False, False),
    ],
)
def test_what_reads_as_english_and_what_is_an_order(text: str, is_english: bool, orders: bool) -> None:
    assert reads_as_english(text) is is_english
    assert (is_english and is_order(text)) is orders
