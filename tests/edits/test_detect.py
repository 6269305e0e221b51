"""The right format, and never another because of what a file's text looks like."""

from __future__ import annotations

import subprocess
import sys

import pytest

from apply_service.errors import UnknownEditFormat
from apply_service.registry import EDIT_FORMATS
from apply_service.reply.reader import detect_format

BLOCK = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
PATCH = "*** Begin Patch\n*** Update File: x.py\n@@\n a\n-b\n+c\n*** End Patch\n"


@pytest.mark.parametrize(
    ("update", "name"),
    [
        (BLOCK, "search_replace"),
        (DIFF, "unified_diff"),
        (PATCH, "v4a_patch"),
        (f"```diff\n{DIFF}```", "unified_diff"),
        (f"<<<<<<< SEARCH\n{DIFF}=======\ndiff --git a/x b/x\n>>>>>>> REPLACE\n", "search_replace"),
        ("--- a/x.py\n+++ b/x.py\n@@ -1 +1,3 @@\n a\n+<<<<<<< SEARCH\n+*** End Patch\n", "unified_diff"),
        (
            "commit 1a2b3c4d\nAuthor: A <a@b.c>\nDate:   Mon\n\n    Subject\n\ndiff --git a/x b/x\n" + DIFF,
            "unified_diff",
        ),
        ("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", "unified_diff"),
        ("def f():\n    return 1\n", "lazy_snippet"),
        ("", "lazy_snippet"),
    ],
)
def test_each_format_is_known(update: str, name: str) -> None:
    assert detect_format(update, named=None) == name


@pytest.mark.parametrize(
    "update",
    [
        # a test file whose strings hold every format
        f'# ... existing code ...\n\ndef test_it():\n    edit = """\n{BLOCK}"""\n    check(edit)\n',
        f'def test_it():\n    diff = """\\\n{DIFF}"""\n    check(diff)\n',
        f"# ... existing code ...\nPATCH = '''\\\n{PATCH}'''\n",
        f"EDIT = '''{BLOCK}'''\n",
        # documentation of these formats
        f"## Formats\n\nSearch and replace:\n\n```\n{BLOCK}```\n\nUnified diff:\n\n```diff\n{DIFF}```\n",
        f"<!-- ... existing content ... -->\n\nA patch looks so:\n\n```\n{PATCH}```\n\n<!-- ... -->\n",
        f"# ... existing code ...\n{BLOCK}# ... existing code ...\n",
        f"// ... existing code ...\n{DIFF}// ... existing code ...\n",
        "- item\n+ item\n@ home\n",
        "- one\n- two\n+ three\n",
        "@@counter = 0\n@@names = []\n\ndef self.count\n  @@counter\nend\n",
        "---\ntitle: x\n---\n\n+++ more\n",
        "=======\nTitle\n=======\n",
        "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> branch\n",
        "*** Settings ***\nLibrary    Browser\n\n*** Test Cases ***\nOpen\n    No Operation\n",
        "    <<<<<<< SEARCH\n    a\n    =======\n    b\n    >>>>>>> REPLACE\n",
    ],
)
def test_content_is_never_control(update: str) -> None:
    assert detect_format(update, named=None) == "lazy_snippet"


@pytest.mark.parametrize(
    ("update", "name"),
    [
        ("x = 1\n" + BLOCK, "search_replace"),
        ("x = 1\n" + DIFF, "unified_diff"),
        ("git apply <<EOF\ndiff --git a/x b/x\n" + DIFF + "EOF\n", "unified_diff"),
        ("@@ -1 +1 @@\n print(1)\n", "unified_diff"),
        ("--- a\n+++ b\n", "unified_diff"),
    ],
)
def test_complete_markers_decide(update: str, name: str) -> None:
    assert detect_format(update, named=None) == name


@pytest.mark.parametrize("name", list(EDIT_FORMATS))
def test_a_named_format_is_taken_at_its_word(name: str) -> None:
    assert detect_format("anything", named=name) == name


@pytest.mark.parametrize("name", ["diff", "", "LAZY_SNIPPET"])
def test_an_unknown_format_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownEditFormat) as refused:
        detect_format("x", named=name)
    assert refused.value.value == name
    assert refused.value.limit == list(EDIT_FORMATS)


def test_detection_and_exact_formats_need_no_torch() -> None:
    program = (
        "import sys\n"
        "from apply_service.reply.reader import detect_format\n"
        "from apply_service.protocols import EditContext\n"
        "from apply_service.registry import EDIT_FORMATS, resolve\n"
        f"for update in {[BLOCK, DIFF, PATCH]!r}:\n"
        "    name = detect_format(update, named=None)\n"
        "    resolve(EDIT_FORMATS, name)('a\\nb\\n', update, EditContext())\n"
        "print([m for m in ('torch', 'transformers') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
