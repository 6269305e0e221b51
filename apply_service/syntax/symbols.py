"""The names that a file declares outside its functions: functions, classes, methods, constants, keys, headings.

Built on `scopes`, and on the query's definitions of names without a body.  Imports are in `imports`.
"""

from __future__ import annotations

from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import load_query
from apply_service.syntax.scopes import Scope, find_scopes, plain_name
from apply_service.syntax.trees import parse

CONTAINERS = frozenset({"class", "module", "section"})
TRANSPARENT_BLOCKS = frozenset({"python", "c", "cpp", "ruby", "go"})
"""Where a block at top level (`if TYPE_CHECKING:`, `#ifdef`, `var (`) declares names of the file."""

MAX_SIGNATURE_CHARS = 300


class Symbol(NamedTuple):
    """One declared name.  Lines are 0-based, `end_line` half open."""

    name: str
    kind: str
    """As `Scope.kind` but for methods, which are functions; or variable, export."""
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
    tree = parse(text, language)
    query = load_query(tree.language) if tree is not None else None
    if tree is None or query is None:
        return []
    lines = text.split("\n")
    scopes = find_scopes(text, language)
    # The container of what is declared in each scope, and at each line; None inside a function or the like.
    inner: list[str | None] = []
    container_at: list[str | None] = [""] * len(lines)
    found: list[Symbol] = []
    for scope in scopes:
        container = "" if scope.parent is None else inner[scope.parent]
        inner.append(_inner_container(scope, container, tree.language))
        if container is None:
            continue
        for line in range(scope.header_line + 1, scope.end_line):
            container_at[line] = inner[-1] if scope.kind != "element" else None
        if _is_declared(scope, tree.language):
            kind = "function" if scope.kind == "method" else scope.kind
            place = (scope.start_line, scope.end_line, scope.header_line)
            found.append(
                Symbol(
                    scope.name, kind, container, *place, _signature(lines[scope.header_line]), _branch(scope, scopes)
                )
            )
    for _, captures in tree_sitter.QueryCursor(query).matches(tree.root):
        kind = next((capture for capture in captures if capture.startswith("definition.")), "")
        if kind:
            start, end = captures[kind][0].start_point[0], captures[kind][0].end_point[0] + 1
            container = container_at[start]
            if container is not None:
                name = plain_name(tree, captures["name"][0])
                kind = kind.removeprefix("definition.")
                found.append(Symbol(name, kind, container, start, end, start, _signature(lines[start])))
    unique: dict[tuple[str, int], Symbol] = {}
    for symbol in found:
        unique.setdefault((symbol.name, symbol.header_line), symbol)
    return sorted(unique.values(), key=lambda symbol: (symbol.header_line, symbol.end_line))


def _signature(line: str) -> str:
    return " ".join(line[:MAX_SIGNATURE_CHARS].split())


def _inner_container(scope: Scope, container: str | None, language: str) -> str | None:
    if container is None:
        return None
    if scope.kind in CONTAINERS:
        return f"{container}.{scope.name}" if container else scope.name
    is_transparent = scope.kind == "element" or (scope.kind == "block" and language in TRANSPARENT_BLOCKS)
    return container if is_transparent else None


def _is_declared(scope: Scope, language: str) -> bool:
    if scope.kind == "block":
        return False
    if scope.kind == "element":
        return "#" in scope.name
    if scope.kind == "key":
        # Keys nest without end; those at the top of a data file (and of a TOML table) are what it declares.
        return language in ("toml", "kotlin", "csharp") or (scope.parent is None and language in ("json", "yaml"))
    return True


def _branch(scope: Scope, scopes: list[Scope]) -> str:
    names = []
    while scope.parent is not None:
        scope = scopes[scope.parent]
        if scope.kind == "block":
            names.append(scope.name)
    return "|".join(names)
