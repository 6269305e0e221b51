"""Prose around code without a fence: it is never written into the file, and what it orders is done or doubted."""

from __future__ import annotations

import pytest

from apply_service.errors import MalformedEdit
from apply_service.merge.merge import merge
from apply_service.merge.rank.risks import NOWHERE, ORDER_IGNORED
from apply_service.reply.prose import find_prose
from apply_service.reply.reader import read_reply
from apply_service.text.english import is_order, reads_as_english
from apply_service.types import DOUBT, Certainty, Prediction

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


FENCED = "```python\ndef main():\n    store = Store()\n    print(store, LIMIT)\n```\n"
CHANGED = PYTHON.replace("print(store)", "print(store, LIMIT)")


@pytest.mark.parametrize(
    "update",
    [
        f"Set the limit:\n\n{FENCED}\nAlso remove `import sys`.\n",
        f"{FENCED}\nAlso remove `import sys`, nobody needs it.\n\nLet me know if this is right.\n",
        f"{FENCED}\nAlso delete `import sys`.\n\nRun it:\n\n```sh\npython file\n```\n",
        f"Remove `import sys`.\n\n{FENCED}",
    ],
)
def test_an_order_to_delete_beside_a_fence_is_carried_out_with_a_doubt(update: str) -> None:
    prediction = merged(update, PYTHON, "python")
    assert prediction.text == CHANGED.replace("import sys\n", "")
    assert prediction.certainty is Certainty.LIKELY
    reply = read_reply(update, original=PYTHON, path="src/file", language="python")
    assert DOUBT not in [finding.check for finding in reply.findings]


@pytest.mark.parametrize(
    "order", ["Also rename `put` to `set`.", "You can also drop `import sys`.", "Then move `main` above `load`."]
)
def test_another_order_behind_a_fence_is_doubted_and_places_nothing(order: str) -> None:
    update = f"{FENCED}\n{order}\n"
    assert merged(update, PYTHON, "python").text == CHANGED
    reply = read_reply(update, original=PYTHON, path="src/file", language="python")
    assert DOUBT in [finding.check for finding in reply.findings]


def test_the_last_sentence_of_a_page_is_no_order_behind_it() -> None:
    page = "# Guide\n\nInstall it.\n\nRemove the old folder.\n"
    edit = read_reply(page, original="# Guide\n\nInstall it.\n", path="a.md", language="markdown", named="whole_file")
    assert edit.findings == ()


def test_an_order_to_delete_what_the_file_lacks_is_refused() -> None:
    prediction = merged(f"{FENCED}\nAlso remove `nothing_like_it`.\n", PYTHON, "python")
    assert (prediction.certainty, prediction.reasons[0]) == (Certainty.GUESS, ORDER_IGNORED)


@pytest.mark.parametrize(
    "order", ["Remove `flush`.", "Delete `flush`", "Please remove the `flush` method, it is unused."]
)
def test_a_lone_order_names_what_goes(order: str) -> None:
    wanted = PYTHON.replace("    def flush(self):\n        pass\n\n", "")
    assert merged(f"{order.rstrip('.')}.\n", PYTHON, "python").text == wanted


@pytest.mark.parametrize(
    ("lead", "title", "code"),
    [
        ("Try it with:", "sh", "sh deploy.sh"),
        ("You can run it like this:", "", "./deploy.sh now"),
        ("Usage:", "", "x y"),
    ],
)
def test_how_to_try_the_code_is_no_part_of_the_edit(lead: str, title: str, code: str) -> None:
    original = "set -e\nmake all\n" + "echo done\n" * 12
    update = f"Add this check:\n\n```sh\nset -e\n[ -f Makefile ]\n```\n\n{lead}\n\n```{title}\n{code}\n```\n"
    reply = read_reply(update, original=original, path="deploy.sh", language="bash")
    assert reply.update == "set -e\n[ -f Makefile ]\n"
    assert merged(update, original, "bash", "deploy.sh").text == original.replace("-e\n", "-e\n[ -f Makefile ]\n")


