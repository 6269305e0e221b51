"""Whole patches over several files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.formats.patch import FailedChange, PatchedFile, apply_changes
from tests.edits.scripts import apply_patch

FILES = {"a.py": "x\r\ny\r\n", "dir/b.py": "one\ntwo\nthree\n", "old.py": "gone\n"}

V4A = """\
*** Begin Patch
*** Update File: a.py
@@
 x
-y
+Y
*** Add File: dir/new.py
+fresh
*** Delete File: old.py
*** Update File: dir/b.py
*** Move to: dir/c.py
@@
-two
+2
*** End Patch
"""

DIFF = """\
diff --git a/a.py b/a.py
old mode 100644
new mode 100755
index 1111111..2222222
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
 x
-y
+Y
diff --git a/dir/new.py b/dir/new.py
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/dir/new.py
@@ -0,0 +1 @@
+fresh
diff --git a/old.py b/old.py
deleted file mode 100644
index 4444444..0000000
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/dir/b.py b/dir/c.py
similarity index 66%
rename from dir/b.py
rename to dir/c.py
index 5555555..6666666 100644
--- a/dir/b.py
+++ b/dir/c.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
"""


def outcome(patched: tuple[PatchedFile, ...]) -> list[tuple[str, str | None, str | None, str]]:
    return [(p.change.action, p.source, p.path, p.text) for p in patched]


@pytest.mark.parametrize("patch", [V4A, DIFF, f"```diff\n{DIFF}```\n"])
def test_all_files_are_patched_with_their_own_line_ends(patch: str) -> None:
    assert sorted(outcome(apply_patch(patch, FILES))) == [
        ("create", None, "dir/new.py", "fresh\n"),
        ("delete", "old.py", None, ""),
        ("modify", "a.py", "a.py", "x\r\nY\r\n"),
        ("rename", "dir/b.py", "dir/c.py", "one\n2\nthree\n"),
    ]


def test_modes_are_told() -> None:
    changed = apply_patch(DIFF, FILES)[0].change
    assert (changed.old_mode, changed.new_mode) == ("100644", "100755")
    mode_only = "diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n"
    (patched,) = apply_patch(mode_only, FILES)
    assert patched.change.action == "mode"
    assert patched.text == FILES["a.py"]


def test_a_pure_rename_and_a_copy() -> None:
    rename = "diff --git a/a.py b/z.py\nsimilarity index 100%\nrename from a.py\nrename to z.py\n"
    assert outcome(apply_patch(rename, FILES)) == [("rename", "a.py", "z.py", FILES["a.py"])]
    copy = "diff --git a/a.py b/z.py\nsimilarity index 100%\ncopy from a.py\ncopy to z.py\n"
    (copied,) = apply_patch(copy, FILES)
    assert copied.change.is_copy
    assert copied.path == "z.py"


def test_the_same_file_twice() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+z\n*** Update File: a.py\n@@\n-y\n+w\n*** End Patch"
    assert outcome(apply_patch(patch, FILES)) == [("modify", "a.py", "a.py", "z\r\nw\r\n")]


@pytest.mark.parametrize(
    "sections",
    [
        ["Delete File: a.py", "Add File: a.py\n+new"],
        ["Add File: n.py\n+x", "Update File: n.py\n@@\n-x\n+y"],
        ["Update File: a.py\n*** Move to: z.py\n@@\n-x\n+1", "Update File: z.py\n@@\n-y\n+2"],
    ],
)
def test_a_section_that_follows_from_another_is_refused(sections: list[str]) -> None:
    patch = "*** Begin Patch\n" + "".join(f"*** {section}\n" for section in sections) + "*** End Patch\n"
    with pytest.raises(MalformedEdit):
        apply_patch(patch, FILES)


def test_a_copy_is_of_the_file_before_the_patch() -> None:
    copy = "diff --git a/a.py b/z.py\nsimilarity index 100%\ncopy from a.py\ncopy to z.py\n"
    change = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x\n+1\n y\n"
    first, second = apply_patch(change + copy, FILES)
    assert (first.action, first.source, first.path, first.text) == ("modify", "a.py", "a.py", "1\r\ny\r\n")
    assert (second.action, second.source, second.path, second.text) == ("copy", "a.py", "z.py", "x\r\ny\r\n")


RENAME = "diff --git a/{0} b/{1}\nsimilarity index 100%\nrename from {0}\nrename to {1}\n"


def test_two_files_swap_their_names() -> None:
    patch = RENAME.format("a.py", "old.py") + RENAME.format("old.py", "a.py")
    assert outcome(apply_patch(patch, FILES)) == [
        ("rename", "a.py", "old.py", FILES["a.py"]),
        ("rename", "old.py", "a.py", FILES["old.py"]),
    ]


def test_a_name_that_becomes_free_is_taken_by_an_earlier_section() -> None:
    new = "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+new\n"
    created, moved = apply_patch(new + RENAME.format("a.py", "z.py"), FILES)
    assert (created.action, created.path, created.text) == ("create", "a.py", "new\n")
    assert (moved.action, moved.source, moved.path, moved.text) == ("rename", "a.py", "z.py", FILES["a.py"])


@pytest.mark.parametrize(
    ("hunk", "before", "after"),
    [
        ("@@ -0,0 +1,2 @@\n+a\r\n+b\n", "", "a\r\nb\n"),
        ("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n", "a\r\nb\r\n", "a\r\nb\n"),
        ("@@ -1,2 +1,3 @@\n a\r\n+x\r\n b\n", "a\r\nb\n", "a\r\nx\r\nb\n"),
        ("@@ -1,2 +1,3 @@\n a\n+x\n b\n", "a\r\nb\r\n", "a\r\nx\r\nb\r\n"),
        ("@@ -1,2 +1,2 @@\n-\ufeffa\n+\ufeffA\n b\n", "\ufeffa\nb\n", "\ufeffA\nb\n"),
        ("@@ -1,2 +1,2 @@\n \ufeffa\n-b\n+B\n", "\ufeffa\nb\n", "\ufeffa\nB\n"),
        ("@@ -1,2 +1,2 @@\n-a\n+\ufeffa\n b\n", "a\nb\n", "\ufeffa\nb\n"),
    ],
    ids=["new", "one end changed", "mixed", "an LF diff of a CRLF file", "mark", "mark beside", "mark added"],
)
def test_line_ends_and_marks_are_the_patch_s_where_it_fits_to_the_byte(hunk: str, before: str, after: str) -> None:
    names = "--- a/f\n+++ b/f\n" if before else "--- /dev/null\n+++ b/f\n"
    (patched,) = apply_patch(f"diff --git a/f b/f\n{names}{hunk}", {"f": before} if before else {})
    assert (patched.text, patched.prediction.certainty) == (after, "certain")


def test_a_patch_that_takes_the_byte_order_mark_away_is_refused() -> None:
    with pytest.raises(MalformedEdit, match="byte-order mark"):
        apply_patch("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\ufeffa\n+b\n", {"f": "\ufeffa\n"})


def test_each_file_is_told_apart_where_one_fails() -> None:
    patch = V4A.replace("-y\n+Y", "-why\n+Y").replace("*** Add", "*** Update File: a.py\n@@\n-x\n+z\n*** Add", 1)
    results = apply_changes(patch, FILES)
    assert [type(result).__name__ for result in results] == ["FailedChange"] + ["PatchedFile"] * 3
    assert isinstance(results[0], FailedChange)
    assert isinstance(results[0].error, NeedsMoreContext)
    assert results[0].change.path == "a.py"


def test_quoted_paths() -> None:
    patch = '--- "a/caf\\303\\251 \\"1\\".py"\n+++ "b/caf\\303\\251 \\"1\\".py"\n@@ -1 +1 @@\n-x\n+y\n'
    assert outcome(apply_patch(patch, {'café "1".py': "x\n"})) == [("modify", 'café "1".py', 'café "1".py', "y\n")]


@pytest.mark.parametrize(
    ("patch", "error", "value"),
    [
        (V4A.replace("-two", "-deux").replace("+2", "+2\n+3"), NeedsMoreContext, None),
        (V4A.replace("a.py", "missing.py"), MalformedEdit, "missing.py"),
        (V4A.replace("dir/new.py", "a.py"), MalformedEdit, "a.py"),
        (V4A.replace("dir/c.py", "a.py"), MalformedEdit, "a.py"),
        (V4A + "and more;\n", MalformedEdit, "and more;"),
        ("", MalformedEdit, None),
    ],
)
def test_all_or_nothing(patch: str, error: type[Exception], value: str | None) -> None:
    files = dict(FILES)
    with pytest.raises(error) as refused:
        apply_patch(patch, files)
    assert files == FILES
    if value is not None:
        assert refused.value.value == value  # type: ignore[attr-defined]


def test_a_repeated_context_is_refused() -> None:
    with pytest.raises(NeedsMoreContext):
        apply_patch("--- a/f\n+++ b/f\n@@ @@\n-x\n+y\n", {"f": "x\nx\n"})


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_patches_that_git_writes(tmp_path: Path) -> None:
    """A real commit: changes, a new file, a deletion, a rename, a mode, odd names, no final newline."""
    before = {
        "src/app.py": "import os\n\n\ndef f():\n    return 1\n",
        "old name.txt": "".join(f"line {i}\n" for i in range(20)),
        "gone.txt": "x\ny",
        "crlf.txt": "a\r\nb\r\nc\r\n",
        "tab\there.txt": "a\n",
    }
    after = {
        "src/app.py": "import os\nimport sys\n\n\ndef f():\n    return 2",
        "new/näme.txt": "".join(f"line {i}\n" for i in range(20)).replace("line 7\n", ""),
        "crlf.txt": "a\r\nB\r\nc\r\n",
        "tab\there.txt": "b\n",
        "fresh.txt": "new\nfile",
    }
    git(tmp_path, "init", "-q")
    write(tmp_path, before)
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "one")
    for name in before:
        (tmp_path / name).unlink()
    write(tmp_path, after)
    git(tmp_path, "add", "-A")
    patch = git(tmp_path, "diff", "--cached", "-M")
    files = dict(before)
    for patched in apply_patch(patch, before):
        if patched.source is not None:
            del files[patched.source]
        if patched.path is not None:
            files[patched.path] = patched.text
        assert patched.prediction.certainty == "certain"
    assert files == after


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-c", "core.autocrlf=false", *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


def test_each_file_is_read_from_its_own_part_of_the_patch() -> None:
    """Else the time for one file would grow with the number of files."""
    names = [f"f{i}.py" for i in range(50)]
    diff = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1,2 +1,2 @@\n a\n-b\n+{name}\n" for name in names)
    v4a = "*** Begin Patch\n" + "".join(f"*** Update File: {name}\n@@\n a\n-b\n+{name}\n" for name in names)
    for patch in (diff, v4a + "*** End Patch\n"):
        patched = apply_patch(patch, dict.fromkeys(names, "a\nb\n"))
        assert [one.text for one in patched] == [f"a\n{name}\n" for name in names]
        for one in patched:
            assert one.update in patch
            assert one.update.count("\n") <= 7
            assert len(one.prediction.update_lines) == len(one.update.split("\n"))
            taken = [op for op in one.prediction.ops if op.kind == "take" and op.update_line is not None]
            assert all(one.update.split("\n")[op.update_line or 0] == f"+{op.text}" for op in taken)


def test_a_diff_that_deletes_a_file_without_its_lines_is_refused() -> None:
    header = "diff --git a/a.py b/a.py\ndeleted file mode 100644\n"
    (refused,) = apply_changes(header, {"a.py": "x = 1\n"})
    assert isinstance(refused, FailedChange)
    assert refused.error.code == "malformed_edit"
    (gone,) = apply_changes(header + "index e69de29..0000000\n", {"a.py": ""})
    assert isinstance(gone, PatchedFile)
    assert gone.path is None


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_deleted_file_that_ends_otherwise_than_in_the_diff_is_doubted(end: str) -> None:
    note = "\\ No newline at end of file\n"
    header = "diff --git a/a.py b/a.py\ndeleted file mode 100644\n--- a/a.py\n+++ /dev/null\n"
    update = header + "@@ -1,2 +0,0 @@\n-x = 1\n-y = 2\n"
    for said in ("", note):
        (gone,) = apply_changes(update + said, {"a.py": f"x = 1\ny = 2{end}"})
        assert isinstance(gone, PatchedFile)
        assert gone.prediction.determined is (bool(said) is not bool(end))


@pytest.mark.parametrize(
    ("header", "names", "wanted"),
    [
        ("diff --git a/sp  b/sp \nindex 1..2 100644\n", "--- a/sp \t\n+++ b/sp \t\n", ("modify", "sp ", "sp ", "b\n")),
        ("diff --git a/sp  b/sp \n", "--- a/sp \n+++ b/sp \n", ("modify", "sp ", "sp ", "b\n")),
        ("", "--- a/sp \t\n+++ b/sp \t\n", ("modify", "sp ", "sp ", "b\n")),
        ("", "--- sp \t2024-01-01 10:00:00\n+++ sp \t2024-01-01 10:00:01\n", ("modify", "sp ", "sp ", "b\n")),
        ("", "--- a/sp\t2024-01-01 10:00:00\n+++ b/sp\t2024-01-01 10:00:01\n", ("modify", "sp", "sp", "b\n")),
    ],
)
def test_a_name_ends_where_its_tab_says(header: str, names: str, wanted: tuple[str, ...]) -> None:
    assert outcome(apply_patch(f"{header}{names}@@ -1 +1 @@\n-a\n+b\n", {"sp": "a\n", "sp ": "a\n"})) == [wanted]


@pytest.mark.parametrize(
    ("hunk", "before", "after"),
    [
        ("@@ -1 +1,2 @@\n w\r\n+x\r", "w\r\n", "w\r\nx\r\n"),
        ("@@ -1 +1,2 @@\n w\n+x\r", "w\r\n", "w\r\nx\r\n"),
        ("@@ -1,2 +1 @@\n w\r\n-z\r", "w\r\nz\r\n", "w\r\n"),
    ],
)
def test_a_patch_cut_within_its_last_line_end(hunk: str, before: str, after: str) -> None:
    (patched,) = apply_patch(f"--- a/n\n+++ b/n\n{hunk}", {"n": before})
    assert patched.text == after


@pytest.mark.parametrize(
    ("names", "files", "changed"),
    [
        ("--- a/t\n+++ b/t2\n", ["t"], "t"),
        ("--- a/t\n+++ b/t2\n", ["t", "t2"], "t"),
        ("--- a/t\n+++ b/t2\n", ["t2"], None),
        ("--- a/t\n+++ b/u\n", ["t", "u"], "u"),
        ("--- a/t\n+++ b/u\n", ["t"], None),
        ("--- a/n.orig\n+++ b/n\n", ["n", "n.orig"], "n"),
        ("--- a/n.orig\n+++ b/n\n", ["n.orig"], None),
        ("--- n\n+++ n.new\n", ["n"], "n"),
    ],
)
def test_two_names_alone_move_no_file(names: str, files: list[str], changed: str | None) -> None:
    """As `git apply` has it."""
    (result,) = apply_changes(f"{names}@@ -1 +1 @@\n-a\n+b\n", dict.fromkeys(files, "a\n"))
    assert (outcome((result,)) if isinstance(result, PatchedFile) else None) == (
        [("modify", changed, changed, "b\n")] if changed else None
    )


MOVE = "diff --git a/m b/k\nsimilarity index 90%\nrename from m\nrename to k\n"


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/n\n+++ b/n\n@@ -1,2 +1 @@\n-a\ndiff --git a/n b/n\n-b\n+c\n",
        "--- a/n\n+++ b/n\n@@ -1 +1 @@\n-a\n+q\ndiff --git a/m b/m\nindex 1..2 100644\n-b\n+c\n",
        "diff --git a/m b/m\nold mode 100644\nnew mode 100755\n-b\n+c\n",
        f"{MOVE}-b\n+c\n",
        f"{MOVE}     b\n+c\n",
        "--- /dev/null\n+++ b/k\n+a\n@@ -0,0 +1 @@\n+b\n",
        "--- a/n\n+++ b/n\n-a\n+x\n@@ -2 +2 @@\n-b\n+y\n",
    ],
)
def test_signed_lines_below_a_header_alone_are_refused(patch: str) -> None:
    with pytest.raises(MalformedEdit, match="belongs to no hunk"):
        apply_changes(patch, {"n": "a\nb\n", "m": "b\n"})


def test_a_mail_s_signature_below_a_move_is_no_hunk() -> None:
    assert outcome(apply_patch(f"{MOVE}-- \n2.39.5\n", {"m": "b\n"})) == [("rename", "m", "k", "b\n")]


@pytest.mark.parametrize("line", ["-b", " b"])
def test_a_new_file_with_old_lines_is_refused(line: str) -> None:
    (failed,) = apply_changes(f"--- /dev/null\n+++ b/n\n@@ -1 +1,2 @@\n+a\n{line}\n+c\n", {})
    assert isinstance(failed, FailedChange)
    assert failed.error.code == "malformed_edit"


@pytest.mark.parametrize("modes", ["old mode 100644\nnew mode 10075\n", "old mode 100755\n", "new file mode 1007\n"])
def test_damaged_modes_are_refused(modes: str) -> None:
    with pytest.raises(MalformedEdit, match="mode"):
        apply_changes(f"diff --git a/n b/n\n{modes}", {"n": "a\n"})


@pytest.mark.parametrize("names", ["--- a/n\n+++ b/nn\n", "new file mode 100644\n--- /dev/null\n+++ b/nn\n"])
def test_a_header_that_names_two_files_is_refused(names: str) -> None:
    with pytest.raises(MalformedEdit, match="names two files"):
        apply_changes(f"diff --git a/n b/n\n{names}@@ -1 +1 @@\n-a\n+b\n", {"n": "a\n"})
