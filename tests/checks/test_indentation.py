"""Indentation that does not fit."""

from __future__ import annotations

import pytest

from tests.checks.answers import answer, findings, severities

ORIGINAL = (
    "class A:\n    def f(self):\n        a = 1\n        b = 2\n        return a\n\n    def g(self):\n        return 2\n"
)
EDITED = ORIGINAL.replace("b = 2", "b = 3")
UPDATE = "        a = 1\n        b = 3\n        return a"


def test_the_right_answer() -> None:
    assert findings("indentation", answer(ORIGINAL, EDITED, update=UPDATE)) == []


def test_tabs_in_a_file_of_spaces_and_spaces_in_a_file_of_tabs() -> None:
    for language in ("python", "javascript", None):
        merged = EDITED.replace("        b = 3", "\t\tb = 3")
        item = answer(ORIGINAL, merged, update=UPDATE, expected=EDITED, language=language)
        assert severities(findings("indentation", item)) == {"warning"}
    tabs = ORIGINAL.replace("    ", "\t")
    merged = EDITED.replace("    ", "\t").replace("\t\tb = 3", "        b = 3")
    found = findings("indentation", answer(tabs, merged, update=UPDATE, expected=EDITED.replace("    ", "\t")))
    assert severities(found) == {"warning"}
    assert found[0].lines == (4, 4)


def test_a_file_that_mixes_already_may_go_on() -> None:
    original = "a:\n\tb\n    c\n\td\n    e\n\tf\n"
    assert findings("indentation", answer(original, original + "    g\n\th\n", update="g", language=None)) == []


def test_aligned_comments_in_a_file_of_tabs_are_fine() -> None:
    original = "func a() {\n\tb()\n\tc()\n\td()\n\te()\n\tf()\n}\n"
    merged = "/*\n * doc\n */\n" + original
    assert findings("indentation", answer(original, merged, update="/*\n * doc\n */", language="go")) == []


def test_a_file_without_indentation_has_no_style() -> None:
    item = answer("a = 1\nb = 2\n", "a = 1\nif a:\n\tb = 2\n", update="if a:\n\tb = 2")
    assert findings("indentation", item) == []


@pytest.mark.parametrize("indent", ["", "  ", "      ", "            "])
def test_a_python_statement_off_its_block(indent: str) -> None:
    merged = EDITED.replace("        b = 3", f"{indent}b = 3")
    assert severities(findings("indentation", answer(ORIGINAL, merged, update=UPDATE, expected=EDITED))) == {"warning"}


@pytest.mark.parametrize("indent", ["  ", "      "])
def test_the_block_is_told_without_a_prediction_to_compare(indent: str) -> None:
    merged = EDITED.replace("        b = 3", f"        if a:\n            pass\n{indent}b = 3")
    found = findings("indentation", answer(ORIGINAL, merged, update=UPDATE))
    assert any("line up" in verdict.message for verdict in found)


def test_continuation_lines_strings_and_comments_may_stand_anywhere() -> None:
    merged = ORIGINAL + (
        '\n    def h(self):\n        x = f(\n  1,\n            2)\n        y = """\nfoo\n    """\n  # odd comment\n'
        "        if x and \\\n  y:\n            return 1\n        else:\n            pass; z = 2\n"
    )
    assert findings("indentation", answer(ORIGINAL, merged, update="def h")) == []


def test_what_lines_up_badly_already_is_left_alone() -> None:
    original = "if a:\n    b\n  c\nd = 1\n"
    assert findings("indentation", answer(original, original.replace("d = 1", "d = 2"), update="d = 2")) == []


@pytest.mark.parametrize("language", ["typescript", "java", None])
def test_a_line_of_the_edit_at_another_indentation(language: str | None) -> None:
    original = "class A {\n  f() {\n    a();\n  }\n  g() {\n    b();\n  }\n  h() {\n    c();\n  }\n}\n"
    expected = original.replace("    b();", "    b();\n    bb();")
    merged = expected.replace("    bb();", "  bb();")
    found = findings("indentation", answer(original, merged, update="    bb();", expected=expected, language=language))
    assert [verdict.lines for verdict in found] == [(7, 7)]


def test_a_brace_at_another_place_is_nothing() -> None:
    original = "f() {\n  a();\n}\n"
    merged = "f() {\n  if (x) {\n    a();\n  }\n}\n"
    assert findings("indentation", answer(original, merged, update="if (x) {\n  a();\n}", language="typescript")) == []
