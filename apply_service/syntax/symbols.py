"""The names that a file declares outside its functions: functions, classes, methods, constants, keys, headings.

Built on `scopes` plus one query for declarations without a body.  Imports are in `imports`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import find_language, load_grammar
from apply_service.syntax.scope_lines import Scope
from apply_service.syntax.scope_names import plain_name
from apply_service.syntax.scopes import find_scopes
from apply_service.syntax.symbol_queries import SYMBOL_QUERIES
from apply_service.syntax.trees import SyntaxTree, parse

CONTAINERS = frozenset({"class", "module", "section"})
TRANSPARENT_BLOCKS = frozenset({"python", "c", "cpp", "ruby", "go"})
"""Where a block at top level (`if TYPE_CHECKING:`, `#ifdef`, `var (`) declares names of the file."""


MAX_SIGNATURE_CHARS = 300


class Symbol(NamedTuple):
    """One declared name.  Lines are 0-based, `end_line` half open."""

    name: str
    kind: str
    """As `Scope.kind`, or variable, export."""
    container: str
    """Names of the classes, modules and sections around it, joined by "."; empty at top level."""
    start_line: int
    end_line: int
    header_line: int
    signature: str
    """The header line, white space evened out: tells overloads apart."""
    branch: str = ""
    """The conditional blocks around it that do not hide it (`if TYPE_CHECKING:`, `#ifdef X`), joined by "|"."""


def find_symbols(text: str, language: str | None) -> list[Symbol]:
    """The symbols of `text`, in order of their header; empty without a grammar.  Cost: as `find_scopes`."""
    row = find_language(language)
    tree = parse(text, row.name) if row is not None else None
    if row is None or tree is None:
        return []
    scopes = find_scopes(text, row.name)
    paths = _container_paths(scopes, row.name)
    lines = text.split("\n")
    found: dict[tuple[str, int], Symbol] = {}
    for scope, path in zip(scopes, paths, strict=True):
        if path is not None and _is_declared(scope, row.name):
            symbol = _scope_symbol(scope, path, lines)._replace(branch=_branch(scope, scopes))
            found.setdefault((symbol.name, symbol.header_line), symbol)
    for symbol in _plain_symbols(tree, scopes, paths, lines):
        found.setdefault((symbol.name, symbol.header_line), symbol)
    return sorted(found.values(), key=lambda symbol: (symbol.header_line, symbol.end_line))


def _is_declared(scope: Scope, language: str) -> bool:
    if scope.kind == "block":
        return False
    if scope.kind == "element":
        return "#" in scope.name
    if scope.kind == "key":
        # Keys nest without end; those at the top of a data file (and of a TOML table) are what it declares.
        return language in ("toml", "kotlin", "csharp") or (scope.parent is None and language in ("json", "yaml"))
    return True


def _container_paths(scopes: list[Scope], language: str) -> list[str | None]:
    """For each scope the path of its containers, None where it lies inside a function or the like."""
    inner: list[str | None] = []
    paths: list[str | None] = []
    for scope in scopes:
        path = "" if scope.parent is None else inner[scope.parent]
        paths.append(path)
        if path is None:
            inner.append(None)
        elif scope.kind in CONTAINERS:
            inner.append(f"{path}.{scope.name}" if path else scope.name)
        elif scope.kind == "element" or (scope.kind == "block" and language in TRANSPARENT_BLOCKS):
            inner.append(path)
        else:
            inner.append(None)
    return paths


def _scope_symbol(scope: Scope, path: str, lines: list[str]) -> Symbol:
    kind = "function" if scope.kind == "method" else scope.kind
    signature = _even(lines[scope.header_line])
    return Symbol(scope.name, kind, path, scope.start_line, scope.end_line, scope.header_line, signature)


def _branch(scope: Scope, scopes: list[Scope]) -> str:
    names = []
    while scope.parent is not None:
        scope = scopes[scope.parent]
        if scope.kind == "block":
            names.append(scope.name)
    return "|".join(names)


@cache
def _load_query(name: str) -> tree_sitter.Query | None:
    grammar = load_grammar(name)
    return tree_sitter.Query(grammar, SYMBOL_QUERIES[name]) if grammar is not None and name in SYMBOL_QUERIES else None


def _plain_symbols(tree: SyntaxTree, scopes: list[Scope], paths: list[str | None], lines: list[str]) -> list[Symbol]:
    """Declarations that are no scopes, where they are not inside a function."""
    query = _load_query(tree.language)
    if query is None:
        return []
    inside = _inner_paths(scopes, paths, tree.language, len(lines))
    symbols = []
    for _, captures in tree_sitter.QueryCursor(query).matches(tree.root):
        name = captures.pop("name")[0]
        kind, nodes = next(iter(captures.items()))
        start, end = nodes[0].start_point[0], nodes[0].end_point[0] + 1
        path = inside[start]
        if path is not None:
            text, signature = plain_name(tree, name), _even(lines[start])
            symbols.append(Symbol(text, kind, path, start, end, start, signature))
    return symbols


def _even(line: str) -> str:
    return " ".join(line[:MAX_SIGNATURE_CHARS].split())


def _inner_paths(scopes: list[Scope], paths: list[str | None], language: str, n_lines: int) -> list[str | None]:
    """For each line the container path of what is declared there; None inside functions."""
    inside: list[str | None] = [""] * n_lines
    for scope, path in zip(scopes, paths, strict=True):
        if path is None:
            continue  # its outermost function has hidden these lines already
        inner: str | None = None
        if scope.kind in CONTAINERS:
            inner = f"{path}.{scope.name}" if path else scope.name
        elif scope.kind == "block" and language in TRANSPARENT_BLOCKS:
            inner = path
        for line in range(scope.header_line + 1, scope.end_line):
            inside[line] = inner
    return inside
