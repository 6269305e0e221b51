"""Imports, name by name."""

from __future__ import annotations

import pytest

from apply_service.syntax.symbols import Symbol, find_symbols
from tests.syntax.samples import SAMPLES

IMPORTS: dict[str, list[str]] = {
    "python": ["os", "a:b", "a:c as d"],
    "typescript": ["x:a", "x:b"],
    "javascript": ["x:a", "x:b"],
    "go": ['"fmt"', 'x "y/z"'],
    "rust": ["std::io", "a::b", "a::c"],
    "java": ["java.util.List", "static x.Y.z"],
    "c": ["<stdio.h>", '"a.h"'],
    "cpp": ["<vector>", "std::string"],
    "csharp": ["System"],
    "ruby": ['"a"', '"b"'],
    "php": ["C\\D", "E\\F", "E\\G"],
    "kotlin": ["b.c", "d.*"],
}


def find_imports(text: str, language: str | None) -> list[Symbol]:
    return [symbol for symbol in find_symbols(text, language) if symbol.kind == "import"]


@pytest.mark.parametrize("language", sorted(IMPORTS))
def test_imports_of_a_sample(language: str) -> None:
    assert [item.name for item in find_imports(SAMPLES[language], language)] == IMPORTS[language]


@pytest.mark.parametrize("language", ["html", "json", "yaml", "toml", "markdown", "sql", None, "klingon"])
def test_languages_without_imports(language: str | None) -> None:
    assert find_imports(SAMPLES.get(language or "", "import x"), language) == []


def test_a_python_import_knows_the_line_of_each_name() -> None:
    found = find_imports("\nfrom a import (\n    b,\n    c,\n)\nfrom d import *\nimport e.f as g\n", "python")
    assert [(item.name, item.line) for item in found] == [("a:b", 2), ("a:c", 3), ("d:*", 5), ("e.f as g", 6)]


def test_kinds_of_javascript_imports() -> None:
    text = (
        "import 'side';\nimport def, { a as b } from './x';\nimport * as all from \"y\";\nimport type { T } from 't';\n"
    )
    assert [item.name for item in find_imports(text, "typescript")] == [
        "side:",
        "./x:def",
        "./x:a as b",
        "y:* as all",
        "t:T",
    ]


def test_nested_groups_are_written_out() -> None:
    names = [item.name for item in find_imports("use a::{self, b::{c, d as e}, f::*};\n", "rust")]
    assert names == ["a::self", "a::b::c", "a::b::d as e", "a::f::*"]


def test_an_import_inside_a_function_is_indented() -> None:
    found = find_imports("import a\ndef f():\n    import b\n", "python")
    assert [(item.name, item.is_indented) for item in found] == [("a", False), ("b", True)]


def test_a_call_that_only_looks_like_a_ruby_import() -> None:
    assert find_imports('puts "a"\nrequire "b"\n', "ruby")[0].name == '"b"'
    assert len(find_imports('puts "a"\nrequire "b"\n', "ruby")) == 1
