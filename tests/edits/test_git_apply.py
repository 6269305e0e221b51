"""Patches over several files as `git apply` applies them: the same bytes and modes, or a typed error.

Each case is a tree of files, another one that random edits make of it, and git's diff between the two.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from apply_service.errors import ApplyError, MalformedEdit
from apply_service.formats.patch import FailedChange, apply_changes
from apply_service.pipeline import apply
from apply_service.target import Runtime
from apply_service.types import ApplyRequest
from tests.seeds import draw_seed

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

WORDS = ("", "", "a = 1", "b = 2", "    return a", "}", "\tdone();", "@@ -1,2 +1,2 @@", "--- a/x", "+++ b/x", "- item")
ODD = (
    "-- ",
    "\\ No newline at end of file",
    "diff --git a/x b/x",
    "caf\u00e9\x0c",
    "x\u2028\x85",
    "  ",
    "a\rb",
    "\ufeffz",
)
NAMES = ("a.py", "b.py", "dir/c.txt", "dir/d e.md", "dir/sub/\u00fc.txt", 'q"uote.py', "tab\tbed", "Makefile")
OPTIONS = ("-U0", "-U1", "-U3", "-U8"), ("", "-M", "-C", "-C -C", "-C20% -C20%", "-M -B"), ("", "--patience")
MODES = {0o644: "100644", 0o755: "100755"}


@dataclass(frozen=True)
class Kept:
    """A file of a tree."""

    text: str
    mode: int = 0o644


Tree = dict[str, Kept]


def draw_text(dice: random.Random) -> str:
    end = dice.choice(("\n", "\n", "\r\n", "mixed"))
    lines = [dice.choice(WORDS if dice.random() < 0.8 else ODD) for _ in range(dice.choice((0, 1, 2, 6, 14, 30)))]
    ends = [dice.choice(("\n", "\r\n")) if end == "mixed" else end for _ in lines]
    if ends and dice.random() < 0.3:
        ends[-1] = ""
    mark = "\ufeff" if lines and dice.random() < 0.07 else ""
    return mark + "".join(line + end for line, end in zip(lines, ends, strict=True))


def edited(text: str, dice: random.Random) -> str:
    lines = text.splitlines(keepends=True) if "\x0c" not in text and "\x85" not in text else text.split("\n")
    lines = [line if line.endswith("\n") else line + "\n" for line in lines[:-1]] + lines[-1:]
    for _ in range(dice.randint(1, 4)):
        at = dice.randint(0, len(lines))
        match dice.randrange(6):
            case 0 | 1:
                new = draw_text(dice)[:40].removeprefix("\ufeff").rstrip("\r\n")
                lines.insert(at, new + dice.choice(("\n", "\r\n")))
            case 2 if at < len(lines):
                del lines[at : at + dice.randint(1, 3)]
            case 3 if at < len(lines):
                lines[at] = f"changed {dice.randrange(99)}" + lines[at][len(lines[at].rstrip("\r\n")) :]
            case 4 if at < len(lines):
                lines[at : at + 3] = [line.replace("\r\n", "\n") for line in lines[at : at + 3]]
            case _:
                lines = [*lines[:-1], lines[-1].rstrip("\r\n") + dice.choice(("", "\n"))] if lines else lines
    changed = "".join(lines)
    if dice.random() < 0.04:
        return changed.removeprefix("\ufeff") if changed.startswith("\ufeff") else "\ufeff" + changed
    return changed


def draw_tree(dice: random.Random) -> Tree:
    names = dice.sample(NAMES, dice.randint(1, len(NAMES)))
    return {name: Kept(draw_text(dice), dice.choice((0o644, 0o644, 0o755))) for name in names}


def draw_change(before: Tree, dice: random.Random) -> Tree:
    after = dict(before)
    for _ in range(dice.randint(1, 5)):
        names, free = sorted(after), [name for name in (*NAMES, "new/f.py", "new/g.py") if name not in after]
        name = dice.choice(names) if names else ""
        match dice.randrange(8) if names else 3:
            case 0 | 1:
                after[name] = Kept(edited(after[name].text, dice), after[name].mode)
            case 2:
                after[name] = Kept(after[name].text, dice.choice((0o644, 0o755)))
            case 3 if free:
                after[dice.choice(free)] = Kept(draw_text(dice), dice.choice((0o644, 0o755)))
            case 4:
                del after[name]
            case 5 if free:
                moved = after.pop(name)
                text = edited(moved.text, dice) if dice.random() < 0.5 else moved.text
                after[dice.choice(free)] = Kept(text, moved.mode)
            case 6 if free:
                copied = after[name]
                text = edited(copied.text, dice) if dice.random() < 0.5 else copied.text
                after[dice.choice(free)] = Kept(text, copied.mode)
            case 7 if len(names) > 1:
                other = dice.choice([one for one in names if one != name])
                after[name], after[other] = after[other], after[name]
            case _:
                pass
    return after


class Repository:
    """A folder with git's objects, to have diffs made and applied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
        self._environment = {**os.environ, **own}
        self._git("init", "--quiet")

    def diff(self, before: Tree, after: Tree, options: str) -> str:
        trees = [self._tree(tree) for tree in (before, after)]
        return self._git("diff-tree", "-p", "--text", *options.split(), *trees).decode()

    def applied(self, before: Tree, patch: str) -> Tree | None:
        """What `git apply` makes of the tree; None where it refuses."""
        self._write(before)
        done = subprocess.run(
            ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"],
            cwd=self._folder,
            input=patch.encode(),
            env=self._environment,
            capture_output=True,
            check=False,
        )
        return None if done.returncode else self._read()

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(
            ["git", *arguments], cwd=self._folder, env=self._environment, capture_output=True, check=True
        ).stdout

    def _tree(self, tree: Tree) -> str:
        self._write(tree)
        self._git("add", "--all")
        return self._git("write-tree").decode().strip()

    def _write(self, tree: Tree) -> None:
        for entry in self._folder.iterdir():
            if entry.name != ".git":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for name, kept in tree.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(kept.text.encode())
            path.chmod(kept.mode)

    def _read(self) -> Tree:
        return {
            str(path.relative_to(self._folder)): Kept(path.read_bytes().decode(), path.stat().st_mode & 0o755)
            for path in self._folder.rglob("*")
            if path.is_file() and ".git" not in path.relative_to(self._folder).parts
        }


