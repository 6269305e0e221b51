"""Languages by name or by path, their comment syntax, and their tree-sitter parsers, loaded on first use.

Knows nothing of scopes or symbols.  An unknown language is None everywhere: callers fall back to indentation.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import tree_sitter

from apply_service.syntax.language_table import LANGUAGES, Language

STEM_FILES = frozenset({"dockerfile", "makefile"})
"""Names that keep their language with any extension (`Dockerfile.dev`)."""


@cache
def _by_name() -> dict[str, Language]:
    table = {language.name: language for language in LANGUAGES}
    for language in LANGUAGES:
        for alias in language.aliases:
            table.setdefault(alias, language)
    return table


@cache
def _by_extension() -> dict[str, Language]:
    table: dict[str, Language] = {}
    for language in LANGUAGES:
        for extension in language.extensions:
            table.setdefault(extension.lower(), language)
    return table


@cache
def _by_filename() -> dict[str, Language]:
    return {name.lower(): language for language in LANGUAGES for name in language.filenames}


def find_language(name: str | None) -> Language | None:
    """The language that goes by `name` (canonical or alias, any case), or None."""
    return _by_name().get(name.strip().lower()) if name else None


def language_of_path(path: str | None) -> Language | None:
    """The language of a file by its name; both kinds of slashes count."""
    if not path:
        return None
    filename = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    exact = _by_filename().get(filename) or _by_extension().get(filename.rpartition(".")[2])
    if exact is not None or "." not in filename:
        return exact
    stem = filename.split(".", 1)[0]
    return find_language(stem) if stem in STEM_FILES else None


def detect_language(*, name: str | None = None, path: str | None = None) -> str | None:
    """Canonical name for a declared name and a path.  The path refines a declared family (typescript + `.tsx`: tsx);
    otherwise what is declared wins.  None where neither is known."""
    declared, by_path = find_language(name), language_of_path(path)
    if declared is None:
        return by_path.name if by_path is not None else None
    is_dialect = by_path is not None and declared.dialect == by_path.name and by_path.name == "tsx"
    return "tsx" if is_dialect else declared.name


def line_comment(name: str | None) -> tuple[str, ...]:
    """What starts a comment to the end of the line, the usual one first; empty where there is none."""
    language = find_language(name)
    return language.line_comment if language is not None else ()


def block_comment(name: str | None) -> tuple[tuple[str, str], ...]:
    """Pairs (opening, closing); empty where there is none."""
    language = find_language(name)
    return language.block_comment if language is not None else ()


def has_grammar(name: str | None) -> bool:
    language = find_language(name)
    return language is not None and language.grammar is not None


@cache
def load_grammar(name: str) -> tree_sitter.Language | None:
    """The grammar of a canonical name; None where the language has none.  Loads the wheel once."""
    language = find_language(name)
    if language is None or language.grammar is None:
        return None
    module, _, function = language.grammar.partition(":")
    return tree_sitter.Language(getattr(import_module(module), function)())


def get_parser(name: str | None) -> tree_sitter.Parser | None:
    """A new parser (they keep state, so they are not shared between threads), or None for an unknown language."""
    language = find_language(name)
    grammar = load_grammar(language.name) if language is not None else None
    return tree_sitter.Parser(grammar) if grammar is not None else None
