"""Snippets with the signs of a diff and without its headers: told from lists, laid on the file, written."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from apply_service.merge.proposal import Proposal
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.signed import is_signed, read_signed
from tests.seeds import draw_seed

_CODE = """\
import os

class Store:
    def __init__(self, root):
        self.root = root
        self.names = []
        self.open = True

    def read(self, name):
        path = os.path.join(self.root, name)
        with open(path) as file:
            return file.read()

    def close(self):
        self.open = False
        self.names.clear()"""

_LIST = """\
# Tasks

- write the first draft
- read the second draft
  - with a colleague

name: weekly
steps:
- run: make all
- run: make test"""
CODE, LIST = _CODE.split("\n"), _LIST.split("\n")


def proposals(original: list[str], update: str, language: str | None = None) -> list[Proposal]:
    lines = update.split("\n")
    return read_signed(ReadSnippet(original, lines, language, None), lines)


def read(original: list[str], update: str) -> Proposal:
    lines = update.split("\n")
    readings = proposals(original, update)
    assert len({reading.text for reading in readings}) == len(readings) <= 4
    for reading in readings:
        check_contract(original, lines, reading)
    return readings[0]


def check_contract(original: list[str], update: list[str], reading: Proposal) -> None:
    """The operations name every original line once and in order, and takes are lines of the update, drops first."""
    assert [op.original_line for op in reading.ops if op.original_line is not None] == list(range(len(original)))
    assert len(reading.texts) == len(update)
    for op in reading.ops:
        if op.kind == "take":
            assert op.update_line is not None
            assert op.text == reading.texts[op.update_line]
        else:
            assert op.original_line is not None
            assert op.text == original[op.original_line]
    kinds = [op.kind for op in reading.ops]
    assert ("take", "drop") not in set(pairwise(kinds))


def edited(original: list[str], *changes: tuple[str, list[str]]) -> str:
    """The original with lines, told by their text without indentation, replaced."""
    table = dict(changes)
    return "\n".join(new for line in original for new in table.get(line.strip(), [line]))


def test_signs_are_taken_off_and_unshown_lines_stay() -> None:
    update = """\
 # ... existing code ...
     def __init__(self, root):
         self.root = root
-        self.names = []
+        self.names = {}
 # ... existing code ...
     def close(self):
+        assert self.open
         self.open = False
 # ... existing code ..."""
    reading = read(CODE, update)
    assert is_signed(CODE, update.split("\n"))
    header = ("def close(self):", ["    def close(self):", "        assert self.open"])
    assert reading.text == edited(CODE, ("self.names = []", ["        self.names = {}"]), header)
    assert reading.reasons == ()


@pytest.mark.parametrize(
    "update",
    [
        " class Store:\n     def read(self, name):\n"
        "-        path = os.path.join(self.root, name)\n+        path = name",
        "    def read(self, name):\n-        path = os.path.join(self.root, name)\n+        path = name",
        "```diff\n def read(self, name):\n-    path = os.path.join(self.root, name)\n+    path = name\n```",
        "     def read(self, name):\n-         path = os.path.join(self.root, name)\n+         path = name",
        "     def read(name):\n-        path = os.path.join(root, name)\n+        path = name",
    ],
    ids=["header and jump", "no blank before context", "dedented and fenced", "blank as separator", "misquoted"],
)
def test_sloppy_signs_are_read(update: str) -> None:
    assert is_signed(CODE, update.split("\n"))
    wanted = edited(CODE, ("path = os.path.join(self.root, name)", ["        path = name"]))
    assert read(CODE, update).text == wanted


def test_hunks_out_of_order_find_their_places() -> None:
    update = """\
     def close(self):
-        self.open = False
+        self.open = None
# ...
     def __init__(self, root):
+        assert root
         self.root = root"""
    reading = read(CODE, update)
    header = ("def __init__(self, root):", ["    def __init__(self, root):", "        assert root"])
    assert reading.text == edited(CODE, ("self.open = False", ["        self.open = None"]), header)
    assert "quoted lines stand in the file in another order" in reading.reasons


