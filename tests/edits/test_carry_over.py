"""Edits of an earlier text carried over to the file as it is now."""

from __future__ import annotations

from hashlib import sha256

import pytest

from apply_service.errors import ApplyError
from apply_service.pipeline import read_request, run
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent
from tests.edits.call_forms import FILE, NEW, OLD, SNIPPET, STRIPPED

BLOCK = f"<<<<<<< SEARCH\n{OLD}\n=======\n{NEW}\n>>>>>>> REPLACE\n"
NEWER = FILE.replace("def save(path, text):", "def save(path, text, mode='w'):")


def apply(original: str, update: str, **fields: object) -> ApplyResult:
    request = ApplyRequest(original=original, update=update, path="a.py", strategy="exact", **fields)  # type: ignore[arg-type]
    runtime = Runtime(no_target)
    *_, final = run(request, runtime, None, read_request(request, runtime))
    assert isinstance(final, FinalEvent)
    return final.result


def refused(original: str, update: str, **fields: object) -> ApplyError:
    with pytest.raises(ApplyError) as error:
        apply(original, update, **fields)
    return error.value


@pytest.mark.parametrize("update", [BLOCK, SNIPPET], ids=["block", "snippet"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_changes_of_both_are_in_the_file(update: str, end: str) -> None:
    result = apply(NEWER.replace("\n", end), update, base=FILE.replace("\n", end))
    assert result.merged_code == NEWER.replace(OLD, NEW).replace("\n", end)
    assert result.reasons == apply(FILE, update).reasons


def test_a_base_that_is_the_file_changes_nothing() -> None:
    assert apply(FILE, BLOCK, base=FILE).merged_code == STRIPPED


def test_the_same_change_in_both_is_made_once() -> None:
    result = apply(STRIPPED, BLOCK, base=FILE)
    assert result.merged_code == STRIPPED
    assert result.already_applied


def test_lines_that_both_change_are_a_conflict_with_both_sides() -> None:
    newer = FILE.replace(OLD, "        return None")
    error = refused(newer, BLOCK, base=FILE)
    assert error.code == "edit_conflict"
    (conflict,) = error.failures
    assert (conflict["quoted"], conflict["found"], conflict["line"]) == (NEW, "        return None", 6)
    assert error.source_sha256 == sha256(newer.encode()).hexdigest()


def test_a_conflict_is_written_with_markers_on_request() -> None:
    newer = FILE.replace(OLD, "        return None")
    result = apply(newer, BLOCK, base=FILE, conflicts="markers")
    lines = ["<<<<<<< file", "        return None", "||||||| base", OLD, "=======", NEW, ">>>>>>> edit"]
    assert result.merged_code == newer.replace("        return None", "\n".join(lines))
    assert "markers" in result.reasons[0]


def test_words_of_one_line_are_put_together_with_a_doubt() -> None:
    base, newer = "call(first, second)\nend()\n", "call(first, second, third)\nend()\n"
    result = apply(newer, "<<<<<<< SEARCH\ncall(first, second)\n=======\ncall(one, second)\n>>>>>>> REPLACE", base=base)
    assert result.merged_code == "call(one, second, third)\nend()\n"
    assert "both changed line 1" in result.reasons[0]


def test_imports_that_both_add_are_all_kept() -> None:
    base, newer = "import os\n\nrun()\n", "import os\nimport re\n\nrun()\n"
    result = apply(newer, "<<<<<<< SEARCH\nimport os\n=======\nimport os\nimport sys\n>>>>>>> REPLACE", base=base)
    assert result.merged_code == "import os\nimport re\nimport sys\n\nrun()\n"
    assert result.reasons


def test_a_stale_edit_without_its_base_is_not_made_by_likeness() -> None:
    newer = FILE.replace(OLD, "        return file.read().lower()")
    assert refused(newer, BLOCK.replace(OLD, OLD + "  # all")).code == "needs_more_context"


def test_the_hash_is_that_of_the_base() -> None:
    known = sha256(FILE.encode()).hexdigest()
    assert apply(NEWER, BLOCK, base=FILE, base_sha256=known).merged_code == NEWER.replace(OLD, NEW)
    assert refused(NEWER, BLOCK, base_sha256=known).code == "stale_base"


def test_a_model_does_not_decide_such_edits() -> None:
    request = ApplyRequest(original=NEWER, update=BLOCK, base=FILE, strategy="model")
    with pytest.raises(ApplyError, match="by a program"):
        read_request(request, Runtime(no_target))
