"""A patch over very many files."""

from __future__ import annotations

import json
import time

import pytest

from apply_service.batch import PatchRequest, PatchSource
from apply_service.batch.run import apply_patch_request

N_FILES = 2000
MOST_S = 10.0
TEXT = "".join(f"def f{i}(a):\n    return a + {i}\n\n\n" for i in range(30))
PATHS = [f"src/p{i // 50}/m{i}.py" for i in range(N_FILES)]
OLD, NEW = "    return a + 2\n", "    return a - 2\n"
BLOCK = f"<<<<<<< SEARCH\n{OLD}=======\n{NEW}>>>>>>> REPLACE\n"
CHANGE = " def f2(a):\n-    return a + 2\n+    return a - 2\n"
PATCHES = {
    "unified diff": "".join(f"--- a/{path}\n+++ b/{path}\n@@ -9,2 +9,2 @@\n{CHANGE}" for path in PATHS),
    "V4A": "*** Begin Patch\n"
    + "".join(f"*** Update File: {path}\n@@\n{CHANGE}" for path in PATHS)
    + "*** End Patch\n",
    "search/replace blocks": "I changed each of them:\n\n" + "".join(f"### {path}\n{BLOCK}\n" for path in PATHS),
    "JSON edits": json.dumps({"edits": [{"path": path, "old_string": OLD, "new_string": NEW} for path in PATHS]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PATCHES)
def test_two_thousand_files_take_seconds(name: str) -> None:
    files = tuple(PatchSource(path, TEXT, "utf-8") for path in PATHS)
    began = time.process_time()
    result = apply_patch_request(PatchRequest(PATCHES[name], files, "all_or_nothing", {}, False))
    assert time.process_time() - began <= MOST_S
    assert result.status == "applied"
    wanted = TEXT.replace("return a + 2\n", "return a - 2\n")
    assert all(item.result is not None and item.result.merged_code == wanted for item in result.items)
