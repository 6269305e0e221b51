"""Replies over several files, in every format, through the batch's patch."""

from __future__ import annotations

import pytest

from apply_service.batch import BatchMode, BatchResult, PatchRequest, PatchSource
from apply_service.batch.run import apply_patch_request
from apply_service.errors import MalformedEdit

FILES = {"a.py": "x = 1\n", "src/b.py": "y = 1\n"}
WANTED = {"a.py": "x = 2\n", "src/b.py": "y = 2\n"}


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def apply(reply: str, mode: BatchMode = "all_or_nothing") -> BatchResult:
    return apply_patch_request(PatchRequest(reply, tuple(PatchSource(*file) for file in FILES.items()), mode))


def texts(result: BatchResult) -> dict[str | None, str | None]:
    return {item.path: None if item.result is None else item.result.merged_code for item in result.items}


X, Y = block("x = 1", "x = 2"), block("y = 1", "y = 2")
BLOCKS = f"Sure; here:\n\na.py\n```python\n{X}```\n\nb.py\n```python\n{Y}```\nDone.\n"


@pytest.mark.parametrize(
    "reply",
    [
        BLOCKS,
        f"In `a.py`:\n\n{X}\nIn `src/b.py`:\n\n{Y}",
        '[{"path": "a.py", "old_str": "1", "new_str": "2"}, {"path": "src/b.py", "old_str": "1", "new_str": "2"}]',
        "### a.py\n```diff\n@@ -1 +1 @@\n-x = 1\n+x = 2\n```\n"
        "### src/b.py\n```diff\n@@ -1 +1 @@\n-y = 1\n+y = 2\n```\n",
        "```diff a.py\n-x = 1\n+x = 2\n```\n```diff src/b.py\n-y = 1\n+y = 2\n```\n",
        "All of it, as you said:\n\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
        "--- a/src/b.py\n+++ b/src/b.py\n@@ -1 +1 @@\n-y = 1\n+y = 2\n\nThat changes both files.\n",
        "First:\n\n*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n\nand the other one:\n\n"
        "*** Begin Patch\n*** Update File: src/b.py\n@@\n-y = 1\n+y = 2\n*** End Patch\n",
    ],
    ids=range(7),
)
def test_every_part_goes_to_its_file(reply: str) -> None:
    result = apply(reply)
    assert result.status == "applied"
    assert texts(result) == WANTED
    assert not any(verdict.check == "other_files" for item in result.items for verdict in item.verdicts)


def test_a_new_file_of_a_reply_is_created() -> None:
    reply = f"a.py\n{block('x = 1', 'x = 2')}\nnew.py\n<<<<<<< SEARCH\n=======\nz = 1\n>>>>>>> REPLACE\n"
    result = apply(reply)
    assert [(item.path, item.action) for item in result.items] == [("a.py", "modify"), ("new.py", "create")]
    assert texts(result) == {"a.py": "x = 2\n", "new.py": "z = 1\n"}


def test_one_part_that_fails_withholds_the_others() -> None:
    result = apply(BLOCKS.replace("y = 1", "nothing_like_this"))
    assert [item.status for item in result.items] == ["withheld", "failed"]


def test_a_reply_that_names_no_file_is_refused() -> None:
    with pytest.raises(MalformedEdit) as refused:
        apply(block("x = 1", "x = 2"))
    assert refused.value.remedy


def test_a_file_gets_its_parts_wherever_they_stand_and_all_files_hear_of_the_rest() -> None:
    reply = f"First this, then that.\n\na.py\n{X}\nb.py\n{Y}\n./a.py\n{block('x = 2', 'x = 3')}"
    result = apply(reply)
    assert texts(result) == {**WANTED, "a.py": "x = 3\n"}
    said = [[verdict.message for verdict in item.verdicts if verdict.check == "reply"] for item in result.items]
    assert said == [["1 line around the edit ignored: 'First this, then that.'"]] * 2


def test_a_part_that_fails_is_told_of_its_file_alone() -> None:
    result = apply(f"a.py\n{block('z = 1', 'z = 2')}\nb.py\n{Y}")
    assert [(item.path, item.status) for item in result.items] == [("a.py", "failed"), ("src/b.py", "withheld")]


# -- one bad part ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "bad",
    [
        block("x = 1", "x = 2").replace(">>>>>>> REPLACE\n", ""),
        block("x = 1", "x = 2").replace("=======\n", ""),
        block("x = 1", "x = 2\n=======\nx = 3"),
        block("nowhere at all", "x = 2"),
        block("x = 1", "x = 2") + ">>>>>>> REPLACE\n",
    ],
    ids=["no end", "no divider", "a second divider", "not in the file", "a lone marker"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_bad_block_refuses_its_own_file_alone(bad: str, is_first: bool) -> None:
    parts = [f"a.py\n{bad}", f"src/b.py\n{block('y = 1', 'y = 2')}"]
    result = apply("\n".join(parts if is_first else parts[::-1]), "independent")
    items = {item.path: item for item in result.items}
    assert {path: item.status for path, item in items.items()} == {"a.py": "failed", "src/b.py": "ok"}
    assert items["src/b.py"].result is not None
    assert items["src/b.py"].result.merged_code == "y = 2\n"
