"""Scopes by indentation: heads, ends, heads over several lines."""

from __future__ import annotations

import pytest

from apply_eval.sketch_layout import Outline, is_definition
from tests.eval.samples import GO, MARKDOWN, PYTHON, TYPESCRIPT, YAML


def line_of(text: str, start: str) -> int:
    return next(i for i, line in enumerate(text.split("\n")) if line.strip().startswith(start))


def heads(text: str, language: str, inside: str) -> list[str]:
    lines = text.split("\n")
    at = line_of(text, inside)
    indent = len(lines[at]) - len(lines[at].lstrip())
    return [lines[h].strip() for h in Outline(lines, language).headers(at, indent)]


def test_heads_are_found_outermost_first() -> None:
    assert heads(PYTHON, "python", "raise ValueError") == ["class Archive:", "def add(self, reading: Reading) -> None:"]
    assert heads(TYPESCRIPT, "typescript", "return book;") == [
        "export class Library {",
        "find(title: string): Book | undefined {",
    ]
    assert heads(GO, "go", "return value, nil") == ["func (s *Store) Get(key string) (string, error) {"]


def test_data_and_prose_have_heads_too() -> None:
    assert heads(YAML, "yaml", "- run: make test") == ["jobs:", "test:", "steps:"]
    assert heads(MARKDOWN, "markdown", "- summer: water") == ["## Seasons"]


@pytest.mark.parametrize(
    ("text", "language", "head", "last"),
    [
        (PYTHON, "python", "class Reading", "return self.celsius * 9 / 5 + 32"),
        (TYPESCRIPT, "typescript", "count(): number", "}"),
        (GO, "go", "func New()", "}"),
        (MARKDOWN, "markdown", "## Seasons", ""),
    ],
)
def test_scope_ends_with_its_closing_line(text: str, language: str, head: str, last: str) -> None:
    lines = text.split("\n")
    outline = Outline(lines, language)
    start = line_of(text, head)
    end = outline.scope_end(start)
    assert lines[end].strip() == last
    following = next((line for line in lines[end + 1 :] if line.strip()), "")
    assert len(following) - len(following.lstrip()) <= outline.indents[start]


def test_a_head_over_several_lines_is_one_head() -> None:
    lines = ["def f(", "    a: int,", ") -> int:", "    x = 1", "    return x", "", "y = 2"]
    outline = Outline(lines, "python")
    assert outline.headers(4, 4) == [0]
    assert outline.head_end(0) == 2
    assert outline.scope_end(0) == 4


def test_decorators_belong_to_their_definition() -> None:
    lines = ["x = 1", "@cache", "@other(1)", "def f():", "    pass"]
    assert Outline(lines, "python").decorated_start(3) == 1


@pytest.mark.parametrize(
    "line", ["def f(x):", "  async def f():", "pub fn f() {", "class A {", "  run(x) {", "func (s *S) F() {"]
)
def test_definitions(line: str) -> None:
    assert is_definition(line)


@pytest.mark.parametrize("line", ["if (x) {", "  } else {", "for x in y:", "return f(x)", "x = 1", "", "while (a) {"])
def test_not_definitions(line: str) -> None:
    assert not is_definition(line)
