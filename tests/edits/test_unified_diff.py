"""Diffs as git writes them, and as models do."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.formats import unified_diff
from apply_service.formats.unified_diff import parse_diff
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format, read_reply
from apply_service.text.diff import unified_diff_text
from apply_service.types import Certainty, Prediction
from tests.edits.scripts import NASTY, Script, as_diff, assert_contract, draw_script

FILE = """\
import os


class Cart:
    def __init__(self, items):
        self.items = items

    def total(self):
        return sum(self.items)

    def clear(self):
        self.items = []


class Order:
    def __init__(self, items):
        self.items = items

    def total(self):
        return 0
"""


def predict(original: str, update: str, path: str | None = None) -> Prediction:
    read = read_reply(update, original=original, path=path, named="unified_diff").update
    prediction = unified_diff.predict(original, read, EditContext(path))
    assert_contract(prediction, original, read)
    return prediction


# -- as git writes them ------------------------------------------------------------------------------------------------
@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(0, 4))
def test_a_true_diff_determines_the_result(seed: int, context: int) -> None:
    """Whatever the lines look like, and however often they occur: the numbers are right."""
    script = draw_script(random.Random(seed), NASTY)
    prediction = predict(script.before, as_diff(script, context))
    assert prediction.text == script.after, f"seed {seed}"
    assert context == 0 or prediction.determined, f"seed {seed}: {prediction.reasons}"


@settings(max_examples=100)
@given(st.integers(0, 10**9), st.integers(1, 4))
def test_wrong_numbers_do_no_harm_where_lines_are_unique(seed: int, context: int) -> None:
    rng = random.Random(seed)
    script = draw_script(rng)
    update = re.sub(
        r"@@ .* @@", lambda _: f"@@ -{rng.randrange(1, 60)},{rng.randrange(9)} +7,7 @@", as_diff(script, context)
    )
    prediction = predict(script.before, update)
    assert prediction.text == script.after, f"seed {seed}"
    assert prediction.certainty is not Certainty.GUESS


@settings(max_examples=150)
@given(
    st.integers(0, 10**9), st.integers(0, 3), st.sampled_from(["@@ ... @@", "@@", "@@ @@", "@@ -9,9 +9,9 @@ def f():"])
)
def test_never_certain_and_wrong(seed: int, context: int, header: str) -> None:
    script = draw_script(random.Random(seed), ("x", "y", "", "    return"), n_lines=16)
    update = re.sub(r"@@ .* @@", header, as_diff(script, context))
    try:
        prediction = predict(script.before, update)
    except (NeedsMoreContext, MalformedEdit):
        return
    assert not prediction.determined or prediction.text == script.after, f"seed {seed}"


def test_our_own_diffs_are_read_back() -> None:
    for seed in range(30):
        script = draw_script(random.Random(seed), NASTY)
        update = unified_diff_text(script.before, script.after, "dir/x.py")
        assert detect_format(update, named=None) == "unified_diff"
        assert predict(script.before, update).text == script.after, f"seed {seed}"


@pytest.mark.parametrize(
    ("before", "after", "body"),
    [
        ("a\nb\n", "a\nb", " a\n-b\n+b\n\\ No newline at end of file"),
        ("a\nb", "a\nb\n", " a\n-b\n\\ No newline at end of file\n+b"),
        ("a\nb", "a\nc", " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file"),
        ("a", "a\nb", "-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file"),
        ("a\nb", "a", "-a\n-b\n\\ No newline at end of file\n+a\n\\ No newline at end of file"),
        ("a\nb", "A\nb", "-a\n+A\n b\n\\ No newline at end of file"),
        ("a\nb", "a\nb\n", " a\n-b\n\\ No newline at end of file\n+b\n"),
    ],
)
def test_the_final_newline_is_an_edit_like_any_other(before: str, after: str, body: str) -> None:
    n_old, n_new = (len(text.splitlines()) for text in (before, after))
    prediction = predict(before, f"@@ -1,{n_old} +1,{n_new} @@\n{body}")
    assert prediction.text == after
    assert prediction.determined


def test_a_wrong_claim_about_the_final_newline_is_told() -> None:
    prediction = predict(
        "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
    assert prediction.text == "a\nc\n"
    assert prediction.certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    "body",
    [
        " a\n+b\n\\ No newline at end of file\n+c\n d\n",
        " a\n\\ No newline at end of file\n+c\n d\n",
        "-a\n\\ No newline at end of file\n-d\n+b\n",
        " a\n+b\n\\ No newline at end of file\n d\n",
    ],
)
@pytest.mark.parametrize("header", ["@@ -1,2 +1,{n} @@", "@@ @@"])
def test_lines_below_the_last_one_are_refused(header: str, body: str) -> None:
    n_new = sum(line[0] in " +" for line in body.splitlines())
    with pytest.raises(MalformedEdit, match="No newline at end of file"):
        predict("a\nd\n", f"--- a/f\n+++ b/f\n{header.replace('{n}', str(n_new))}\n{body}", "f")


@pytest.mark.parametrize(
    "names",
    [
        '--- "a/\\303\\251"\n+++ "b/\\303\\251\n',
        'diff --git "a/\\303\\251 b/x\n--- a/x\n+++ b/x\n',
        'diff --git a/x b/y\nrename from x\nrename to "y\n',
        '--- "a/\\303\\251\\"\n+++ b/x\n',
    ],
)
def test_a_name_whose_quotes_are_not_closed_is_refused(names: str) -> None:
    with pytest.raises(MalformedEdit, match="not closed"):
        predict("a\n", f"{names}@@ -1 +1 @@\n-a\n+b\n", "\u00e9")


# -- as models write them ----------------------------------------------------------------------------------------------
CHANGE = """\
@@ -7,4 +7,4 @@

     def total(self):
