"""The predicted merge on hand-written edits: one behaviour a test, the wanted file written out by hand."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.types import Certainty, Prediction

PYTHON = """\
import os
import sys

TIMEOUT = 30


class Store:
    def __init__(self, path):
        self.path = path

    def load(self):
        with open(self.path) as file:
            return file.read()

    def save(self, text):
        with open(self.path, "w") as file:
            file.write(text)


def main():
    store = Store(sys.argv[1])
    print(store.load())
"""

GO = """\
package main

import "fmt"

func add(a, b int) int {
\treturn a + b
}

func sub(a, b int) int {
\treturn a - b
}

func main() {
\tfmt.Println(add(1, 2))
\tfmt.Println(sub(2, 1))
}
"""


def predict(original: str, update: str, language: str = "python", path: str | None = None) -> Prediction:
    return merge(original, update, language=language, path=path)


def check(original: str, update: str, wanted: str, *, language: str = "python", path: str | None = None) -> Prediction:
    prediction = predict(original, update, language, path)
    assert prediction.text == wanted
    return prediction


def swap(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


# -- reading a clean snippet -----------------------------------------------------------------------------------------
def test_change_between_markers() -> None:
    update = """\
# ... existing code ...
    def load(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()
# ... existing code ..."""
    wanted = swap(PYTHON, "with open(self.path) as", 'with open(self.path, encoding="utf-8") as')
    check(PYTHON, update, wanted)


def test_deletion_shows_its_neighbours_with_nothing_between() -> None:
    update = "import os\nimport sys\n\n\nclass Store:\n# ...\n"
    check(PYTHON, update, swap(PYTHON, "TIMEOUT = 30\n\n\n", "\n"))


def test_missing_markers_at_both_ends_mean_the_rest_is_unchanged() -> None:
    update = "    def load(self):\n        self.check()\n        with open(self.path) as file:"
    wanted = swap(PYTHON, "load(self):\n", "load(self):\n        self.check()\n")
    check(PYTHON, update, wanted)


def test_several_hunks_keep_their_order() -> None:
    update = """\
import os
import re
import sys
# ... existing code ...
    def save(self, text):
        with open(self.path, "w", newline="") as file:
            file.write(text)
# ...
    print(store.load().strip())
"""
    wanted = swap(PYTHON, "import sys\n", "import re\nimport sys\n")
    wanted = swap(wanted, 'self.path, "w")', 'self.path, "w", newline="")')
    wanted = swap(wanted, "store.load())", "store.load().strip())")
    check(PYTHON, update, wanted)


@pytest.mark.parametrize(
    "marker",
    [
        "# ... existing code ...",
        "# ...",
        "...",
        "# … existing code …",
        "# ... (rest of the class unchanged) ...",
        "# [... unchanged ...]",
        "# rest of the file stays the same",
        "# (unchanged)",
        "# existing code",
        "// ... existing code ...",
        "/* ... */",
        "<!-- ... existing code ... -->",
        "-- ... rest of code ...",
        "          # ... existing code ...",
    ],
)
def test_marker_spellings(marker: str) -> None:
    update = f"{marker}\n    store = Store(sys.argv[2])\n    print(store.load())"
    update = update.replace("    store", "def main():\n    store", 1)
    check(PYTHON, update, swap(PYTHON, "sys.argv[1]", "sys.argv[2]"))


def test_marker_inside_a_body_keeps_the_body() -> None:
    update = "func main() {\n\t// ...\n\tfmt.Println(sub(2, 1))\n\tfmt.Println(add(3, 4))\n}"
    check(GO, update, swap(GO, "sub(2, 1))\n", "sub(2, 1))\n\tfmt.Println(add(3, 4))\n"), language="go")


def test_two_markers_for_one_stretch() -> None:
    update = "import sys\n\nTIMEOUT = 60\n\n    # ...\n# ...\n\ndef main():\n"
    check(PYTHON, update, swap(PYTHON, "TIMEOUT = 30", "TIMEOUT = 60"))


def test_marker_like_line_of_the_file_is_content() -> None:
    original = "def f():\n    # ... existing code ...\n    return 1\n\n\ndef g():\n    return 2\n"
    update = "def f():\n    # ... existing code ...\n    return 10\n"
    check(original, update, original.replace("return 1\n", "return 10\n"))


def test_blank_lines_next_to_markers_are_not_the_files() -> None:
    update = "# ... existing code ...\n\n\n\nTIMEOUT = 60\n\n\nclass Store:\n\n# ... existing code ...\n"
    prediction = predict(PYTHON, update)
    assert prediction.text in {
        swap(PYTHON, "TIMEOUT = 30", "TIMEOUT = 60"),
        swap(PYTHON, "TIMEOUT = 30", "TIMEOUT = 30\nTIMEOUT = 60"),
    }


# -- no markers ------------------------------------------------------------------------------------------------------
def test_whole_file() -> None:
    check(GO, swap(GO, "a + b", "b + a"), swap(GO, "a + b", "b + a"), language="go")


def test_whole_function_without_markers_replaces_only_it() -> None:
    update = "func sub(a, b int) int {\n\tif a < b {\n\t\treturn 0\n\t}\n\treturn a - b\n}\n"
    wanted = swap(GO, "\treturn a - b", "\tif a < b {\n\t\treturn 0\n\t}\n\treturn a - b")
    check(GO, update, wanted, language="go")


@pytest.mark.parametrize("indent", ["\t", "    "])
def test_a_whole_function_of_a_short_file_leaves_the_last_one_alone(indent: str) -> None:
    """Its closing brace reads like the file's last line, and is not that."""
    original = "package main\n\nfunc a() int {\n\tx := 1\n\treturn x\n}\n\nfunc b() int {\n\treturn 2\n}\n"
    update = f"func a() int {{\n{indent}x := 1\n{indent}x += 2\n{indent}return x\n}}\n"
    check(original, update, swap(original, "x := 1\n", "x := 1\n\tx += 2\n"), language="go")


def test_namesake_with_another_signature_is_replaced() -> None:
    update = "// ...\nfunc sub(a, b int, c int) int {\n\treturn a - b - c\n}\n// ...\n"
    wanted = swap(GO, "sub(a, b int) int {\n\treturn a - b\n", "sub(a, b int, c int) int {\n\treturn a - b - c\n")
    check(GO, update, wanted, language="go")


def test_new_function_at_the_end_of_the_file() -> None:
    update = "# ... existing code ...\n\n\ndef other():\n    pass\n"
    check(PYTHON, update, PYTHON + "\n\ndef other():\n    pass\n")


def test_insertion_at_the_very_start() -> None:
    update = '"""A store."""\n\nimport os\nimport sys\n# ... rest of the file ...\n'
    check(PYTHON, update, '"""A store."""\n\n' + PYTHON)


def test_insertion_at_the_very_end_keeps_the_missing_newline() -> None:
    check("a = 1\nb = 2", "# ...\nb = 2\nc = 3\n", "a = 1\nb = 2\nc = 3")


def test_replacement_at_the_edges_of_the_file() -> None:
    original = "# Old title\n\nfirst paragraph of text\n\nlast paragraph of text\n"
    update = "# New title\n\nfirst paragraph of text\n\n<!-- ... existing content ... -->\n"
    check(original, update, original.replace("Old", "New"), language="markdown")


def test_new_import_without_context() -> None:
    update = "# ... existing imports ...\nimport re\n\n# ... existing code ...\n\n"
    update += "def main():\n    store = Store(sys.argv[2])\n"
    prediction = predict(PYTHON, update)
    assert "import sys\nimport re\n\nTIMEOUT" in prediction.text


# -- indentation -----------------------------------------------------------------------------------------------------
def test_dedented_method() -> None:
    update = "def load(self):\n    with open(self.path) as file:\n        return file.read().strip()\n"
    check(PYTHON, update, swap(PYTHON, "return file.read()", "return file.read().strip()"))


def test_spaces_for_a_file_of_tabs() -> None:
    update = "// ...\nfunc sub(a, b int) int {\n    if a < b {\n        return 0\n    }\n    return a - b\n}\n// ..."
    wanted = swap(GO, "\treturn a - b", "\tif a < b {\n\t\treturn 0\n\t}\n\treturn a - b")
    check(GO, update, wanted, language="go")


def test_a_change_of_indentation_is_kept() -> None:
    original = "def f(x):\n    a(x)\n    b(x)\n    return x\n"
    update = "def f(x):\n    if x:\n        a(x)\n        b(x)\n    return x\n"
    check(original, update, update)


# -- what is no part of the file -------------------------------------------------------------------------------------
def test_fence_and_file_name_are_left_out() -> None:
    update = "```python\n# src/store.py\n# ... existing code ...\n\nTIMEOUT = 60\n\n\nclass Store:\n# ...\n```"
    prediction = predict(PYTHON, update, path="src/store.py")
    assert "```" not in prediction.text
    assert "store.py" not in prediction.text


def test_fence_inside_a_markdown_file_stays() -> None:
    original = "# Title\n\nRun:\n\n```sh\nmake\n```\n\nDone.\n"
    update = "Run:\n\n```sh\nmake test\n```\n\nDone.\n"
    check(original, update, original.replace("make\n", "make test\n"), language="markdown")


def test_remarks_are_not_copied() -> None:
    update = "# ...\nimport sys\n\nTIMEOUT = 60  # <- was 30\n\n\nclass Store:\n# ..."
    check(PYTHON, update, swap(PYTHON, "TIMEOUT = 30", "TIMEOUT = 60"))


def test_remark_on_an_unchanged_line() -> None:
    update = "import sys  # <-- unchanged, for context\n\nTIMEOUT = 60\n\n\nclass Store:\n"
    check(PYTHON, update, swap(PYTHON, "TIMEOUT = 30", "TIMEOUT = 60"))


def test_hint_names_the_place() -> None:
    update = "// add after sub\nfunc mul(a, b int) int {\n\treturn a * b\n}\n"
    wanted = swap(GO, "\treturn a - b\n}\n", "\treturn a - b\n}\n\nfunc mul(a, b int) int {\n\treturn a * b\n}\n")
    check(GO, update, wanted, language="go")


def test_deletion_by_comment() -> None:
    update = "func add(a, b int) int {\n\treturn a + b\n}\n\n// removed sub\n\nfunc main() {\n\t// ...\n}\n"
    check(GO, update, swap(GO, "func sub(a, b int) int {\n\treturn a - b\n}\n\n", ""), language="go")


def test_deletion_by_comment_between_markers() -> None:
    update = "// ... existing code ...\n\n// removed: sub\n\n// ... existing code ...\n"
    wanted = swap(GO, "func sub(a, b int) int {\n\treturn a - b\n}\n\n", "")
    check(GO, update, wanted, language="go")


def test_a_comment_that_speaks_of_removal_is_content() -> None:
    new = "# Entries are removed after this many seconds without\n# a request.\nTTL = 5\n"
    update = f"# ...\nTIMEOUT = 30\n{new}\n\nclass Store:\n"
    check(PYTHON, update, swap(PYTHON, "30\n", f"30\n{new}"))


# -- context as models quote it --------------------------------------------------------------------------------------
def test_trailing_space_of_the_original_stays() -> None:
    original = "first line  \nsecond line\t\nthird line\n"
    check(
        original, "first line\nsecond line\nthird line, changed\n", "first line  \nsecond line\t\nthird line, changed\n"
    )


def test_shortened_context_keeps_the_files_wording() -> None:
    original = swap(PYTHON, "def save(self, text):", "def save(self, text, mode=0o644, backup=True):")
    update = '# ...\n    def save(self, ...):\n        with open(self.path, "wb") as file:\n'
    update += "            file.write(text)\n# ..."
    check(original, update, swap(original, 'self.path, "w")', 'self.path, "wb")'))


def test_repeated_blocks_are_told_apart_by_the_header() -> None:
    original = "".join(f"def f{n}(x):\n    y = x\n    return y\n\n\n" for n in range(5))
    update = "# ...\ndef f3(x):\n    y = x\n    return y + 1\n# ...\n"
    wanted = original.replace("def f3(x):\n    y = x\n    return y\n", "def f3(x):\n    y = x\n    return y + 1\n")
    prediction = predict(original, update)
    assert prediction.text in {wanted, wanted.replace("y + 1\n", "y + 1\n    return y\n")}


def test_snippet_that_changes_nothing() -> None:
    check(PYTHON, "# ...\ndef main():\n# ...", PYTHON)


def test_lines_in_another_order_are_a_change() -> None:
    original = "def run(box):\n    check(box)\n    width = measure(box)\n    log(box)\n    save(box)\n    return box\n"
    update = "def run(box):\n    check(box)\n    log(box)\n    width = measure(box)\n    save(box)\n# ...\n"
    wanted = "def run(box):\n    check(box)\n    log(box)\n    width = measure(box)\n    save(box)\n    return box\n"
    check(original, update, wanted)


def test_marker_less_class_and_method_does_not_delete_the_others() -> None:
    update = "class Store:\n    def save(self, text):\n        with open(self.path, 'wb') as file:\n"
    update += "            file.write(text)\n"
    prediction = predict(PYTHON, update)
    assert "def load" in prediction.text


# -- texts at the edge -----------------------------------------------------------------------------------------------
def test_empty_original_is_a_new_file() -> None:
    prediction = check("", "print(1)\n", "print(1)\n")
    assert prediction.determined
    assert prediction.certainty is Certainty.CERTAIN


def test_new_file_in_a_fence() -> None:
    assert predict("", "```python\nprint(1)\n```").text == "print(1)"


def test_dollar_signs_and_backslashes_are_plain_text() -> None:
    check("a = 1\nb = 2\n", 'a = 1\nb = "$1 \\\\1 ${x}"\n', 'a = 1\nb = "$1 \\\\1 ${x}"\n')


def test_a_scope_whose_bracket_stays_open_is_not_shown_whole() -> None:
    update = "func add(a, b int) int {\n\tcheck(a, b)\n// ...\nfunc sub(a, b int) int {\n\tcheck(a, b)\n// ...\n"
    wanted = swap(GO, "func add(a, b int) int {\n", "func add(a, b int) int {\n\tcheck(a, b)\n")
    wanted = swap(wanted, "func sub(a, b int) int {\n", "func sub(a, b int) int {\n\tcheck(a, b)\n")
    check(GO, update, wanted, language="go")


def test_a_comment_on_what_holds_if_something_is_removed_is_no_deletion_note() -> None:
    update = """\
    def save(self, text):
        # If the file was deleted, it is made anew.
        with open(self.path, "w") as file:
"""
    wanted = swap(
        PYTHON, "save(self, text):\n", "save(self, text):\n        # If the file was deleted, it is made anew.\n"
    )
    check(PYTHON, update, wanted)
