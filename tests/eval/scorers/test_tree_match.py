"""Hand-made right and wrong answers as a grammar sees them."""

from __future__ import annotations

import pytest

from apply_eval.scorers.tree_match import is_same_tree, is_syntax_kept

PYTHON = "def f(a, b):\n    # add\n    return a + b\n\n\nNAME = 'x'\n"
TYPESCRIPT = "export function f(a: number): number {\n  return a + 1;\n}\n"


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        (PYTHON, True),
        (PYTHON.replace("\n", "\r\n"), True),
        (PYTHON.replace("a + b", "a  +  b"), True),
        (PYTHON.replace("f(a, b)", "f(\n    a,\n    b\n)"), True),
        (PYTHON.replace("\n\n\n", "\n"), True),
        (PYTHON.replace("# add", "# sum"), False),
        (PYTHON.replace("    # add\n", ""), False),
        (PYTHON.replace("a + b", "a - b"), False),
        (PYTHON.replace("a + b", "b + a"), False),
        (PYTHON.replace("'x'", "'x '"), False),
        (PYTHON.replace("    return", "return"), False),
        (PYTHON + "extra = 1\n", False),
        (PYTHON[:20], False),
        ("", False),
    ],
)
def test_python(answer: str, same: bool) -> None:
    assert is_same_tree(PYTHON, answer, "python") is same


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        (TYPESCRIPT, True),
        (TYPESCRIPT.replace("{\n  return a + 1;\n}", "{ return a + 1; }"), True),
        (TYPESCRIPT.replace("number {", "string {"), False),
        (TYPESCRIPT.replace("+ 1", "+ 2"), False),
        (TYPESCRIPT.replace("}\n", ""), False),
    ],
)
def test_typescript(answer: str, same: bool) -> None:
    assert is_same_tree(TYPESCRIPT, answer, "typescript") is same


def test_indentation_counts_where_it_has_meaning() -> None:
    wanted = "if a:\n    b()\n    c()\n"
    assert is_same_tree(wanted, "if a:\n  b()\n  c()\n", "python") is True
    assert is_same_tree(wanted, "if a:\n    b()\nc()\n", "python") is False


def test_words_that_a_grammar_leaves_without_a_node_count() -> None:
    assert is_same_tree("# One\n\nsome words\n", "# One\n\nother words\n", "markdown") is False
    assert is_same_tree("a: 1\n", "a: 2\n", "yaml") is False
    assert is_same_tree('{"a": "b"}', '{"a": "c"}', "json") is False


def test_what_no_grammar_can_tell_is_unknown() -> None:
    assert is_same_tree("a\n", "a\n", None) is None
    assert is_same_tree("a\n", "a\n", "klingon") is None
    assert is_same_tree("def f(:\n", "def f(:\n", "python") is None


def test_syntax_kept() -> None:
    wanted = PYTHON.replace("a + b", "a * b")
    assert is_syntax_kept(PYTHON, wanted, wanted, "python") is True
    assert is_syntax_kept(PYTHON, wanted, "wholly = 'other'\n", "python") is True
    assert is_syntax_kept(PYTHON, wanted, wanted.replace(")", "", 1), "python") is False
    assert is_syntax_kept(PYTHON, wanted, "```python\n" + wanted + "```\n", "python") is False


def test_syntax_that_was_broken_before_or_is_meant_to_be_is_nobodys_fault() -> None:
    assert is_syntax_kept("def f(:\n", PYTHON, PYTHON, "python") is None
    assert is_syntax_kept(PYTHON, "def f(:\n", "def f(:\n", "python") is None
    assert is_syntax_kept("a", "b", "c", None) is None
