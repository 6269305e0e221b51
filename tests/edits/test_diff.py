"""git takes our diffs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apply_service.text.diff import FileNames, change_diff_text, unified_diff_text

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="git is not installed")
LINE = st.sampled_from(["a", "b", "", "\tc", "é 😀", "- x", "+ y", "@@ -1 +1 @@", "d\r", "e\x0cf\u2028"])
TEXT = st.builds(
    lambda lines, end: "\n".join(lines) + end, st.lists(LINE, min_size=1, max_size=14), st.sampled_from(["", "\n"])
)


def git_apply(folder: Path, path: str, original: str, diff: str) -> bytes:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if original:
        target.write_bytes(original.encode())
    assert GIT is not None
    done = subprocess.run(
        [GIT, "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "--unidiff-zero", "-"],
        input=diff.encode(),
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode() + diff
    return target.read_bytes()


@needs_git
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, TEXT)
def test_git_applies_any_diff(tmp_path: Path, original: str, merged: str) -> None:
    diff = unified_diff_text(original, merged, "some/file.txt")
    if original == merged or merged == "":
        assert bool(diff) == (original != merged)
        return
    assert git_apply(tmp_path, "some/file.txt", original, diff) == merged.encode()


@needs_git
@pytest.mark.parametrize("path", ["my file.txt", "é.txt", 'quo"te.txt', "tab\there.txt", "back\\slash.txt"])
def test_git_reads_any_path(tmp_path: Path, path: str) -> None:
    assert git_apply(tmp_path, path, "a\n", unified_diff_text("a\n", "b\n", path)) == b"b\n"


@needs_git
def test_an_emptied_file_stays(tmp_path: Path) -> None:
    assert git_apply(tmp_path, "f", "a\nb\n", unified_diff_text("a\nb\n", "", "f")) == b""


def test_layout() -> None:
    original = "".join(f"{i}\n" for i in range(1, 21))
    merged = original.replace("2\n", "two\n", 1).replace("13\n", "").replace("20\n", "20")
    assert unified_diff_text(original, merged, "dir/n.txt") == (
        "diff --git a/dir/n.txt b/dir/n.txt\n--- a/dir/n.txt\n+++ b/dir/n.txt\n"
        "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n"
        "@@ -10,11 +10,10 @@\n 10\n 11\n 12\n-13\n 14\n 15\n 16\n 17\n 18\n 19\n-20\n+20\n"
        "\\ No newline at end of file\n"
    )


def test_a_new_file() -> None:
    assert unified_diff_text("", "a\n", "/n.txt") == (
        "diff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+a\n"
    )


@needs_git
def test_git_takes_a_change_of_names_and_modes(tmp_path: Path) -> None:
    before = {"gone.py": "x\ny", "old name.py": "".join(f"{i}\n" for i in range(9)), "run.sh": "echo\n", "a.py": "1\n"}
    for name, text in before.items():
        (tmp_path / name).write_bytes(text.encode())
    moved = before["old name.py"].replace("7\n", "seven\n")
    diff = "".join(
        change_diff_text(before.get(names.source or "", ""), after, names)
        for names, after in (
            (FileNames("gone.py", None), ""),
            (FileNames("old name.py", 'sub/"new".py'), moved),
            (FileNames("run.sh", "run.sh", new_mode="100755"), before["run.sh"]),
            (FileNames("a.py", "b.py", is_copy=True), "1\n"),
            (FileNames(None, "new.sh", new_mode="100755"), "n\n"),
        )
    )
    assert GIT is not None
    done = subprocess.run([GIT, "apply", "-"], input=diff.encode(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + diff
    after = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == {'sub/"new".py': moved, "run.sh": "echo\n", "a.py": "1\n", "b.py": "1\n", "new.sh": "n\n"}
    assert (tmp_path / "run.sh").stat().st_mode & 0o100
    assert (tmp_path / "new.sh").stat().st_mode & 0o100