def test_new_code_below_a_lead_stays_in_the_edit() -> None:
    update = "```python\nLIMIT = 20\n```\n\nUse this function, too:\n\n```python\ndef more():\n    pass\n```\n"
    assert "def more():" in read_reply(update, original=PYTHON, path="src/file", language="python").update


BODIES = [
    (
        PYTHON,
        "python",
        "load",
        '    """Load it."""\n    with open(path) as f:\n        text = f.read()\n    return text\n',
    ),
    (TYPESCRIPT, "typescript", "run", "  const y = x + 1;\n  start(y);\n  finish(y);\n  return y;\n"),
]


@pytest.mark.parametrize(("original", "language", "name", "body"), BODIES)
@pytest.mark.parametrize("indent", ["", "    "])
def test_the_body_of_a_function_is_replaced_whole(
    original: str, language: str, name: str, body: str, indent: str
) -> None:
    new = "return None" if language == "python" else "return 0;"
    margin = "    " if language == "python" else "  "
    wanted = original.replace(body, f"{margin}{new}\n")
    update = f"Replace the body of `{name}` with:\n\n```\n{indent and margin}{new}\n```\n"
    assert merged(update, original, language).text == wanted


@pytest.mark.parametrize(
    ("order", "above"),
    [
        ("Insert just before the last line of `load`:", "    return text\n"),
        ("Insert before the first line of `put`:", "        self.rows[key] = value\n"),
        ("Insert just before the last line:", "    print(store)\n"),
    ],
)
def test_the_first_or_last_line_is_a_place(order: str, above: str) -> None:
    margin = above[: len(above) - len(above.lstrip())]
    update = f"{order}\n\n```python\n{margin}log(1)\n```\n"
    assert merged(update, PYTHON, "python").text == PYTHON.replace(above, f"{margin}log(1)\n{above}")


def test_a_step_is_looked_for_inside_the_job_that_is_named() -> None:
    step = "      - name: {0}\n        run: make {0}\n"
    jobs = "jobs:\n  build:\n    steps:\n{}{}  test:\n    steps:\n{}{}"
    original = jobs.format(*map(step.format, ("Test", "Pack", "Setup", "Test")))
    new = step.format("Lint")
    wanted = jobs.format(*map(step.format, ("Test", "Pack", "Setup")), new + step.format("Test"))
    update = "Add before the Test step of the `test` job:\n\n```yaml\n- name: Lint\n  run: make Lint\n```\n"
    assert merged(update, original, "yaml", "ci.yml").text == wanted


def test_prose_alone_is_refused() -> None:
    with pytest.raises(MalformedEdit, match="prose but no code"):
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
        ("In stop(), remove the client from the index right before it leaves the server.clients list:", True, True),
    ],
)
def test_what_reads_as_english_and_what_is_an_order(text: str, is_english: bool, orders: bool) -> None:
    assert reads_as_english(text) is is_english
    assert (is_english and is_order(text)) is orders


SESSION = """import logging
from .db import session

log = logging.getLogger(__name__)
TIMEOUT = 10


def load(key):
    return session.get(key)


def dump(key, value):
    session.put(key, value)


def old_dump(key):
    session.put(key, None)
"""
LOAD = "```python\ndef load(key):\n    return session.get(key, None)\n```\n"


@pytest.mark.parametrize(
    ("update", "gone"),
    [
        (f"{LOAD}\nThen drop the `TIMEOUT` constant and remove `old_dump`.\n", ["TIMEOUT = 10\n", "old_dump"]),
        (f"{LOAD}\nFinally delete `old_dump`.\n", ["old_dump"]),
        (f"`old_dump` is not used, so you can safely remove it. Here is the new `load`:\n\n{LOAD}", ["old_dump"]),
        (f"You can remove `old_dump` later. Here is the new `load`:\n\n{LOAD}", []),
        (f"You can remove `old_dump` if you like. Here is the new `load`:\n\n{LOAD}", []),
    ],
)
def test_orders_and_leave_to_delete_beside_an_edit(update: str, gone: list[str]) -> None:
    found = merged(update, SESSION, "python")
    assert "session.get(key, None)" in found.text
    assert [text for text in ("TIMEOUT = 10\n", "old_dump") if text not in found.text] == gone
    assert found.certainty is not Certainty.CERTAIN


