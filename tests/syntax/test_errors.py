"""Syntax errors: none in the samples, some in broken ones, none where there is no grammar."""

from __future__ import annotations

import pytest

from apply_service.syntax.trees import MAX_ERRORS, count_syntax_errors
from tests.syntax.samples import SAMPLES

BROKEN = {
    "python": ("def f(:\n    pass\n", 0),
    "typescript": ("const a = 1;\nfunction f( {\n}\n", 1),
    "go": ("package a\n\nfunc f() {\n\tx := (1\n}\n", 3),
    "rust": ("fn f() {\n    let = ;\n}\n", 1),
    "java": ("class A {\n  void f( {\n  }\n}\n", 1),
    "json": ('{\n  "a": 1,\n  "b" 2\n}\n', 2),
    "css": (".a {\n  color: red;\n", 2),
    "yaml": ("a: [1, 2\nb: 3\n", 0),
    "toml": ("a = \n", 0),
}


@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_the_samples_are_sound(language: str) -> None:
    assert count_syntax_errors(SAMPLES[language], language) == []


@pytest.mark.parametrize("language", sorted(BROKEN))
def test_broken_text_has_errors(language: str) -> None:
    text, line = BROKEN[language]
    found = count_syntax_errors(text, language)
    assert found
    assert found == sorted(found)
    assert found[0] <= line


def test_a_missing_token_is_an_error() -> None:
    assert count_syntax_errors("int f(void) { return 1 }\n", "c") == [0]


@pytest.mark.parametrize("language", [None, "klingon", "lua"])
def test_no_grammar_no_errors(language: str | None) -> None:
    assert count_syntax_errors("((((", language) == []


def test_an_error_at_the_end_lies_in_the_text() -> None:
    for text in ("class A {", "class A {\n", "int f() {\n  return (1", "/*"):
        found = count_syntax_errors(text, "java")
        assert found
        assert max(found) <= text.count("\n")


def test_the_count_is_bounded() -> None:
    text = "\n".join(f"x{i} = = {i * 7919 % 10007}; y{i} )" for i in range(3 * MAX_ERRORS))
    assert 0 < len(count_syntax_errors(text, "javascript")) <= MAX_ERRORS