-        return sum(self.items)
+        return sum(item.price for item in self.items)

"""
CHANGED = FILE.replace("sum(self.items)", "sum(item.price for item in self.items)")


@pytest.mark.parametrize(
    "write",
    [
        lambda diff: diff,
        lambda diff: "--- a/cart.py\n+++ b/cart.py\n" + diff,
        lambda diff: "--- cart.py\t2024-01-01 10:00:00.000 +0000\n+++ cart.py\t2024-01-02\n" + diff,
        lambda diff: (
            "diff --git a/cart.py b/cart.py\nindex 83db48f..bf269f4 100644\n--- a/cart.py\n+++ b/cart.py\n" + diff
        ),
        lambda diff: f"Here is the change:\n\n```diff\n{diff}```\n\nThis sums the prices.\n",
        lambda diff: diff.replace("@@ -7,4 +7,4 @@", "@@ -99,1 +3,77 @@"),
        lambda diff: diff.replace("@@ -7,4 +7,4 @@", "@@ ... @@"),
        lambda diff: diff.replace("@@ -7,4 +7,4 @@", "@@"),
        lambda diff: "--- a/cart.py\n+++ b/cart.py\n" + diff.replace("@@ -7,4 +7,4 @@", "@@ class Cart:"),
        lambda diff: diff.rstrip("\n"),
        lambda diff: "+++ b/cart.py\n" + diff,
    ],
)
def test_sloppy_diffs_with_true_context_determine_the_result(write: Callable[[str], str]) -> None:
    update = write(CHANGE)
    assert detect_format(update, named=None) == "unified_diff"
    prediction = predict(FILE, update)
    assert prediction.text == CHANGED
    assert prediction.determined, prediction.reasons


@pytest.mark.xfail(strict=True, reason="the blank line below the hunk is written twice")
def test_signs_in_a_fence_are_read_by_the_merger() -> None:
    update = "```diff\n" + CHANGE.partition("\n")[2] + "```"
    reply = read_reply(update, original=FILE, named="unified_diff")
    assert predict(FILE, reply.update).text == CHANGED


def test_context_without_its_leading_blank_is_understood_where_named() -> None:
    update = "@@ @@\n    def total(self):\n-        return sum(self.items)\n+        return 1\n\n    def clear(self):\n"
    assert predict(FILE, update).text == FILE.replace("sum(self.items)", "1")


def test_context_at_column_zero_without_its_blank() -> None:
    update = "@@ @@\nimport os\n+import sys\n\n"
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("import os\n", "import os\nimport sys\n")


def test_another_indentation_is_carried_over() -> None:
    new = "    self.items = []\n+    if not self.items:\n+        self.done = True\n"
    update = "@@ @@\n def clear(self):\n-    self.items = []\n+" + new
    prediction = predict(FILE, update)
    assert "        self.items = []\n        if not self.items:\n            self.done = True\n\n" in prediction.text
    assert prediction.certainty is Certainty.LIKELY


def test_lines_left_out_by_a_marker() -> None:
    update = "@@ @@\n import os\n+import sys\n ...\n"
    update += "     def clear(self):\n-        self.items = []\n+        self.items.clear()\n"
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("import os\n", "import os\nimport sys\n").replace(
        "items = []", "items.clear()"
    )
    assert prediction.certainty is Certainty.LIKELY


def test_misquoted_context_is_a_guess_and_a_draft() -> None:
    update = "@@ -8,2 +8,2 @@\n     def total(self) -> int:\n"
    update += "-        return sum(self.item)\n+        return len(self.items)\n"
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("sum(self.items)", "len(self.items)")
    assert prediction.certainty is Certainty.GUESS


COPY = "     def __init__(self, items):\n-        self.items = items\n+        self.items = list(items)\n"


def test_a_heading_settles_which_of_two_places() -> None:
    update = "@@ class Order: @@\n" + COPY
    prediction = predict(FILE, update)
    head, _, tail = FILE.partition("class Order")
    assert prediction.text == head + "class Order" + tail.replace("= items", "= list(items)")
    assert prediction.certainty is Certainty.LIKELY


def test_two_places_and_nothing_else_is_a_guess() -> None:
    update = "@@ @@\n" + COPY
    prediction = predict(FILE, update)
    assert prediction.certainty is Certainty.GUESS
    assert "lines 5, 16" in prediction.reasons[0]


def test_a_change_that_is_there_already() -> None:
    prediction = predict(CHANGED, CHANGE)
    assert prediction.text == CHANGED
    assert prediction.certainty is Certainty.LIKELY
    assert "already" in prediction.reasons[0]


def test_a_single_line_that_is_there_may_be_another_one() -> None:
    prediction = predict("a\nx = 2\nb\n", "@@ -2 +2 @@\n-x = 1\n+x = 2\n")
    assert prediction.certainty is Certainty.GUESS
    assert "already" in prediction.reasons[0]


def test_context_that_is_nowhere_names_the_anchor() -> None:
    with pytest.raises(NeedsMoreContext) as refused:
        predict(FILE, "@@ @@\n-    def refund(customer, amount, currency):\n+    pass\n")
    assert refused.value.value == "def refund(customer, amount, currency):"
    assert refused.value.remedy


def test_new_lines_alone_have_no_place() -> None:
    with pytest.raises(NeedsMoreContext):
        predict(FILE, "@@ @@\n+import sys\n")


@pytest.mark.parametrize(
    ("counts", "body", "may_be_cut"),
    [
        ("-7,9 +7,9", " \n     def total(self):\n-        return sum(self.items)\n+        return 1\n", True),
        ("-7,4 +7,5", " \n     def total(self):\n-        return sum(self.items)\n+        return 1\n", True),
        ("-7,4 +7,4", " \n     def total(self):\n-        return sum(self.items)\n+        return 1\n", False),
        ("-7,6 +7,6", " \n     def total(self):\n-        return sum(self.items)\n+        return 1\n \n", False),
        ("-7,9 +7,9", " \n     def total(self):\n-        return sum(self.items)\n+        return 1\n \n", True),
        ("-8,3 +8,3", "     def total(self):\n-        return sum(self.items)\n+        return 1", False),
        ("-4,2 +4,2", "-class Cart:\n+class Basket:", True),
    ],
)
def test_a_diff_that_ends_before_its_count_may_be_cut_short(counts: str, body: str, may_be_cut: bool) -> None:
    update = f"@@ {counts} @@\n{body}"
    prediction = predict(FILE, update)
    assert prediction.certainty is (Certainty.LIKELY if may_be_cut else Certainty.CERTAIN)
    assert not may_be_cut or "cut short" in prediction.reasons[0]
    assert predict(FILE, f"```diff\n{update.rstrip()}\n```\n").determined


def test_a_line_outside_any_hunk_is_told() -> None:
    update = CHANGE.rstrip() + "\n```\nprint(1);\n"
    assert predict(FILE, update).text == CHANGED
    assert [verdict.severity for verdict in read_reply(update, original=FILE).findings] == ["warning"]


# -- files -------------------------------------------------------------------------------------------------------------
TWO = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n--- a/src/b.py\n+++ b/src/b.py\n@@ -1 +1 @@\n-x\n+z\n"


@pytest.mark.parametrize(("path", "text"), [("src/a.py", "y\n"), ("b.py", "z\n"), ("/home/me/src/b.py", "z\n")])
def test_the_path_picks_the_section(path: str, text: str) -> None:
    prediction = predict("x\n", TWO, path)
    assert prediction.text == text
    assert prediction.determined
    assert prediction.reasons[0].startswith("the edit also changes src/")


@pytest.mark.parametrize("path", [None, "src/c.py"])
def test_several_files_and_no_such_path_is_refused(path: str | None) -> None:
    with pytest.raises(MalformedEdit) as refused:
        predict("x\n", TWO, path)
    assert refused.value.limit == ["src/a.py", "src/b.py"]


def test_an_edit_that_names_another_file_is_not_certain() -> None:
    prediction = predict("x\n", "--- a/other.py\n+++ b/other.py\n@@ -1 +1 @@\n-x\n+y\n", "src/a.py")
    assert prediction.certainty is Certainty.LIKELY
    assert "other.py" in prediction.reasons[0]


def test_a_new_file() -> None:
    update = "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    prediction = predict("", update)
    assert prediction.text == "a\nb\n"
    assert prediction.determined
    with pytest.raises(MalformedEdit):
        predict("x\n", update)


def test_a_deleted_file() -> None:
    update = "--- a/n.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    prediction = predict("a\nb\n", update)
    assert prediction.text == ""
    assert prediction.determined
    assert predict("a\nc\n", update).certainty is Certainty.GUESS


@pytest.mark.parametrize(
    "update",
    [
        "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n",
        "@@@ -1,2 -1,2 +1,3 @@@\n  a\n++b\n",
        "--- a/x\n+++ b/x\n",
        "no diff at all",
    ],
)
def test_what_is_no_text_diff_is_refused(update: str) -> None:
    with pytest.raises(MalformedEdit):
        predict("a\n", update)


def test_hunks_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(MalformedEdit):
        predict("a\nb\nc\n", "@@ @@\n a\n-b\n+x\n@@ @@\n-b\n+y\n c\n")


def test_a_script_without_final_newline_has_its_markers() -> None:
    script = Script((("=", "a"), ("-", "b"), ("+", "c")), has_newline=False)
    assert as_diff(script).count("\\ No newline") == 2


@pytest.mark.parametrize(
    "update",
    [
        "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\ndef f():\n    a = 10\n    return a\n",
        "diff --git a/f.py b/f.py\nindex 1111111..2222222 100644\n def f():\n-    a = 1\n+    a = 10\n",
        "--- a/f.py\n+++ b/f.py\nfoo\n-    a = 1\n+    a = 10\nbar\n",
        "diff --git a/f.py b/f.py\nfoo = 1\n",
    ],
)
def test_a_diff_without_hunk_headers_is_refused_and_never_a_snippet(update: str) -> None:
    assert detect_format(update, named=None) == "unified_diff"
    with pytest.raises(MalformedEdit):
        predict("def f():\n    a = 1\n    return a\n", update)


def test_a_diff_without_hunk_headers_is_read_by_its_signs() -> None:
    update = "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n def f():\n-    a = 1\n+    a = 10\n     return a\n"
    assert detect_format(update, named=None) == "unified_diff"
    assert predict("def f():\n    a = 1\n    return a\n", update).text == "def f():\n    a = 10\n    return a\n"


def test_a_copy_of_the_file_is_no_change_of_it() -> None:
    change = "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"
    copy = (
        "diff --git a/f.py b/g.py\nsimilarity index 50%\ncopy from f.py\ncopy to g.py\n"
        "--- a/f.py\n+++ b/g.py\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"
    )
    assert predict("a\nb\n", change + copy, path="f.py").text == "a\nB\n"
    assert predict("a\nb\n", change + copy, path="g.py").text == "A\nb\n"


@pytest.mark.parametrize("names", ["--- a/two.py\n+++ b/two.py\n", "--- two.py\t2026-11-23 10:00:00\n+++ two.py\n"])
def test_a_count_that_takes_in_the_names_of_the_next_file_is_wrong(names: str) -> None:
    one = "--- a/one.py\n+++ b/one.py\n@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n"
    two = names + "@@ -1,2 +1,2 @@\n x\n-y\n+Y\n"
    assert [change.path for change in parse_diff(one + two).changes] == ["one.py", "two.py"]
    assert predict("a\nb\nc\n", one + two, path="one.py").text == "a\nB\nc\n"
    assert predict("x\ny\n", one + two, path="two.py").text == "x\nY\n"


def test_content_that_looks_like_names_stays_content() -> None:
    before = ["-- old", *"abcdefgh", "x"]
    update = "--- a/f.sql\n+++ b/f.sql\n@@ -1 +1 @@\n--- old\n+++ new\n@@ -10 +10 @@\n-x\n+y\n"
    text = "\n".join(before) + "\n"
    assert predict(text, update).text == text.replace("-- old", "++ new").replace("x", "y")


# -- cut short, or hostile ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "head", ["diff --git a/src/app.py b/src/ap\n", "diff --git a/x.py b/y.py\nsimilarity index 100%\n"]
)
def test_a_header_alone_moves_no_file(head: str) -> None:
    with pytest.raises(MalformedEdit, match="but no change of it"):
        parse_diff(head)


def test_a_header_that_says_so_moves_the_file() -> None:
    update = "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
    assert [(change.path, change.new_path) for change in parse_diff(update).changes] == [("x.py", "y.py")]


@pytest.mark.parametrize("header", ["@@ -{n} +1 @@", "@@ -1,{n} +1 @@", "@@ -1 +{n} @@", "@@ -1 +1,{n} @@"])
def test_numbers_of_any_length_are_read(header: str) -> None:
    update = f"--- a/f\n+++ b/f\n{header.replace('{n}', '1' * 5000)}\n-a\n+b\n"
    assert predict("a\n", update).text == "b\n"
