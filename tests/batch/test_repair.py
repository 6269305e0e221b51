"""A failed call comes back as the same kind of call with quotes that fit."""

from __future__ import annotations

import json

import pytest

from apply_service.batch.repair import QUOTING, repair_call
from apply_service.errors import NeedsMoreContext, UnsupportedParameter
from apply_service.types import ApplyRequest
from tests.edits.call_forms import FILE, FORMS, NEW, OLD, SNIPPET, STRIPPED, Form, operation
from tests.edits.test_call_forms import apply

OLDER = f"    with open(file_path) as file:\n{OLD}"
NEWER = f"    with open(file_path) as file:\n{NEW}"
HUNK = f"@@\n     with open(file_path) as file:\n-{OLD}\n+{NEW}\n"
CALLS = {
    "json_edit": json.dumps({"name": "edit", "arguments": json.dumps({"oldText": OLDER, "newText": NEWER})}),
    "search_replace": f"<<<<<<< SEARCH\n{OLDER}\n=======\n{NEWER}\n>>>>>>> REPLACE\n",
    "conflict_markers": f"<<<<<<< ours\n{OLDER}\n=======\n{NEWER}\n>>>>>>> theirs\n",
    "v4a_patch": f"*** Begin Patch\n*** Update File: a.py\n{HUNK}*** End Patch\n",
    "unified_diff": f"--- a/a.py\n+++ b/a.py\n@@ -5,2 +5,2 @@\n{HUNK.partition(chr(10))[2]}",
}


def repair(update: str, original: str = FILE) -> object:
    return repair_call(ApplyRequest(original=original, update=update, path="a.py"))


@pytest.mark.parametrize("name", CALLS)
def test_the_same_kind_of_call_fits(name: str) -> None:
    mended = repair_call(ApplyRequest(original=FILE, update=CALLS[name], path="a.py"))
    assert (mended.format, mended.fits, len(mended.mended)) == (name, False, 1)
    assert any(OLD.strip() in reason for reason in mended.reasons)  # the line that was taken
    result = apply(mended.update)
    assert (result.format, result.merged_code, result.reasons) == (name, STRIPPED, ())


def test_the_call_around_an_edit_stays() -> None:
    mended = repair_call(ApplyRequest(original=FILE, update=CALLS["json_edit"], path="a.py"))
    outer = json.loads(mended.update)
    inner = json.loads(outer["arguments"])
    assert outer["name"] == "edit"
    assert set(inner) == {"oldText", "newText"}
    assert FILE.count(inner["oldText"]) == 1


def test_an_operation_of_a_patch_call_stays_one() -> None:
    update = json.dumps(operation("update_file", diff=HUNK))
    mended = repair_call(ApplyRequest(original=FILE, update=update, path="a.py"))
    call = json.loads(mended.update)
    assert (call["type"], call["operation"]["type"], call["operation"]["path"]) == (
        "apply_patch_call", "update_file", "a.py"
    )  # fmt: skip
    assert apply(mended.update).merged_code == STRIPPED


def test_several_parts_are_mended_together() -> None:
    first = {"old_string": OLDER, "new_string": NEWER}
    second = {"old_string": "def save(path, txt):\n    with open(path, 'w') as file:",
              "new_string": "def save(path, txt):\n    with open(path, 'x') as file:"}  # fmt: skip
    mended = repair_call(ApplyRequest(original=FILE, update=json.dumps([first, second]), path="a.py"))
    assert apply(mended.update).merged_code == STRIPPED.replace("'w'", "'x'")


@pytest.mark.parametrize("form", [one for one in FORMS if one.wanted and one.format in QUOTING and not one.is_doubted],
                         ids=lambda form: form.name)  # fmt: skip
def test_calls_that_fit_stay_as_they_are(form: Form) -> None:
    mended = repair_call(ApplyRequest(original=FILE, update=form.edit, path="a.py"))
    assert (mended.fits, mended.update, mended.mended) == (True, form.edit, ())


def test_a_call_that_its_format_can_not_hold_is_an_error() -> None:
    """The line above what changes, which the call would quote, is a mark of the format."""
    original = "start\n>>>>>>> REPLACE\nfirst_thing(1)\nsecond_thing(2)\n"
    update = "<<<<<<< SEARCH\nfirst_thing(1)\nsecond_thig(2)\n=======\nfirst_thing(1)\nx = 2\n>>>>>>> REPLACE\n"
    with pytest.raises(NeedsMoreContext, match="can't be quoted"):
        repair(update, original)


def test_what_can_not_be_mended_is_the_error_of_the_edit() -> None:
    with pytest.raises(NeedsMoreContext) as error:
        repair("<<<<<<< SEARCH\nzzzz_nothing_like_it(1)\n=======\nx\n>>>>>>> REPLACE\n")
    assert error.value.failures
    with pytest.raises(UnsupportedParameter):
        repair(SNIPPET)


def test_an_edit_that_is_made_is_told() -> None:
    update = json.dumps({"old_string": OLD, "new_string": NEW})
    mended = repair_call(ApplyRequest(original=STRIPPED, update=update, path="a.py"))
    assert mended.already_applied


@pytest.mark.parametrize("form", ["invoke", "function"])
def test_a_call_in_tags_stays_one(form: str) -> None:
    fields = {"path": "a.py", "old_str": OLDER, "new_str": NEWER}
    begin, end = ('<invoke name="edit">', "</invoke>") if form == "invoke" else ("<function=edit>", "</function>")
    name = '<parameter name="{}">' if form == "invoke" else "<parameter={}>"
    update = begin + "".join(f"{name.format(key)}\n{text}\n</parameter>" for key, text in fields.items()) + end
    mended = repair_call(ApplyRequest(original=FILE, update=update, path="a.py"))
    assert mended.update.startswith(begin)
    assert mended.update.endswith(end)
    assert apply(mended.update).merged_code == STRIPPED