@pytest.mark.parametrize(
    "update",
    [
        "- write the first draft\n- write the third draft\n- read the second draft",
        "steps:\n- run: make all\n- run: make lint\n- run: make test",
        "# Tasks\n\n+ a new list\n+ of other signs",
        "name: weekly\n# ...\n- run: make all\n-1,\n++i",
        'x = "a"\n+ "b"\n+ name',
        "- with a colleague\n- without one",
        "# Tasks\n\n```diff\n-a line\n+    another one\n+    and one more\n```",
    ],
)
def test_lists_and_continuation_lines_are_no_signs(update: str) -> None:
    assert not is_signed(LIST, update.split("\n"))


def test_list_items_are_removed_and_added_by_a_sign_of_their_own() -> None:
    update = " steps:\n-- run: make all\n+- run: make lint\n - run: make test"
    assert is_signed(LIST, update.split("\n"))
    assert read(LIST, update).text == edited(LIST, ("- run: make all", ["- run: make lint"]))


def test_unsigned_line_that_stands_nowhere_is_new_with_a_reason() -> None:
    update = "     def close(self):\n+        first = 1\nsecond = 2\n         self.open = False"
    readings = proposals(CODE, update, "python")
    texts = [[line.strip() for line in reading.text.split("\n") if line not in CODE] for reading in readings]
    assert texts[:2] == [["first = 1", "second = 2"], ["first = 1"]]
    assert "a line without a sign stands nowhere in the file" in readings[0].reasons


def test_added_lines_that_repeat_their_neighbours_are_those() -> None:
    update = "     def close(self):\n+        assert self.open\n+        self.open = False\n # ..."
    readings = proposals(CODE, update, "python")
    header = ("def close(self):", ["    def close(self):", "        assert self.open"])
    assert readings[0].text == edited(CODE, header)
    assert len(readings[1].text.split("\n")) == len(CODE) + 2
    assert readings[0].reasons


def test_the_last_line_end_is_no_blank_line() -> None:
    update = "     g();\n }\n \n+void h() {\n+    x();\n+}"
    for end in ("", "\n"):
        found = read(["void f() {", "    g();", "}", ""], update + end).text
        assert found == "void f() {\n    g();\n}\n\nvoid h() {\n    x();\n}"


def test_of_several_blank_lines_those_above_the_next_line_count() -> None:
    original = ["start = load(1)", "", "", "", "", "path = load(3)", "names = load(4)"]
    update = "# ...\n\n\n-\n+new = result\n path = load(3)\n names = load(4)"
    assert read(original, update).text == "\n".join([*original[:4], "new = result", *original[5:]])


def test_random_edits_come_out_exact_or_with_a_reason() -> None:
    draw = random.Random(draw_seed())
    n_exact = 0
    for _ in range(200):
        original, wanted, update = random_case(draw)
        reading = read(original, "\n".join(update))
        is_exact = reading.text == "\n".join(wanted)
        n_exact += is_exact
        assert is_exact or reading.reasons, "\n".join([*original, "=====", *update, "=====", reading.text])
    assert n_exact > 180


def random_case(draw: random.Random) -> tuple[list[str], list[str], list[str]]:
    """A small file, the file after random line edits, and the edits as a signed snippet with some sloppiness."""
    words = ["open", "close", "value", "result", "names", "count", "path", "line"]
    common = draw.choice([5, 12, 24])
    lines = [
        f"{'    ' * draw.randrange(3)}{draw.choice(words)}_{k % common} = {draw.choice(words)}({k % 9})"
        for k in range(24)
    ]
    original = [draw.choice(["", "}", line]) if draw.random() < 0.2 else line for line in lines]
    wanted: list[str] = []
    signed: list[str] = []
    changed = draw.sample(range(2, 22), 3)
    bare, wide = draw.random() < 0.3, draw.random() < 0.2
    for j, line in enumerate(original):
        near = min(abs(j - c) for c in changed)
        if j in changed:
            new = [f"    new_{j}_{n} = {draw.choice(words)}" for n in range(draw.randrange(3))]
            wanted += new
            signed += [f"-{' ' * (wide and line != '')}{line}", *(f"+{' ' * wide}{text}" for text in new)]
        elif near <= 2:
            wanted.append(line)
            shown = line.replace("(", "", 1) if draw.random() < 0.05 else line
            signed.append(shown if bare or not line or draw.random() < 0.1 else f" {shown}")
        else:
            wanted.append(line)
            if signed and not signed[-1].endswith("..."):
                signed.append(draw.choice(["# ... existing code ...", " // ..."]))
    if min(changed) > 4:
        signed.insert(0, "# ... existing code ...")
    return original, wanted, signed
