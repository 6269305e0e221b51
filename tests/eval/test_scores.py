"""Hand-made right and wrong answers for every question that is asked of an answer."""

from __future__ import annotations

import sys

import pytest

from apply_eval.datasets import EditRecord, measure_edit
from apply_eval.scores import (
    Scores,
    count_lines_outside,
    diff_hunks,
    is_equivalent,
    is_same_but_blanks,
    is_same_but_misquotes,
    is_same_tree,
    is_slight,
    is_syntax_kept,
    score_answer,
)

SOURCE = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
AFTER = SOURCE.replace("return 1", "return 11")


def record(language: str | None = "python", path: str | None = "a.py") -> EditRecord:
    return EditRecord("r", SOURCE, AFTER, measure_edit(SOURCE, AFTER), language=language, path=path)


def test_a_right_answer_scores_full_marks() -> None:
    assert score_answer(record(), AFTER) == Scores(True, True, True, True, True, 1.0, True, 0)


def test_a_wrong_one_is_told_apart_by_every_scorer() -> None:
    found = score_answer(record(), AFTER.replace("import os\n", "") + "}\n")
    assert (found.exact, found.same_but_blanks, found.same_tree, found.syntax_kept) == (False, False, False, False)
    assert found.lines_outside == 2
    assert 0.8 < found.edit_similarity < 1


def test_the_language_is_found_by_the_path_or_not_at_all() -> None:
    assert score_answer(record(language=None), AFTER).same_tree is True
    assert score_answer(record(language="toml", path="a.toml"), SOURCE).syntax_kept is None
    unknown = score_answer(record(language=None, path=None), AFTER)
    assert unknown.same_tree is None
    assert unknown.equivalent is None
    assert unknown.exact


WANTED = "def f():\n    return 1\n\n\nx = 2\n"


@pytest.mark.parametrize(
    "answer",
    [
        WANTED.replace("\n", "\r\n"),
        WANTED.rstrip("\n"),
        WANTED + "\n",
        WANTED.replace("1", "1 "),
        WANTED.replace("    ", "\t"),
        WANTED.replace("x", "х"),
        "",
    ],
    ids=["line ends", "no final newline", "one newline more", "trailing space", "tabs", "look-alike letter", "empty"],
)
def test_one_byte_off_is_wrong(answer: str) -> None:
    edit = EditRecord("a", "", WANTED, measure_edit("", WANTED), language="python")
    assert score_answer(edit, WANTED).exact
    assert not score_answer(edit, answer).exact


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        (WANTED, True),
        (WANTED.replace("\n", "\r\n"), True),
        (WANTED.rstrip("\n"), True),
        (WANTED.replace("\n\n\n", "\n"), True),
        (WANTED.replace("1\n", "1  \t\n"), True),
        (WANTED.replace("    return", "  return"), False),
        (WANTED.replace("x = 2", "x  = 2"), False),
        (WANTED.replace("x = 2\n", ""), False),
        ("", False),
    ],
)
def test_blanks_and_line_ends_may_differ_and_nothing_else(answer: str, same: bool) -> None:
    assert is_same_but_blanks(WANTED, answer) is same


def test_empty_texts_are_equal_everywhere() -> None:
    assert is_same_but_blanks("", "\n \n")


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


QUOTED = "import os\n\n# note that the cache is cleared\nlimit = 'ten'\nsize = 1\n"
MEANT = QUOTED.replace("size = 1", "size = 2")
UPDATE = '# note that ...\n    limit = "ten"\nsize = 2\n'


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        (MEANT, True),
        (MEANT.replace("'ten'", '"ten"'), True),
        (MEANT.replace("# note that the cache is cleared", "# note that ..."), True),
        (MEANT.replace("'ten'", '"ten"').replace("# note that the cache is cleared", "# note that ..."), True),
        (MEANT.replace("'ten'", "'eleven'"), False),
        (MEANT.replace("limit = 'ten'", "size = 2"), False),
        (MEANT.replace("limit = 'ten'\n", ""), False),
        (MEANT.replace("size = 2", "size = 1"), False),
        (QUOTED, False),
        (MEANT.replace("import os\n\n", "import os\n"), True),
        (MEANT.replace("# note that the cache is cleared\nlimit = 'ten'", "# note that ..."), False),
        (MEANT.replace("import os", "# note that ..."), False),
    ],
    ids=[
        "right", "other quotes", "short comment", "both", "not in the update", "a wanted line", "line lost",
        "edit lost", "no edit", "blank line", "two lines by one", "unlike",
    ],
)  # fmt: skip
def test_only_misquoted_lines_are_forgiven(answer: str, same: bool) -> None:
    assert is_same_but_misquotes(QUOTED, MEANT, answer, UPDATE) is same


