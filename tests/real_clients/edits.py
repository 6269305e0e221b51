"""Twenty edits of files that are on this machine: of the standard library, and of the installed npm packages.

What is right is known beforehand: the change is made first, and the edit is written from it.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from apply_service.text.diff import unified_diff_text

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
MARKER = "# ... existing code ...\n"


class Edit(NamedTuple):
    name: str
    path: str
    original: str
    update: str
    merged: str


def functions(text: str) -> list[tuple[int, int, int]]:
    """First line, last statement and end (0-based) of each top-level function of 6 to 40 lines whose name is alone."""
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    names = [node.name for node in nodes]
    found = [(n.lineno - 1, n.body[-1].lineno - 1, n.end_lineno or 0) for n in nodes if names.count(n.name) == 1]
    return [rows for rows in found if 6 <= rows[2] - rows[0] <= 40]


def read(name: str) -> list[str]:
    return (LIBRARY / name).read_text(encoding="utf-8").splitlines(keepends=True)


def snippet(name: str, label: str, *, nth: int = 0, line: str = "{0}assert True  # checked\n") -> Edit:
    """A function with one more line above its last statement, between markers."""
    old = read(name)
    start, row, end = functions("".join(old))[nth]
    indent = old[row][: len(old[row]) - len(old[row].lstrip())]
    new = [*old[:row], line.format(indent), *old[row:]]
    update = "".join((MARKER, *new[start : end + 1], MARKER))
    return Edit(label, name, "".join(old), update, "".join(new))


def unique_rows(lines: list[str]) -> list[int]:
    """The rows of lines that are there once and hold a word."""
    return [row for row, text in enumerate(lines) if lines.count(text) == 1 and len(text.strip()) > 12]


def replaced(
    name: str, label: str, n_blocks: int, *, deletes: bool = False, text: list[str] | None = None, note: str = "#"
) -> Edit:
    """Search/replace blocks that change or delete `n_blocks` lines."""
    old = read(name) if text is None else text
    rows = unique_rows(old)
    if deletes:  # comments, so that what is left still parses
        rows = [row for row in rows if old[row].lstrip().startswith(note)]
    rows = [rows[len(rows) * (k + 1) // (n_blocks + 1)] for k in range(n_blocks)]
    new, blocks = list(old), list[str]()
    for row in rows:
        line = old[row].rstrip("\r\n")
        end = old[row][len(line) :]
        change = "" if deletes else f"{line}  {note} changed{end}"
        new[row] = change
        blocks.append(
            f"<<<<<<< SEARCH\n{line}\n=======\n{change.rstrip()}{'' if deletes else chr(10)}>>>>>>> REPLACE\n"
        )
    return Edit(label, name, "".join(old), "\n".join(blocks), "".join(new))


def diffed(name: str, label: str, n_hunks: int, *, adds: str = "# added\n", deletes: int = 0) -> Edit:
    """A unified diff that adds a line at `n_hunks` places, and deletes so many lines behind each."""
    old = read(name)
    new = list[str]()
    places = [len(old) * (k + 1) // (n_hunks + 1) for k in range(n_hunks)]
    if deletes:  # comments, so that what is left is still Python
        rows = [row for row, line in enumerate(old[:-1]) if line.startswith("#") and old[row + 1].startswith("#")]
        places = rows[:: max(1, len(rows) // n_hunks)][:n_hunks]
    for row, line in enumerate(old):
        new += [adds] if row in places else []
        new += [] if any(0 <= row - place < deletes for place in places) else [line]
    original, merged = "".join(old), "".join(new)
    return Edit(label, name, original, unified_diff_text(original, merged, name), merged)


def with_ends(edit: Edit, end: str = "\r\n", *, mark: str = "") -> Edit:
    """The same edit of the file with other line ends, or a byte-order mark; the update is as it was."""
    original, merged = (mark + text.replace("\n", end) for text in (edit.original, edit.merged))
    return edit._replace(original=original, merged=merged)


def all_edits(npm: Path) -> Iterator[Edit]:
    """`npm`: the folder of the installed npm packages."""
    yield snippet("textwrap.py", "a function")
    yield snippet("shutil.py", "another function", nth=2)
    yield snippet("posixpath.py", "unicode", nth=1, line='{0}note = "naïve 漢字 😀 \\u2028"\n')
    yield with_ends(snippet("ntpath.py", "CRLF, a function"))
    yield with_ends(snippet("glob.py", "byte-order mark, a function"), "\n", mark="\ufeff")
    yield with_ends(replaced("calendar.py", "byte-order mark and CRLF, blocks", 2), mark="\ufeff")
    yield with_ends(diffed("csv.py", "CRLF, a diff", 2))
    yield replaced("argparse.py", "three blocks", 3)
    yield replaced("typing.py", "five blocks", 5)
    yield replaced("ast.py", "three lines deleted", 3, deletes=True)
    yield diffed("configparser.py", "a diff of three hunks", 3)
    yield diffed("inspect.py", "a diff that deletes", 3, deletes=2)
    whole = replaced("fnmatch.py", "no line break at the end", 1)
    yield whole._replace(original=whole.original.rstrip("\n"), merged=whole.merged.rstrip("\n"))
    small = snippet("bisect.py", "whole file")
    yield small._replace(update=small.merged)
    yield replaced("turtle.py", "140k characters, blocks", 2)
    yield replaced("_pydecimal.py", "220k characters, blocks", 3)
    yield with_ends(diffed("_pydecimal.py", "220k characters, CRLF, a diff", 3))
    yield snippet("_pydecimal.py", "220k characters, a function", nth=5)
    for name, label in (("openai/README.md", "Markdown with fences"), ("openai/client.mjs", "JavaScript")):
        lines = (npm / name).read_text(encoding="utf-8").splitlines(keepends=True)
        yield replaced(name, label, 2, text=lines, note="//")


def slow_edit() -> Edit:
    """One that a model takes a second and more for: where the line goes is a guess, so it writes the whole file."""
    text = "".join(f"def function_{i}(x):\n    y = x - {i}\n    return y\n\n\n" for i in range(90))
    update = "<<<<<<< SEARCH\n    y = x + 7\n=======\n    y = x - 7\n>>>>>>> REPLACE\n"
    return Edit("slow", "slow.py", text, update, text)