@pytest.mark.parametrize(
    "behind",
    [
        "Also add `import os` at the top and delete `old_dump`.",
        "Remember to add `import os` at the top.",
        "You also need the import at the top:\n\n```python\nimport os\n```",
    ],
)
def test_an_import_that_prose_adds_goes_to_the_imports(behind: str) -> None:
    found = merged(f"{LOAD}\n{behind}\n", SESSION, "python")
    assert "import os\n" in found.text[: found.text.index("log = ")]
    assert ("old_dump" in found.text) != ("delete" in behind)


def test_a_part_of_a_sentence_that_is_not_carried_out_is_told() -> None:
    update = f"{LOAD}\nAlso rename `dump` and delete `old_dump`.\n"
    edit = read_reply(update, original=SESSION, path="a.py", language="python")
    assert "Delete `old_dump`." in edit.update
    assert [one.message for one in edit.findings if one.check == "doubt"] == [
        "the edit may not do what this sentence asks: 'Also rename `dump`.'"
    ]


@pytest.mark.parametrize("order", ['Remove the "Old notes" section.', "Delete the section `Old notes`."])
def test_a_section_of_a_page_is_removed_whole(order: str) -> None:
    page = "# Tool\n\nIntro.\n\n## Old notes\n\n- one\n- two\n\n## License\n\nMIT\n"
    found = merged(f"{order}\n", page, "markdown", "a.md")
    assert found.text == "# Tool\n\nIntro.\n\n## License\n\nMIT\n"


CARGO = '[package]\nname = "x"\n\n[dependencies]\nserde = "1"\n\n[dev-dependencies]\nrand = "0.8"\n'
COMPOSE = "services:\n  web:\n    image: web\n\n  cache:\n    image: redis\n"


@pytest.mark.parametrize(
    ("path", "language", "original", "lead", "code"),
    [
        ("Cargo.toml", "toml", CARGO, "Put this in your Cargo.toml:", "[profile.release]\nlto = true\n"),
        ("compose.yml", "yaml", COMPOSE, "Add this to your `compose.yml`:", "volumes:\n  data:\n"),
        ("a.ts", "typescript", TYPESCRIPT, "Add this to `a.ts`:", "export function third() {\n  return 3;\n}\n"),
    ],
)
def test_a_new_section_that_is_added_to_the_file_goes_to_its_end(
    path: str, language: str, original: str, lead: str, code: str
) -> None:
    found = merged(f"{lead}\n\n```\n{code}```\n", original, language, path)
    assert found.text.rstrip("\n") in (f"{original}{code}".rstrip("\n"), f"{original}\n{code}".rstrip("\n"))
    assert found.certainty is Certainty.LIKELY


def test_code_for_another_file_has_no_place() -> None:
    found = merged(
        "Add this to `b.ts`:\n\n```ts\nexport function third() {\n  return 3;\n}\n```\n",
        TYPESCRIPT,
        "typescript",
        "a.ts",
    )
    assert found.certainty is Certainty.GUESS


# -- what else the words around an edit ask for ------------------------------------------------------------------------
LOADERS = (
    "import csv\nimport sys\n\n\ndef load_sales(path):\n    return list(csv.reader(open(path)))\n\n\n"
    "def load_refunds(path):\n    return list(csv.reader(open(path)))\n\n\n"
    "def main():\n    print(load_sales(sys.argv[1]))\n"
)
OLD, NEW = "def load_sales(path):\n    return list(csv.reader(open(path)))\n", "def load_sales(path):\n    return []\n"
LAZY = f"```python\n{NEW}```\n"
BLOCKS = f"<<<<<<< SEARCH\n{OLD}=======\n{NEW}>>>>>>> REPLACE\n"
SIGNS = "```diff\n def load_sales(path):\n-    return list(csv.reader(open(path)))\n+    return []\n```\n"


def doubts(reply: str, name: str) -> list[str]:
    edit = read_reply(reply, original=LOADERS, path="load.py", language="python", named=name)
    return [found.message for found in edit.findings if found.check == DOUBT]


