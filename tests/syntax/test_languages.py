"""Languages by name and path, and their parsers."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from apply_service.syntax.languages import (
    LANGUAGES,
    QUERIES,
    QUERY_PARTS,
    detect_language,
    find_language,
    language_of_path,
    load_grammar,
    load_query,
)

ROOT = Path(__file__).parents[2]

SERVED = [
    *("python", "typescript", "javascript", "go", "rust", "java", "c", "cpp", "csharp", "ruby", "php", "kotlin"),
    *("html", "css", "json", "yaml", "toml", "markdown", "shell", "sql"),
]


@pytest.mark.parametrize("name", SERVED)
def test_every_served_language_has_a_grammar_and_a_query_for_it(name: str) -> None:
    assert load_grammar(name) is not None
    query = load_query(name)
    assert query is not None
    assert query.pattern_count > 0


def test_every_query_is_used_and_shipped() -> None:
    used = {part for one in LANGUAGES if one.grammar for part in QUERY_PARTS.get(one.name, (one.name,))}
    assert {file.stem for file in QUERIES.iterdir()} == used
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["apply_service"]
    shipped = {file for pattern in patterns for file in (ROOT / "apply_service").glob(pattern)}
    assert set(QUERIES.iterdir()) <= shipped


@pytest.mark.parametrize("name", SERVED)
def test_every_served_language_but_markup_and_data_has_a_comment(name: str) -> None:
    found = find_language(name)
    assert found is not None
    assert found.line_comment or found.block_comment


def test_no_name_stands_for_two_languages() -> None:
    names = [name for language in LANGUAGES for name in (language.name, *language.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/app.py", "python"),
        ("A.TSX", "tsx"),
        ("a/b.jsx", "javascript"),
        ("src\\lib.rs", "rust"),
        ("Dockerfile", "dockerfile"),
        ("Dockerfile.dev", "dockerfile"),
        ("CMakeLists.txt", "cmake"),
        ("Makefile", "make"),
        ("makefile.py", "python"),
        (".bashrc", "shell"),
        ("x.h", "c"),
        ("x.hpp", "cpp"),
        ("Gemfile", "ruby"),
        ("values.yml", "yaml"),
        ("README.md", "markdown"),
    ],
)
def test_language_of_a_path(path: str, name: str) -> None:
    found = language_of_path(path)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("path", ["", None, "noextension", ".gitignore", "a.unknownthing", "dir.py/", "Gemfile.lock"])
def test_an_unknown_path_has_no_language(path: str | None) -> None:
    assert language_of_path(path) is None


@pytest.mark.parametrize(
    ("alias", "name"), [("C++", "cpp"), ("c#", "csharp"), ("bash", "shell"), (" TS ", "typescript"), ("golang", "go")]
)
def test_aliases(alias: str, name: str) -> None:
    found = find_language(alias)
    assert found is not None
    assert found.name == name


def test_what_is_declared_wins_but_for_a_dialect() -> None:
    assert detect_language(name="typescript", path="a.tsx") == "tsx"
    assert detect_language(name="typescript", path="a.py") == "typescript"
    assert detect_language(name="c", path="a.cpp") == "c"
    assert detect_language(name="nonsense", path="a.py") == "python"
    assert detect_language(path="a.go") == "go"
    assert detect_language(name="nonsense", path="nonsense") is None


def test_an_unknown_language_is_none_everywhere() -> None:
    assert find_language("klingon") is None
    assert find_language(None) is None
    assert load_grammar("klingon") is None
    assert load_grammar("lua") is None, "known by name and comments only"
    assert load_query("lua") is None
    assert find_language("lua") is not None


@pytest.mark.parametrize(
    ("name", "line_comment", "block_comment"),
    [
        ("python", ("#",), ()),
        ("sql", ("--",), (("/*", "*/"),)),
        ("php", ("//", "#"), (("/*", "*/"),)),
        ("html", (), (("<!--", "-->"),)),
        ("tsx", ("//",), (("/*", "*/"), ("{/*", "*/}"))),
    ],
)
def test_comment_syntax(name: str, line_comment: tuple[str, ...], block_comment: tuple[tuple[str, str], ...]) -> None:
    found = find_language(name)
    assert found is not None
    assert (found.line_comment, found.block_comment) == (line_comment, block_comment)
