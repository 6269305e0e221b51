"""Other formats of an edit, read back by git and by a ten-line reader."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from apply_eval.mutate import mutate
from apply_eval.render import search_replace, unified_diff
from tests.eval.samples import PYTHON, SAMPLES


def apply_blocks(before: str, blocks: str) -> str:
    """Every search text must occur once."""
    text = before
    for block in blocks.split("<<<<<<< SEARCH\n")[1:]:
        found, _, rest = block.partition("=======\n")
        wanted = rest.partition(">>>>>>> REPLACE")[0]
        framed = "\n" + text
        assert framed.count("\n" + found) == 1, found
        text = framed.replace("\n" + found, "\n" + wanted)[1:]
    return text


def git_apply(folder: Path, before: str, diff: str) -> str:
    file = folder / "file"
    file.write_bytes(before.encode())
    done = subprocess.run(["git", "apply", "-"], cwd=folder, input=diff.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return file.read_bytes().decode()


def changes(seed: int, n_changes: int) -> list[tuple[str, str]]:
    print(f"seed {seed}")
    rng = random.Random(seed)
    texts = [rng.choice(SAMPLES)[2] for _ in range(n_changes)]
    return [(text, mutate(text, rng)) for text in texts]


def test_blocks_give_the_text_after() -> None:
    n_rendered = 0
    for before, after in changes(5, 300):
        blocks = search_replace(before, after, context=1)
        if blocks is not None:
            n_rendered += 1
            assert apply_blocks(before, blocks) == after
    assert n_rendered > 250


@pytest.mark.parametrize(
    ("before", "after"), [("", "a\n"), ("a\nb\n", "a\nb"), ("a\n", "a\n"), ("=======\na\n", "=======\nb\n")]
)
def test_edits_that_blocks_cannot_show(before: str, after: str) -> None:
    assert search_replace(before, after) is None


def test_context_grows_until_the_search_text_is_unique() -> None:
    before = "one\nsame\ntwo\nsame\nthree\n"
    blocks = search_replace(before, "one\nsame\ntwo\nother\nthree\n", context=0, path="f.txt")
    assert blocks == "f.txt\n<<<<<<< SEARCH\ntwo\nsame\nthree\n=======\ntwo\nother\nthree\n>>>>>>> REPLACE\n"


def test_git_applies_the_diff(tmp_path: Path) -> None:
    for before, after in [*changes(6, 30), ("a\nb", "a\nc"), ("a\nb\n", "a\nb"), ("a\nb", "a\nb\n"), ("a\nb\n", "b\n")]:
        if before != after:
            assert git_apply(tmp_path, before, unified_diff(before, after, path="file")) == after


def test_a_diff_as_git_writes_it() -> None:
    after = PYTHON.replace("import json\n", "import json\nimport math\n")
    assert unified_diff(PYTHON, after, path="w.py") == (
        "diff --git a/w.py b/w.py\n--- a/w.py\n+++ b/w.py\n@@ -3,6 +3,7 @@\n"
        " from __future__ import annotations\n \n import json\n+import math\n from dataclasses import dataclass\n \n \n"
    )


def test_no_change_no_diff() -> None:
    assert unified_diff("a\n", "a\n") == ""