@pytest.mark.parametrize(
    ("edit", "name"), [(LAZY, "lazy_snippet"), (BLOCKS, "search_replace"), (SIGNS, "unified_diff")]
)
@pytest.mark.parametrize(
    "order",
    [
        "Do the same for `load_refunds`.",
        "Make the same change in `load_refunds`.",
        "You should make an analogous change to `load_refunds`.",
    ],
)
def test_an_order_for_the_same_change_elsewhere_is_a_doubt(edit: str, name: str, order: str) -> None:
    assert any(order[:40] in told for told in doubts(f"{edit}\n{order}\n", name))
    assert doubts(f"{edit}\n`load_sales` does the same as before for an empty file.\n", name) == []


def test_an_order_above_the_edit_for_the_same_change_elsewhere_is_a_doubt() -> None:
    lead = "Both loaders return a list. Here is `load_sales`; change `load_refunds` the same way:\n\n"
    assert doubts(lead + LAZY, "lazy_snippet")


@pytest.mark.parametrize(("edit", "name"), [(BLOCKS, "search_replace"), (SIGNS, "unified_diff")])
@pytest.mark.parametrize("order", ["Also remove the now unused `import sys`.", "Then delete `load_refunds`."])
def test_an_order_behind_an_exact_edit_is_a_doubt(edit: str, name: str, order: str) -> None:
    assert any(order[:30] in told for told in doubts(f"{edit}\n{order}\n", name))


@pytest.mark.parametrize("lead", ["Your `report.py` should then look like this:", "In your other script:"])
def test_code_of_another_file_in_the_same_reply_is_left_out_with_a_doubt(lead: str) -> None:
    other = "```python\ndef main():\n    print(1)\n```\n"
    assert doubts(f"{LAZY}\n{lead}\n\n{other}", "lazy_snippet")
    assert read(f"{LAZY}\n{lead}\n\n{other}") == NEW
    assert doubts(f"{LAZY}\nAnd `main`:\n\n{other}", "lazy_snippet") == []
    assert "print(1)" in read(f"{LAZY}\nAnd `main`:\n\n{other}")


def read(reply: str) -> str:
    return read_reply(reply, original=LOADERS, path="load.py", language="python").update


def test_of_several_fences_one_is_of_the_file_that_its_first_comment_names() -> None:
    other = "```python\n# report.py\ndef main():\n    print(1)\n```\n"
    assert read(f"```python\n# load.py\n{NEW}```\n\n{other}") == f"# load.py\n{NEW}"


@pytest.mark.parametrize(
    "reply",
    [
        f"{LAZY}\nThe old version was:\n\n```python\n{OLD}```\n",
        f"The problem is in this function:\n\n```python\n{OLD}```\n\nThis is it without the file:\n\n{LAZY}",
    ],
)
def test_a_fence_that_quotes_the_file_beside_the_edit_is_left_out(reply: str) -> None:
    assert read(reply) == NEW


@pytest.mark.parametrize(("old", "new"), [("Change this:", "to this:"), ("Before:", "After:"), ("Replace", "With:")])
def test_code_to_replace_and_its_new_form_are_a_block(old: str, new: str) -> None:
    reply = f"{old}\n\n```python\n{OLD}```\n\n{new}\n\n```python\nTOTAL = 1\n```\n"
    edit = read_reply(reply, original=LOADERS, path="load.py", language="python")
    assert edit.format == "search_replace"
    assert edit.update == f"<<<<<<< SEARCH\n{OLD}=======\nTOTAL = 1\n>>>>>>> REPLACE\n"


def test_line_numbers_before_the_code_are_taken_off() -> None:
    assert read("```python\n14 | def load_sales(path):\n15 |     return []\n```\n") == NEW
    assert read("```python\n1 | a\n2 | bcdefgh\n```\n") == "1 | a\n2 | bcdefgh\n"


def test_two_orders_above_one_code_are_both_told() -> None:
    update = read("Remove `load_refunds`, and change the last line of `load_sales` to:\n\n```\n    return 1\n```\n")
    lines = update.split("\n")
    assert lines[0] == "Remove `load_refunds`."
    assert "Replace the last line of `load_sales` with:" in lines
