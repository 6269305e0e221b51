"""Edits on their way to vLLM: what arrives is what was sent, and what is no merge is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apply_service.engine.vllm.message import FORMAT, OPS, ORIGINAL, UPDATE, decode_edit, encode_edit
from apply_service.errors import InvalidField
from apply_service.protocols import EditJob
from tests.engine.vllm.edits import edit_job, numbered_edit

FILE = "import a\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return 2 * x\n"
UPDATES = {
    "lazy": "# ... existing code ...\ndef g(x):\n    return 3 * x\n",
    "search_replace": "<<<<<<< SEARCH\n    return x\n=======\n    return -x\n>>>>>>> REPLACE\n",
    "diff": "--- a/a.py\n+++ b/a.py\n@@ -4,2 +4,3 @@\n def f(x):\n+    x += 1\n     return x\n",
    "whole": FILE.replace("import a", "import b"),
}


def sent(job: EditJob) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(encode_edit(job)))


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_what_arrives_is_the_merge_that_was_sent(update: str) -> None:
    job = edit_job(FILE, update)
    found = decode_edit(sent(job))
    assert found is not None
    assert found.job.prediction.ops == job.prediction.ops
    assert found.job.prediction.update_lines == job.prediction.update_lines
    assert found.job.original == job.original
    assert found.format_name is None


def test_a_long_file_is_few_numbers() -> None:
    assert len(encode_edit(numbered_edit(1, n_functions=200))[OPS]) < 40


def test_other_arguments_tell_of_no_edit() -> None:
    assert decode_edit(None) is None
    assert decode_edit({"top_n_sigma": 1.0, "kv_transfer_params": {}}) is None


@pytest.mark.parametrize(
    "change",
    [
        {ORIGINAL: None},
        {ORIGINAL: 3},
        {FORMAT: 7},
        {UPDATE: "def g"},
        {UPDATE: ["a", 1]},
        {OPS: "0"},
        {OPS: [0, 1]},
        {OPS: [0, 1.0, -1]},
        {OPS: [True, 1, -1]},
        {OPS: [4, 10, -1]},
        {OPS: [0, 0, -1, 0, 10, -1]},
        {OPS: [0, 9, -1]},
        {OPS: [0, 11, -1]},
        {OPS: [0, 10, 0]},
        {OPS: [1, 10, 0]},
        {OPS: [0, 10, -1, 3, 1, 3]},
        {OPS: [0, 10, -1, 3, 1, -1]},
        {OPS: [0, 10, -1, 3, 4, 0]},
        {OPS: [3, 2**60, 0]},
    ],
    ids=str,
)
def test_what_is_no_merge_of_the_texts_is_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {ORIGINAL: FILE, UPDATE: ["def g(x):", "    return 0", ""], OPS: [0, 10, -1]}
    assert decode_edit(good) is not None
    with pytest.raises(InvalidField) as caught:
        decode_edit(good | change)
    assert "def" not in str(caught.value.as_dict()), "errors go to logs: no code in them"


def test_half_an_edit_is_refused() -> None:
    with pytest.raises(InvalidField):
        decode_edit({ORIGINAL: FILE})
