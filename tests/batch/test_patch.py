"""One patch over several files: what each becomes, and what the checks say."""

import pytest

from apply_service.batch import PatchRequest, PatchSource
from apply_service.batch.run import apply_patch_request
from apply_service.errors import CheckFailed, InvalidField, MalformedEdit, NeedsMoreContext, UnsupportedParameter
from tests.edits.scripts import apply_patch
from tests.edits.test_patch import DIFF, FILES, V4A

SOURCES = tuple(PatchSource(path, text) for path, text in FILES.items())


@pytest.mark.parametrize("patch", [V4A, DIFF])
def test_every_file_is_told(patch: str) -> None:
    result = apply_patch_request(PatchRequest(patch, SOURCES))
    assert result.status == "applied"
    items = {item.path: item for item in result.items}
    assert {path: (item.action, item.source) for path, item in items.items()} == {
        "a.py": ("modify", "a.py"),
        "dir/new.py": ("create", None),
        "old.py": ("delete", "old.py"),
        "dir/c.py": ("rename", "dir/b.py"),
    }
    merged = {path: item.result.merged_code for path, item in items.items() if item.result is not None}
    assert merged == {"a.py": "x\r\nY\r\n", "dir/new.py": "fresh\n", "dir/c.py": "one\n2\nthree\n"}
    assert items["old.py"].verdicts == ()
    assert {verdict.check for verdict in items["a.py"].verdicts} >= {"syntax", "no_op"}
    changed = items["a.py"].result
    assert changed is not None
    assert (changed.strategy, changed.model, changed.language) == ("exact", None, "python")
    assert [edit.newText for edit in changed.edits] == ["Y"]


def test_modes_are_told() -> None:
    items = {item.path: item for item in apply_patch_request(PatchRequest(DIFF, SOURCES)).items}
    assert items["a.py"].new_mode == "100755"
    assert items["dir/new.py"].new_mode == "100644"
    assert items["dir/c.py"].new_mode is None


def test_a_change_of_the_name_alone_is_no_no_op() -> None:
    rename = "diff --git a/a.py b/z.py\nsimilarity index 100%\nrename from a.py\nrename to z.py\n"
    mode = "diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n"
    for patch, action in ((rename, "rename"), (mode, "mode")):
        (item,) = apply_patch_request(PatchRequest(patch, SOURCES, on_verdict={"no_op": "fail"})).items
        assert (item.action, item.status) == (action, "ok")


LOST = V4A.replace("-two\n+2", "-zwei\n+2")


def test_all_or_nothing_and_independent() -> None:
    refused = apply_patch_request(PatchRequest(LOST, SOURCES))
    assert refused.status == "refused"
    assert {item.path: item.status for item in refused.items} == {
        "a.py": "withheld",
        "dir/new.py": "withheld",
        "old.py": "withheld",
        "dir/c.py": "failed",
    }
    partial = apply_patch_request(PatchRequest(LOST, SOURCES, mode="independent"))
    assert partial.status == "partial"
    (failed,) = [item for item in partial.items if item.status == "failed"]
    assert isinstance(failed.error, NeedsMoreContext)
    assert (failed.source, failed.path) == ("dir/b.py", "dir/c.py")


def test_checks_fail_a_file() -> None:
    patch = "--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-x = 1\n+x = (1\n"
    sources = (PatchSource("f.py", "x = 1\n"),)
    (item,) = apply_patch_request(PatchRequest(patch, sources)).items
    assert isinstance(item.error, CheckFailed)
    assert item.result is None
    (item,) = apply_patch_request(PatchRequest(patch, sources, on_verdict={"syntax": "warn"})).items
    assert item.status == "ok"
    assert item.result is not None
    assert item.result.merged_code == "x = (1\n"


NO_NEWLINE = "\\ No newline at end of file\n"


@pytest.mark.parametrize(
    "patch",
    [
        f"new file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+b.py\n{NO_NEWLINE}",
        f"index 1..2 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a.py\n{NO_NEWLINE}+b.py\n{NO_NEWLINE}",
    ],
)
def test_links_and_submodules_are_refused(patch: str) -> None:
    sources = () if "new file" in patch else (PatchSource("link", "a.py"),)
    (item,) = apply_patch_request(PatchRequest(f"diff --git a/link b/link\n{patch}", sources)).items
    assert isinstance(item.error, UnsupportedParameter)
    assert item.error.value == "120000"


def test_the_diff_says_the_whole_change_and_can_be_applied_again() -> None:
    result = apply_patch_request(PatchRequest(V4A, SOURCES, diff=True))
    diff = "".join(item.diff or "" for item in result.items)
    again = {p.path: (p.action, p.source, p.text) for p in apply_patch(diff, FILES)}
    assert again == {p.path: (p.action, p.source, p.text) for p in apply_patch(V4A, FILES)}


def test_what_is_no_patch_and_what_is_there_twice() -> None:
    with pytest.raises(MalformedEdit):
        apply_patch_request(PatchRequest("hello", SOURCES))
    with pytest.raises(InvalidField):
        apply_patch_request(PatchRequest(V4A, (*SOURCES, SOURCES[0])))


def test_bytes_that_the_encoding_lacks_fail_the_file() -> None:
    patch = "--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-x\n+\u20ac\n"
    (item,) = apply_patch_request(PatchRequest(patch, (PatchSource("f.txt", "x\n", "latin-1"),))).items
    assert item.error is not None
    assert item.error.code == "bad_encoding"


def test_a_rule_for_no_check_is_refused() -> None:
    with pytest.raises(InvalidField) as caught:
        apply_patch_request(PatchRequest(DIFF, SOURCES, on_verdict={"sintax": "fail"}))
    assert caught.value.value == ["sintax"]
