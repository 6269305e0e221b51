"""What stands around an edit is told from what is part of it."""

from __future__ import annotations

import pytest

from apply_service.reply.reader import detect_format
from apply_service.text.english import is_sentence
from apply_service.text.fences import is_around, is_fence
from apply_service.text.paths import is_same_file, named_path
from tests.effort import no_hang


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("src/app.py", "src/app.py"),
        ("**src/app.py**", "src/app.py"),
        ("`app.py`:", "app.py"),
        ("### app.py", "app.py"),
        ("File: src\\app.py", "src\\app.py"),
        ("# path: app.py", "app.py"),
        ("Makefile", "Makefile"),
        ("app", None),
        ("return x.y()", None),
        ("import os.path as p", None),
        ("", None),
    ],
)
def test_a_line_that_names_a_file(line: str, path: str | None) -> None:
    assert named_path(line) == path


@pytest.mark.parametrize(
    "line", ["Here is the change:", "This sums the prices.", "1. First, import it:", "Done, see above!"]
)
def test_sentences(line: str) -> None:
    assert is_sentence(line)
    assert is_around(line)


@pytest.mark.parametrize(
    "line", ["    Indented prose here.", "return x;", "Foo.", "class A: pass", "x = Here it is.", "def f():"]
)
def test_code_is_no_sentence(line: str) -> None:
    assert not is_sentence(line)


@pytest.mark.parametrize(
    ("line", "is_one"), [("```", True), ("```python", True), ("~~~ diff", True), ("```a`b", False), ("``", False)]
)
def test_fences(line: str, is_one: bool) -> None:
    assert is_fence(line) == is_one


@pytest.mark.parametrize(
    ("named", "path", "is_same"),
    [
        ("src/a.py", "src/a.py", True),
        ("a.py", "src/a.py", True),
        ("/home/me/src/a.py", "src/a.py", True),
        ("src\\a.py", "src/a.py", True),
        ("./a.py", "a.py", True),
        ("b/a.py", "src/a.py", False),
        ("ba.py", "a.py", False),
        ("a.py", None, True),
    ],
)
def test_paths_that_mean_the_same_file(named: str, path: str | None, is_same: bool) -> None:
    assert is_same_file(named, path) == is_same


@pytest.mark.parametrize(
    "line",
    [
        "A " + "b " * 190 + "{",
        "A " + "b " * 2_000_000 + "{",
        "```" + " " * 2_000_000 + "!",
        " " * 2_000_000 + "x",
        "--- " + " " * 2_000_000 + "x\n+++ b\n@@ @@\n+x",
        "a | 1 +" * 300_000,
        "*** Update File: " + " " * 2_000_000,
        "@@ " + "-1,1 " * 300_000,
        "a/" * 190 + "!",
    ],
    ids=range(9),
)
def test_hostile_lines_cost_little(line: str) -> None:
    """A pattern that backtracked over nested repetitions once took minutes for a line of 360 characters."""
    with no_hang():
        for opening in ("", "<<<<<<< SEARCH\n", "@@ @@\n+x\n", "*** Begin Patch\n"):
            assert detect_format(opening + line, named=None)
