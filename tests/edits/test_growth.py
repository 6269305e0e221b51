"""Reading an edit takes time in proportion to its length, whatever is in it.

Every kind of edit is read at four lengths, each twice the one before.  What counts is processor time, the least of
several runs, over all three doublings together, so that a busy machine does not fail it.
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

import pytest

from apply_service.errors import ApplyError
from apply_service.pipeline import read_edit
from apply_service.types import ApplyRequest

pytestmark = pytest.mark.slow
"""Times: on a busy machine they say little."""

MOST_A_DOUBLING = 2.5
FIRST_CHARS = 8_000
LAST_CHARS = 64_000
"""An edit of this length that takes less than `MEASURABLE_S` needs no measure."""
MEASURABLE_S = 0.004
HOPELESS_S = 60
N_RUNS = 2
N_TRIES = 3
"""What is slow is so every time; a busy machine is not."""

Kind = Callable[[int], tuple[str, str]]
"""Original and update of about so many characters together."""

FILE = "".join(f"def f{i}(a):\n    b = a + {i}\n    return b\n\n\n" for i in range(20))


def rows(n: int, line: str = "x = {}\n") -> str:
    """Numbered lines."""
    return "".join(line.format(i) for i in range(max(1, n // len(line.format(1000)))))


def around(middle: str, *, mark: str = "# ... existing code ...") -> tuple[str, str]:
    """A snippet of `FILE` with something odd in it."""
    return FILE, f"{mark}\ndef f3(a):\n{middle}\n    return b\n{mark}\n"


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def diff(body: str, *, names: str = "--- a/f.py\n+++ b/f.py\n") -> str:
    return names + body


def hunk(old: str, new: str) -> str:
    n_old, n_new = old.count("\n"), new.count("\n")
    signed = [f"{sign}{line}" for sign, text in (("-", old), ("+", new)) for line in text.splitlines(keepends=True)]
    return f"@@ -1,{n_old} +1,{n_new} @@\n" + "".join(signed)


def patch(body: str) -> str:
    return f"*** Begin Patch\n*** Update File: f.py\n{body}*** End Patch\n"


def as_json(pairs: list[tuple[str, str]]) -> str:
    return json.dumps({"edits": [{"old_string": old, "new_string": new} for old, new in pairs]}) + "\n"


LONG_LINES: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: " " * n,
    "blanks and a word": lambda n: " " * n + "x",
    "a word, blanks, a brace": lambda n: "name" + " " * n + "{",
    "a word and blanks": lambda n: "name" + " " * n,
    "dots": lambda n: "." * n,
    "comment of dots": lambda n: "# " + "." * n,
    "comment of dots and words": lambda n: "// " + "... x " * (n // 6),
    "dots and blanks": lambda n: "# " + ". " * (n // 2),
    "dashes": lambda n: "-" * n,
    "hashes": lambda n: "#" * n,
    "slashes": lambda n: "/" * n,
    "stars": lambda n: "/*" + "*" * n,
    "equals": lambda n: "=" * n,
    "angles": lambda n: "<" * n,
    "backticks": lambda n: "`" * n,
    "parentheses": lambda n: "(" * n,
    "brackets closed": lambda n: "(" * (n // 2) + ")" * (n // 2),
    "braces": lambda n: "{" * n,
    "quotes": lambda n: '"' * n,
    "quotes and backslashes": lambda n: '"\\' * (n // 2),
    "words": lambda n: "word " * (n // 5),
    "existing code": lambda n: "# " + "existing code " * (n // 14),
    "rest of": lambda n: "# ... " + "rest of the " * (n // 12) + "code",
    "paths": lambda n: "a/" * (n // 2),
    "names with dots": lambda n: "# " + "a.b " * (n // 4),
    "capital words": lambda n: "A" + "b " * (n // 2) + "c",
    "letters": lambda n: "x" * n,
    "at signs": lambda n: "@" * n,
    "tabs": lambda n: "\t" * n + "x",
    "form feeds": lambda n: "\x0c" * n + "x",
    "emphasis": lambda n: "**" * (n // 2) + "a.py",
    "digits": lambda n: "1" * n,
    "commas": lambda n: "f(" + "a, " * (n // 3) + ")",
    "def": lambda n: "def f(" + " " * n + "):",
    "type and blanks": lambda n: "def f() ->" + " " * n + "x",
    "types": lambda n: "def f()" + " -> a" * (n // 5),
    "dots and letters": lambda n: "f(" + "...a" * (n // 4),
    "words and remarks": lambda n: "x = 1" + "  # a" * (n // 5),
}


def with_each_line(name: str, make: Callable[[str], tuple[str, str]]) -> dict[str, Kind]:
    """A kind for each long line, in the place that `make` gives it."""
    return {f"{name}, line: {line}": partial(_with_line, make, draw) for line, draw in LONG_LINES.items()}


def _with_line(make: Callable[[str], tuple[str, str]], draw: Callable[[int], str], n: int) -> tuple[str, str]:
    return make(draw(n))


TAG_END = "</invoke>"
KINDS: dict[str, Kind] = {
    **with_each_line("lazy", around),
    **with_each_line("block", lambda line: (FILE, block(line + "\n", "y\n"))),
    **with_each_line("diff", lambda line: (FILE, diff(f"@@ @@\n-{line}\n+y\n"))),
    **with_each_line("patch", lambda line: (FILE, patch(f"@@\n-{line}\n+y\n"))),
    **with_each_line("bare", lambda line: (FILE, line + "\n")),
    **with_each_line("file", lambda line: (line + "\n" + FILE, around("    b = 1")[1])),
    "lazy, many short lines": lambda n: around(rows(n, "    b = {}\n")),
    "lazy, many markers": lambda n: around("# ... existing code ...\n    b = 1\n" * (n // 35)),
    "lazy, only markers": lambda n: around("# ... existing code ...\n" * (n // 24)),
    "lazy, many equal lines in both": lambda n: (
        "    x = 1\n" * (n // 20),
        "# ...\n" + "    x = 1\n" * (n // 20) + "    y\n# ...\n",
    ),
    "lazy, equal lines in the file": lambda n: (
        "x = 1\n" * (n // 6),
        "# ... existing code ...\nx = 1\ny = 2\nx = 1\n# ...\n",
    ),
    "lazy, a long file": lambda n: (
        rows(n),
        f"# ... existing code ...\nx = {n // 20}\ny = 2\n# ... existing code ...\n",
    ),
    "lazy, file and snippet unlike": lambda n: (rows(n // 2), rows(n // 2, "y{0} = {0}\n")),
    "lazy, file and snippet alike": lambda n: (rows(n // 2), rows(n // 2).replace("0\n", "00\n")),
    "lazy, reversed": lambda n: (rows(n // 2), "# ...\n" + "".join(reversed(rows(n // 2).splitlines(keepends=True)))),
    "lazy, every other line": lambda n: (
        rows(n // 2),
        "".join(f"x = {2 * i}\n# ... existing code ...\n" for i in range(n // 60)),
    ),
    "lazy, nested": lambda n: around("".join(" " * (4 + i % 400) + "if x:\n" for i in range(n // 200))),
    "lazy, one def after another": lambda n: (FILE, rows(n, "def g{}(): pass\n# ...\n")),
    "lazy, blank lines": lambda n: ("\n" * (n // 2) + "x\n", "# ...\n" + "\n" * (n // 2) + "y\n"),
    "lazy, brackets open": lambda n: around("f(\n" * (n // 3)),
    "lazy, fences": lambda n: around("```\n" * (n // 4)),
    "lazy, fences of another file": lambda n: (FILE, rows(n // 50, "In your other script:\n\n```\nx = {}\n```\n\n")),
    "lazy, the same again": lambda n: (FILE, "```\nx = 1\n```\n" + rows(n // 30, "Do the same for `f{}`.\n")),
    "lazy, calls like others": lambda n: (rows(n // 2, "f('{}')\n"), rows(n // 2, "# ...\nf('a{}')\n")),
    "lazy, elements like others": lambda n: (
        rows(n // 2, "<p>\n  {}\n</p>\n"),
        rows(n // 2, "# ...\n<p>\n  a{}\n</p>\n"),
    ),
    "lazy, hints": lambda n: (FILE, rows(n, "# add this after f{}\nx = 1\n")),
    "lazy, hints after lines of a long file": lambda n: (rows(n // 2), rows(n // 2, "# add after x = {0}\ny = {0}\n")),
    "lazy, deletion notes": lambda n: (rows(n // 2, "def f{}(): pass\n"), rows(n // 2, "# removed f{}\n# ...\n")),
    "lazy, deletion notes in a block": lambda n: (rows(n // 2), rows(n // 2, "x = {}\n# removed y\n")),
    "lazy, loose imports": lambda n: (rows(n // 2, "import a{}\n"), rows(n // 2, "import b{}\n# ...\n")),
    "lazy, lines with dots": lambda n: (rows(n // 2, "b = f(a, b, {})\n"), rows(n // 2, "b = f(..., {}0)\n")),
    "lazy, words lost": lambda n: (
        rows(n // 2, "# say the quick brown fox jumps over {}\n"),
        rows(n // 2, "# say the brown fox jumps over {}0\nx = 1\n"),
    ),
    "lazy, blocks of equal lines": lambda n: ("x = 1\n" * (n // 12), "x = 1\ny = 2\n# ...\n" * (n // 36)),
    "lazy, indented otherwise": lambda n: (rows(n // 2, "    x = {}\n"), rows(n // 2)),
    "lazy, headers": lambda n: (
        rows(n // 2, "class A{0}:\n    def f{0}(self):\n        x = {0}\n"),
        rows(n // 2, "class A{0}:\n    # ...\n    def f{0}(self):\n        x = -{0}\n"),
    ),
    "lazy, braces": lambda n: (rows(n // 2, "f{} {{\n}}\n"), rows(n // 2, "f{} {{\n  x\n}}\n")),
    "lazy, marker lines of the file": lambda n: (
        "# ...\n\n" * (n // 14) + "x\n",
        "# ...\n\n" * (n // 14) + "y\n",
    ),
    "lazy, a new file over an old one": lambda n: (rows(n // 2, "a b{} c\n"), rows(n // 2, "(d, {})\n")),
    "json, many edits": lambda n: (rows(n // 3), as_json([(f"x = {i}\n", f"y = {i}\n") for i in range(n // 80)])),
    "json, not found": lambda n: (rows(n // 3), as_json([(f"z == {i}\n", "y\n") for i in range(n // 80)])),
    "json, all the same": lambda n: (rows(n // 3), as_json([("x = 1\n", "x = 1\n")] * (n // 80))),
    "json, one long edit": lambda n: (rows(n // 3), as_json([(rows(n // 3), rows(n // 3, "y = {}\n"))])),
    "json, escapes": lambda n: (FILE, as_json([(chr(92) * (n // 2), "y")])),
    "json, never closed": lambda n: (FILE, as_json([("x\n" * (n // 4), "y")])[:-4]),
    "json, broken": lambda n: (FILE, '{"edits": [' + '{"old_string": "x", "new_string": "y",},' * (n // 40) + "]}"),
    "json, misplaced quotes": lambda n: (FILE, '{"old_string": "' + 'x" y ' * (n // 5) + '", "new_string": "z"}'),
    "tags, never closed": lambda n: (FILE, '<invoke name="e">' + '<parameter name="old_string">' * (n // 29) + TAG_END),
    "tags, closed at the end": lambda n: (
        FILE,
        '<invoke name="e">' + '<parameter name="x">' * (n // 32) + "</parameter>" * (n // 32) + TAG_END,
    ),
    "lists, many": lambda n: (FILE, "f(..., a)\n" * (n // 10)),
    "lists, inside one another": lambda n: (FILE, "f(" * (n // 3) + "..., a" + ")" * (n // 3)),
    "lists, never closed": lambda n: (FILE, "f(...,\n" * (n // 7)),
    "hashline, orders": lambda n: (FILE, "\n".join(f"set {k}:ab\n+x" for k in range(1, n // 14))),
    "json, objects alone": lambda n: (FILE, '{"old_string": "x"}\n' * (n // 20)),
    "json, lists in lists": lambda n: (FILE, '{"edits": ' + "[" * n),
    "whole file": lambda n: ("", rows(n)),
    "whole file, fenced": lambda n: (FILE, f"```python\n{rows(n)}```\n"),
    "blocks, many": lambda n: (rows(n // 3), "".join(block(f"x = {i}\n", f"x = -{i}\n") for i in range(n // 80))),
    "blocks, many not found": lambda n: (rows(n // 3), "".join(block(f"y == {i}\n", "z\n") for i in range(n // 80))),
    "blocks, all the same": lambda n: (rows(n // 3), block("x = 1\n", "x = 2\n") * (n // 80)),
    "blocks, chained": lambda n: ("a0\n", "".join(block(f"a{i}\n", f"a{i + 1}\n") for i in range(n // 55))),
    "block, long and found": lambda n: (rows(n // 3), block(rows(n // 3), rows(n // 3, "y = {}\n"))),
    "block, long and misquoted": lambda n: (rows(n // 3), block(rows(n // 3, "x ={}\n") + "what\n", "y\n")),
    "block, of equal lines": lambda n: ("x\n" * (n // 4), block("x\n" * (n // 4) + "y\n", "z\n")),
    "block, blank": lambda n: (FILE, block("\n" * n, "z\n")),
    "blocks never closed": lambda n: (FILE, "<<<<<<< SEARCH\nx\n" * (n // 18)),
    "blocks, dividers alone": lambda n: (FILE, "<<<<<<< SEARCH\n" + "=======\n" * (n // 8)),
    "block, dividers alone": lambda n: (FILE, block("=======\n" * (n // 8), "")),
    "block, equal lines and another": lambda n: ("a\n" * (n // 3), block("a\n" * (n // 3) + "b\n", "c\n")),
    "blocks, ends alone": lambda n: (FILE, ">>>>>>> REPLACE\n" * (n // 16)),
    "diff, many hunks": lambda n: (
        rows(n // 2),
        diff("".join(f"@@ -{i} +{i} @@\n-x = {i}\n+y = {i}\n" for i in range(1, n // 60))),
    ),
    "diff, hunks without numbers": lambda n: (
        rows(n // 2),
        diff("".join(f"@@ @@\n-x = {i}\n+y = {i}\n" for i in range(n // 60))),
    ),
    "diff, hunks not found": lambda n: (
        rows(n // 2),
        diff("".join(f"@@ @@\n-z = {i}\n+y = {i}\n" for i in range(n // 60))),
    ),
    "diff, hunks all the same": lambda n: ("x\n" * (n // 4), diff("@@ @@\n-x\n+y\n" * (n // 20))),
    "diff, hunks without quotes": lambda n: (
        rows(n // 2),
        diff("".join(f"@@ -{i},0 +{i} @@\n+y\n" for i in range(n // 60))),
    ),
    "diff, headings": lambda n: (
        rows(n // 2, "def f{}():\n  x\n"),
        diff("".join(f"@@ def f{i}(): @@\n-  x\n+  y\n" for i in range(n // 100))),
    ),
    "diff, one long hunk": lambda n: (rows(n // 3), diff(hunk(rows(n // 3), rows(n // 3, "y = {}\n")))),
    "diff, one hunk of equal lines": lambda n: ("x\n" * (n // 4), diff(hunk("x\n" * (n // 4), "y\n"))),
    "diff, equal lines and another": lambda n: ("a\n" * (n // 4), diff("@@ @@\n" + " a\n" * (n // 6) + "-b\n+c\n")),
    "diff, one hunk misquoted": lambda n: (rows(n // 3), diff(hunk(rows(n // 3, "x ={}\n") + "what\n", "y\n"))),
    "diff, many files": lambda n: (
        FILE,
        "".join(
            diff("@@ -1 +1 @@\n-x\n+y\n", names=f"diff --git a/{i} b/{i}\n--- a/{i}\n+++ b/{i}\n")
            for i in range(n // 80)
        ),
    ),
    "diff, names alone": lambda n: (FILE, "--- a/f.py\n+++ b/f.py\n" * (n // 22)),
    "diff, headers alone": lambda n: (FILE, diff("@@ -1 +1 @@\n" * (n // 12))),
    "diff, without headers": lambda n: (rows(n // 2), diff(rows(n // 4, "-x = {}\n") + rows(n // 4, "+y = {}\n"))),
    "diff, a heading of blanks": lambda n: (FILE, diff(f"@@ -1 +1 @@{' ' * n}x\n-def f0(a):\n+y\n")),
    "diff, a name of blanks": lambda n: (
        FILE,
        diff(hunk("def f0(a):\n", "y\n"), names=f"--- a/f.py{' ' * n}x\n+++ b/f.py\n"),
    ),
    "diff, a name in quotes": lambda n: (
        FILE,
        diff(hunk("def f0(a):\n", "y\n"), names=f'--- "a/{chr(92) * n}x"\n+++ b/f.py\n'),
    ),
    "diff, prose before": lambda n: (FILE, "    x | 1\n" * (n // 10) + diff(hunk("def f0(a):\n", "y\n"))),
    "diff, statistics before": lambda n: (FILE, f"x{' ' * n}| 1\n" + diff(hunk("def f0(a):\n", "y\n"))),
    "diff, context": lambda n: (rows(n // 2), diff("@@ @@\n" + rows(n // 2, " x = {}\n") + "+y\n")),
    "diff, markers": lambda n: (
        rows(n // 2),
        diff("@@ @@\n" + "".join(f" x = {i}\n ...\n" for i in range(n // 40)) + "+y\n"),
    ),
    "patch, many hunks": lambda n: (rows(n // 2), patch("".join(f"@@\n-x = {i}\n+y = {i}\n" for i in range(n // 60)))),
    "patch, scopes": lambda n: (
        rows(n // 2, "def f{}():\n  x\n"),
        patch("".join(f"@@ def f{i}():\n-  x\n+  y\n" for i in range(n // 100))),
    ),
    "patch, scopes in scopes": lambda n: (rows(n // 2, "class f{}:\n"), patch("@@ class\n" * (n // 18) + "-x\n+y\n")),
    "patch, equal lines in equal scopes": lambda n: ("a\n" * (n // 6), patch("@@ a\n-a\n+c\n" * (n // 15))),
    "patch, directives alone": lambda n: (FILE, "*** Begin Patch\n" + "*** Update File: f.py\n" * (n // 22)),
    "patch, many files": lambda n: (
        FILE,
        "*** Begin Patch\n" + "".join(f"*** Add File: {i}\n+x\n" for i in range(n // 24)) + "*** End Patch\n",
    ),
}


class _Hopeless(BaseException):
    """No `Exception`, which what is measured might catch."""


@contextlib.contextmanager
def no_longer_than(seconds_s: int) -> Iterator[None]:
    """Ends its block by `_Hopeless`.  Nothing where the system has no alarm (Windows)."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Hopeless

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def seconds(kind: Kind, n_chars: int, n_runs: int) -> float:
    """The least processor time of a reading; what can't be placed is an answer as well."""
    original, update = kind(n_chars)
    request = ApplyRequest(original, update, path="f.py")
    times = []
    for _ in range(n_runs):
        began = time.process_time()
        with contextlib.suppress(ApplyError):
            read_edit(request, "python")
        times.append(time.process_time() - began)
    return min(times)


def growth(kind: Kind) -> tuple[int, float, float]:
    """The first length measured, its seconds, and how many times as long three doublings of it take; 1 where even the
    longest takes no time."""
    n_chars, first = FIRST_CHARS, 0.0
    try:
        with no_longer_than(HOPELESS_S):
            while (first := seconds(kind, n_chars, N_RUNS)) < MEASURABLE_S:
                n_chars *= 2
                if n_chars > LAST_CHARS:
                    return n_chars, first, 1.0
            return n_chars, first, seconds(kind, 8 * n_chars, N_RUNS) / first
    except _Hopeless:
        return n_chars, first, math.inf


@pytest.mark.parametrize("name", KINDS)
def test_reading_takes_time_in_proportion(name: str) -> None:
    for _ in range(N_TRIES):
        n_chars, first, times = growth(KINDS[name])
        if times <= MOST_A_DOUBLING**3:
            return
    pytest.fail(f"{name}: {first * 1000:.1f} ms at {n_chars} characters, {times:.0f} times that at eight times as many")
