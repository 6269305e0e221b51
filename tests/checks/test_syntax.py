"""Syntax that was fine and is broken."""

from __future__ import annotations

import pytest

from apply_service.syntax.trees import APPROXIMATE
from tests.checks.answers import answer, findings, severities
from tests.syntax.samples import SAMPLES

# What breaks the sample of each language: a piece of it, and what takes its place.
DAMAGE = {
    "python": ("def h(self):", "def h(self:"),
    "typescript": ("  } else {", "  else {"),
    "javascript": ("  } else {", "  else {"),
    "go": ("func (t *T) M() {", "func (t *T M() {"),
    "rust": ("impl<T> S<T> {", "impl<T> S<T>"),
    "java": ("public A() {", "public A( {"),
    "c": ("foo(int a, char *b)", "foo(int a, char *b"),
    "cpp": ("int A::g(int a) {", "int A::g(int a {"),
    "csharp": ("public void M(int a)", "public void M(int a"),
    "ruby": ("def f(a)", "def f(a"),
    "php": ("foreach ($a as $b) {", "foreach ($a as $b {"),
    "kotlin": ("fun g() = 1", "fun g( = 1"),
    "css": (".a > b,", ".a > b, }"),
    "json": ('"a": 1,', '"a": 1'),
    "yaml": ("branches: [a]", "branches: [a"),
    "toml": ("x = 1", "x = "),
    "shell": ("fi\n", "\n"),
    "sql": ("id INT,", "id INT ("),
    "html": ('<div id="main" class="x">', '<div id="main class="x'),
}


@pytest.mark.parametrize("language", sorted(DAMAGE))
def test_damage_is_found(language: str) -> None:
    original = SAMPLES[language]
    piece, broken = DAMAGE[language]
    merged = original.replace(piece, broken, 1)
    assert merged != original
    found = findings("syntax", answer(original, merged, update="x", expected=original, language=language))
    assert severities(found) == {"warning" if language in APPROXIMATE else "error"}
    assert all(verdict.lines is not None for verdict in found)


@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_sound_text_is_fine_also_as_a_new_file(language: str) -> None:
    text = SAMPLES[language]
    assert findings("syntax", answer("", text, update=text, language=language)) == []
    assert findings("syntax", answer(text + "\n", text, update=text, language=language)) == []


def test_a_new_file_that_does_not_parse() -> None:
    found = findings("syntax", answer("", "def f(:\n    pass\n", update="x"))
    assert severities(found) == {"error"}
    assert "new file" in found[0].message


def test_what_was_broken_before_is_not_held_against_the_edit() -> None:
    original = "def f(:\n    pass\n"
    assert findings("syntax", answer(original, original + "def g(:\n    pass\n", update="def g(:")) == []


def test_prose_cannot_be_broken() -> None:
    assert findings("syntax", answer("# A\n", "# A\n\n```\n((\n", update="((", language="markdown")) == []
