"""V4A patches."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.formats import v4a
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format
from apply_service.types import Certainty, Prediction
from tests.edits.scripts import NASTY, as_v4a, assert_contract, draw_script

FILE = """\
class Cart:
    def total(self):
        tax = 0
        return tax

    def size(self):
        return 0


class Order:
    def total(self):
        tax = 0
        return tax
"""


def predict(original: str, update: str, path: str | None = None) -> Prediction:
    prediction = v4a.predict(original, update, EditContext(path))
    assert_contract(prediction, original, update)
    return prediction


def patch(body: str, path: str = "cart.py") -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n{body}*** End Patch\n"


@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(1, 4))
def test_unique_context_determines_the_result(seed: int, context: int) -> None:
    script = draw_script(random.Random(seed))
    update = as_v4a(script, context)
    assert detect_format(update, named=None) == "v4a_patch"
    prediction = predict(script.before, update)
    assert prediction.text == script.after, f"seed {seed}"
    assert prediction.determined, f"seed {seed}: {prediction.reasons}"


@settings(max_examples=200)
@given(st.integers(0, 10**9), st.integers(0, 3))
def test_never_certain_and_wrong(seed: int, context: int) -> None:
    script = draw_script(random.Random(seed), ("x", "y", *NASTY), n_lines=16)
    try:
        prediction = predict(script.before, as_v4a(script, context))
    except (NeedsMoreContext, MalformedEdit):
        return
    assert not prediction.determined or prediction.text == script.after, f"seed {seed}"


def test_scopes_settle_a_repeated_context() -> None:
    update = patch("@@ class Order:\n@@     def total(self):\n-        tax = 0\n+        tax = 1\n")
    prediction = predict(FILE, update)
    head, _, tail = FILE.partition("class Order")
    assert prediction.text == head + "class Order" + tail.replace("tax = 0", "tax = 1")
    assert prediction.determined, prediction.reasons


def test_a_scope_holds_its_own_body_only() -> None:
    prediction = predict(FILE, patch("@@ class Cart:\n-        tax = 0\n+        tax = 1\n"))
    assert prediction.text == FILE.replace("tax = 0", "tax = 1", 1)
    assert prediction.determined


def test_a_scope_that_is_not_unique_is_no_proof() -> None:
    prediction = predict(FILE, patch("@@ def total(self):\n-        tax = 0\n+        tax = 1\n"))
    assert prediction.certainty is Certainty.GUESS


def test_an_unknown_scope_is_told() -> None:
    prediction = predict(FILE, patch("@@ class Invoice:\n         tax = 0\n-        return tax\n+        return 1\n"))
    assert prediction.certainty is Certainty.GUESS
    assert any("Invoice" in reason for reason in prediction.reasons)


def test_the_end_of_the_file_settles_a_repeated_context() -> None:
    prediction = predict(FILE, patch("@@\n         tax = 0\n-        return tax\n+        return 1\n*** End of File\n"))
    assert prediction.text == FILE[: -len("return tax\n")] + "return 1\n"
    assert prediction.determined


def test_lines_added_at_the_end_of_the_file() -> None:
    prediction = predict(FILE, patch("@@\n+\n+\n+x = 1\n*** End of File\n"))
    assert prediction.text == FILE + "\n\nx = 1\n"


def test_the_first_hunk_needs_no_scope_line() -> None:
    prediction = predict("a\nb\n", patch(" a\n-b\n+c\n"))
    assert prediction.text == "a\nc\n"
    assert prediction.determined


def test_lines_added_to_a_scope_without_context_are_a_guess() -> None:
    prediction = predict(FILE, patch("@@ class Order:\n+    def size(self):\n+        return 1\n"))
    assert prediction.certainty is Certainty.GUESS
    assert prediction.text == FILE + "    def size(self):\n        return 1\n"


def test_lines_without_any_place_are_appended() -> None:
    prediction = predict(FILE, patch("@@\n+x = 1\n"))
    assert prediction.text == FILE + "x = 1\n"
    assert prediction.certainty is Certainty.LIKELY


def test_a_scope_that_is_nowhere_is_a_doubt() -> None:
    prediction = predict(FILE, patch("@@ class Nowhere:\n-        return 0\n+        return 1\n"))
    assert prediction.certainty is Certainty.LIKELY
    assert "no scope" in prediction.reasons[0]


@pytest.mark.parametrize(
    "write",
    [
        "```\n{}```\n",
        "Here is the patch:\n\n{}",
        "apply_patch <<'EOF'\n{}EOF\n",
    ],
)
def test_what_stands_around_a_patch(write: str) -> None:
    update = write.format(patch("@@\n a\n-b\n+c\n"))
    assert detect_format(update, named=None) == "v4a_patch"
    assert predict("a\nb\n", update).determined


def test_begin_patch_may_be_missing() -> None:
    update = patch("@@\n a\n-b\n+c\n").removeprefix("*** Begin Patch\n")
    assert detect_format(update, named=None) == "v4a_patch"
    assert predict("a\nb\n", update).text == "a\nc\n"


@pytest.mark.parametrize(
    "update",
    [
        "*** Begin Patch\n*** Update File: x\n@@\n a\n-b\n+c\n",
        "*** Begin Patch\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: x\n*** End Patch\n",
        "*** Begin Patch\nsome code\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: x\n+a\nb\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: x\n@@ class A\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: x\n@@\n-a\n*** Replace File: y\n*** End Patch\n",
    ],
)
def test_malformed_patches_are_refused_and_never_taken_for_a_snippet(update: str) -> None:
    assert detect_format(update, named=None) == "v4a_patch"
    with pytest.raises(MalformedEdit):
        predict("a\nb\n", update)


def test_no_patch_at_all() -> None:
    with pytest.raises(MalformedEdit):
        predict("a\n", "b\n")


def test_files_are_added_deleted_and_moved() -> None:
    update = (
        "*** Begin Patch\n*** Add File: new.py\n+a\n+\n+b\n*** Delete File: old.py\n"
        "*** Update File: from.py\n*** Move to: to.py\n@@\n-x\n+y\n*** End Patch"
    )
    assert predict("", update, "new.py").text == "a\n\nb\n"
    assert predict("anything\n", update, "old.py").text == ""
    moved = predict("x\n", update, "from.py")
    assert moved.text == "y\n"
    assert moved.determined
    assert "the edit moves the file to to.py" in moved.reasons
    with pytest.raises(MalformedEdit):
        predict("x\n", update, "other.py")


def test_content_is_never_a_directive() -> None:
    original = "*** Begin Patch\n*** End Patch\n@@ def f():\n"
    update = patch("@@\n *** Begin Patch\n-*** End Patch\n+*** End of Patch\n @@ def f():\n")
    prediction = predict(original, update)
    assert prediction.text == "*** Begin Patch\n*** End of Patch\n@@ def f():\n"
    assert prediction.determined
