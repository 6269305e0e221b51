"""Symbols: what a file declares outside its functions."""

from __future__ import annotations

import pytest

from apply_service.syntax.symbols import find_symbols
from tests.syntax.samples import SAMPLES

NAMES: dict[str, list[tuple[str, str]]] = {
    # name, container
    "python": [("X", ""), ("f", ""), ("A", ""), ("y", "A"), ("g", "A"), ("h", "A")],
    "go": [("T", ""), ("I", ""), ("C", ""), ("a", ""), ("b", ""), ("F", ""), ("M", "")],
    "c": [
        ("X", ""),
        ("F", ""),
        ("T", ""),
        ("S", ""),
        ("g", ""),
        ("proto", ""),
        ("foo", ""),
        ("bar", ""),
        ("E", ""),
        ("z", ""),
    ],
    "java": [
        ("A", ""),
        ("X", "A"),
        ("A", "A"),
        ("f", "A"),
        ("f", "A"),
        ("E", "A"),
        ("I", "A"),
        ("m", "A.I"),
        ("R", ""),
    ],
    "php": [("K", ""), ("A", ""), ("X", "A"), ("$p", "A"), ("f", "A"), ("g", ""), ("I", ""), ("T", ""), ("E", "")],
    "ruby": [("M", ""), ("A", "M"), ("X", "M.A"), ("f", "M.A"), ("g", "M.A")],
    "json": [("a", ""), ("b", "")],
    "yaml": [("on", ""), ("jobs", ""), ("a", ""), ("q", "")],
    "shell": [("A", ""), ("B", ""), ("foo", ""), ("bar", "")],
    "sql": [("a", ""), ("v", ""), ("f", "")],
    "html": [("div#main", "")],
    "markdown": [("T", ""), ("A", "T"), ("A1", "T.A")],
}


@pytest.mark.parametrize("language", sorted(NAMES))
def test_symbols_of_a_sample(language: str) -> None:
    found = [symbol for symbol in find_symbols(SAMPLES[language], language) if symbol.kind != "import"]
    assert [(symbol.name, symbol.container) for symbol in found] == NAMES[language]


@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_symbols_lie_in_the_text_and_show_their_header(language: str) -> None:
    lines = SAMPLES[language].split("\n")
    symbols = find_symbols(SAMPLES[language], language)
    assert symbols
    for symbol in symbols:
        assert 0 <= symbol.line < len(lines)
        assert symbol.signature == ("" if symbol.kind == "import" else " ".join(lines[symbol.line].split()))


def test_typescript_and_rust_have_their_variables() -> None:
    typescript = {(s.name, s.kind, s.container) for s in find_symbols(SAMPLES["typescript"], "typescript")}
    assert {
        ("C", "variable", ""),
        ("x", "variable", "A"),
        ("foo", "function", "A"),
        ("p", "variable", ""),
    } <= typescript
    rust = {(s.name, s.kind, s.container) for s in find_symbols(SAMPLES["rust"], "rust")}
    assert {("K", "variable", "S<T>"), ("Z", "variable", ""), ("a", "function", "tests"), ("A", "class", "")} <= rust


def test_what_a_function_declares_is_its_own_affair() -> None:
    text = "def f():\n    x = 1\n    def g():\n        pass\n    class H:\n        y = 2\n"
    assert [symbol.name for symbol in find_symbols(text, "python")] == ["f"]
    text = "function f() {\n  const x = 1;\n}\ndescribe('a', () => {\n  const y = 1;\n  function z() {}\n});\n"
    assert [symbol.name for symbol in find_symbols(text, "javascript")] == ["f"]


def test_a_branch_at_top_level_hides_nothing_but_is_told() -> None:
    text = "if A:\n    def f(): pass\nelse:\n    def f(): pass\n"
    found = find_symbols(text, "python")
    assert [symbol.name for symbol in found] == ["f", "f"]
    assert found[0].branch != found[1].branch


def test_overloads_have_different_signatures() -> None:
    text = "class A {\n  void f(int a) {}\n  void f(String a) {}\n}\n"
    signatures = [symbol.signature for symbol in find_symbols(text, "java") if symbol.name == "f"]
    assert signatures == ["void f(int a) {}", "void f(String a) {}"]


@pytest.mark.parametrize("language", [None, "klingon", "lua"])
def test_no_grammar_no_symbols(language: str | None) -> None:
    assert find_symbols("function a() end", language) == []