def applied_here(before: Tree, patch: str) -> Tree | ApplyError:
    """What our own reading of the patch makes of the tree."""
    after, written = dict(before), {}
    modes = {number: mode for mode, number in MODES.items()}
    try:
        results = apply_changes(patch, {name: kept.text for name, kept in before.items()})
    except ApplyError as error:
        return error
    for result in results:
        if isinstance(result, FailedChange):
            return result.error
        if result.source is not None and result.action in ("delete", "rename"):
            del after[result.source]
        if result.path is not None:
            mode = 0o644 if result.source is None else before[result.source].mode
            written[result.path] = Kept(
                result.text, mode if result.change.new_mode is None else modes[result.change.new_mode]
            )
    return after | written


def applied_alone(name: str, before: Kept, patch: str) -> str | ApplyError:
    """What an edit of one file makes of it, whose update is the whole patch."""
    is_marked = before.text.startswith("\ufeff")
    encoding = "utf-8-sig" if is_marked else "utf-8"
    request = ApplyRequest(before.text.removeprefix("\ufeff"), patch, path=name, encoding=encoding, strategy="exact")
    try:
        result = apply(request, Runtime(load=no_target))
    except ApplyError as error:
        return error
    return "\ufeff" * is_marked + result.merged_code


def no_target(name: str) -> NoReturn:
    raise AssertionError(name)


@pytest.mark.parametrize("n_cases", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_patches_are_applied_as_git_applies_them(tmp_path: Path, n_cases: int) -> None:
    dice, repository = random.Random(draw_seed()), Repository(tmp_path)
    ends: Counter[str] = Counter()
    for _ in range(n_cases):
        before = draw_tree(dice)
        after = draw_change(before, dice)
        options = " ".join(dice.choice(group) for group in OPTIONS)
        patch = repository.diff(before, after, options)
        wanted = repository.applied(before, patch) if patch else None
        if wanted is None:
            ends["nothing to apply" if not patch else "git refuses"] += 1
            continue
        got = applied_here(before, patch)
        if isinstance(got, ApplyError):
            ends[f"refused: {got.code}"] += 1
            continue
        # Without context git may take a last line without its newline for the equal one above it: then what the diff is
        # of counts.
        assert got in (wanted, after), f"{options}\n{before}\n{patch!r}"
        ends["the same" if got == wanted else "git goes astray"] += 1
        for name in before.keys() & after.keys():
            alone = applied_alone(name, before[name], patch) if f" b/{name}\n" in patch else None
            if isinstance(alone, str) and f"rename from {name}\n" not in patch:
                ends["the same, alone"] += 1
                assert alone == got[name].text, f"{name}: {options}\n{before}\n{patch!r}"
    print(dict(ends))
    assert ends["the same"] > 0.7 * n_cases


def test_a_second_line_that_begins_as_the_mark_does_not_stand_in_for_it() -> None:
    patch = "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1 @@\n-\ufeff}\n \ufeffz\n"
    got = applied_here({"f.py": Kept("\ufeff}\n\ufeffz\n", 0o644)}, patch)
    assert isinstance(got, MalformedEdit)
    assert "byte-order mark" in str(got)