def test_a_line_that_the_edit_writes_is_no_context() -> None:
    wanted = QUOTED.replace("size = 1", "size = 'one'")
    answer = wanted.replace("'one'", '"one"')
    assert not is_same_but_misquotes(QUOTED, wanted, answer, 'size = "one"\n')


BEFORE = "".join(f"{i}\n" for i in range(20))
NUMBERED = BEFORE.replace("10\n", "ten\n", 1)


def test_a_right_answer_has_none() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED) == 0


def test_wrong_inside_the_edit_alone() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, BEFORE) == 0
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("ten\n", "zehn\n")) == 0
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("ten\n", "")) == 0
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("ten\n", "ten\nmore\n")) == 0


def test_lines_lost_or_altered_elsewhere() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("3\n4\n", "", 1)) == 2
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("3\n", "three\n", 1)) == 1
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("17\n18\n19\n", "")) == 3


def test_lines_added_elsewhere() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED + "a\nb\n") == 2
    assert count_lines_outside(BEFORE, NUMBERED, "// remark\n" + NUMBERED) == 1


def test_a_cut_that_starts_in_the_edit_counts_beyond_it() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("ten\n11\n12\n", "")) == 2


def test_a_lost_final_newline_is_a_line() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.rstrip("\n")) >= 1


def test_changed_line_ends_are_wrong_lines() -> None:
    assert count_lines_outside(BEFORE, NUMBERED, NUMBERED.replace("\n", "\r\n")) >= 19


def test_an_insertion_in_the_wrong_place() -> None:
    wanted = BEFORE.replace("5\n", "5\nnew\n", 1)
    misplaced = BEFORE.replace("14\n", "14\nnew\n", 1)
    assert count_lines_outside(BEFORE, wanted, misplaced) == 1


def test_a_new_file_is_all_edit() -> None:
    assert count_lines_outside("", "a\nb\n", "c\n") == 0


def test_the_hunks_of_a_difference() -> None:
    assert diff_hunks("a\nb\n", "a\nc\n", 9) == ["@@ -1,2 +1,2 @@", " a", "-b", "+c", ""]
    assert diff_hunks("", "c\n", 9)[1:] == ["+c", ""]
    assert diff_hunks("a\n", "a\n", 9) == []
    assert diff_hunks("a\nb\n", "a\nc\n", 2)[2:] == ["... 3 more lines"]


@pytest.mark.parametrize(
    ("answer", "slight"),
    [
        ("# start\na = 1\nb = 2\n", True),
        ("# begin\na = 1\n\nb = 2\n", True),
        ("# begin\n  a=1\nb = 2", True),
        ("# how it\n# begins\na = 1\nb = 2\n", True),
        ("a = 1\nb = 2\n", False),
        ("# begin\na = 1\n", False),
        ("# begin\na = 1\na = 1\nb = 2\n", False),
        ("# begin\nb = 2\na = 1\n", False),
    ],
)
def test_slight_errors(answer: str, slight: bool) -> None:
    assert is_slight("# begin\na = 1\nb = 2\n", answer) is slight


# -- aiXapply's measure ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("language", "wanted", "answer", "is_same"),
    [
        ("json", '{"a": 1, "b": [1, 2]}\n', '{\n  "b": [1, 2],\n  "a": 1.0\n}', True),
        ("json", '{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ("json", '{"a": 1}', '{"a": 1', False),
        ("json", '{"a": 1} // kept', '{"a":   1}   // kept\n', True),
        ("json", '{"a": 1} // kept', '{"a": 1} // lost', False),
        ("json", "[" * 100_000, "[" * 100_000 + "]", False),
        ("yaml", "a: 1\nb: {c: [x, y]}\n", "b:\n  c:\n  - x\n  - y\na: 1 # one\n", True),
        ("yaml", "a: 1\n---\na: 2\n", "a: 1\n", False),
        ("yaml", "a: !Ref b\n", "a:   !Ref b\n", True),
        ("yaml", "a: [1\n", "a: 1\n", False),
        ("python", WANTED, WANTED.replace("\n\n\n", "\n").replace(" = ", "="), True),
        ("python", "if a:\n    b()\n", "if a:\n  b()\n", True),
        ("python", "f(a)\ng()\n", "f(b)\ng()\n", False),
        ("python", "x = 1  # one\n", "x = 1\n", False),
        ("csharp", "int a = 1;", "int  a=1 ;", True),
        ("shell", "a=1\n", "a=2\n", False),
        ("svelte", "a", "a", None),
        (None, "a", "a", None),
    ],
)
def test_what_aixapply_calls_equal(language: str | None, wanted: str, answer: str, is_same: bool | None) -> None:
    assert is_equivalent(wanted, answer, language) is is_same


@pytest.mark.parametrize("name", ["pygments", "yaml"])
def test_it_is_not_known_in_a_plain_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert is_equivalent("a = 1\n", "a = 1\n", "python") is None
