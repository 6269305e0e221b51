"""The names that a file declares outside its functions (functions, classes, methods, constants, keys, headings), and
those that it imports.  None without a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import load_query
from apply_service.syntax.scopes import find_scopes, plain_name
from apply_service.syntax.trees import SyntaxTree, parse

CONTAINERS = frozenset({"class", "module", "section"})
TRANSPARENT_BLOCKS = frozenset({"python", "c", "cpp", "ruby", "go"})
"""Where a block at top level (`if TYPE_CHECKING:`, `#ifdef`, `var (`) declares names of the file."""
MAX_SIGNATURE_CHARS = 300

IMPORT_KEYWORDS = re.compile(
    r"^(?:#\s*include|(?:pub(?:\([^)]*\))?\s+)?use|extern crate|global using|using|import"
    r"|require_relative|require|load)\b"
)
RUBY_LOADERS = ("require", "require_relative", "load")
MAX_NESTING = 20


class Symbol(NamedTuple):
    """One declared or imported name."""

    kind: str
    """As `Scope.kind` but for methods, which are functions; or variable, export, import."""
    name: str
    """Of an import `module:name` where the statement names both; what the language writes otherwise."""
    container: str
    """Names of the classes, modules and sections around it, joined by "."; empty at top level."""
    branch: str
    """The conditional blocks around it that do not hide it (`if TYPE_CHECKING:`, `#ifdef X`), joined by "|"."""
    signature: str
    """The header line, white space evened out: tells overloads apart.  Empty for an import."""
    line: int
    """0-based, of the header, or of the name in an import statement."""
    is_indented: bool = False
    """Of an import: inside a function, say."""


def find_symbols(text: str, language: str | None) -> list[Symbol]:
    """The declared names in order, and then the imported ones.  Cost: as `find_scopes`."""
    tree = parse(text, language)
    query = load_query(tree.language) if tree is not None else None
    return [] if tree is None or query is None else [*_declared(text, language, tree, query), *_imported(tree, query)]


def _declared(text: str, language: str | None, tree: SyntaxTree, query: tree_sitter.Query) -> Iterator[Symbol]:
    lines, scopes = text.split("\n"), find_scopes(text, language)
    # The container of what is declared in each scope, and at each line; None inside a function or the like.
    inner: list[str | None] = []
    container_at: list[str | None] = [""] * len(lines)
    branches: list[str] = []  # the blocks around what is declared in each scope
    found: dict[tuple[str, int], tuple[int, Symbol]] = {}

    def add(kind: str, name: str, container: str, branch: str, line: int, end: int) -> None:
        signature = " ".join(lines[line][:MAX_SIGNATURE_CHARS].split())
        found.setdefault((name, line), (end, Symbol(kind, name, container, branch, signature, line)))

    for scope in scopes:
        container, branch = ("", "") if scope.parent is None else (inner[scope.parent], branches[scope.parent])
        is_open = scope.kind == "element" or (scope.kind == "block" and tree.language in TRANSPARENT_BLOCKS)
        if container is not None and scope.kind in CONTAINERS:
            inner.append(f"{container}.{scope.name}" if container else scope.name)
        else:
            inner.append(container if is_open else None)
        branches.append("|".join(filter(None, (scope.name, branch))) if scope.kind == "block" else branch)
        if container is None:
            continue
        for line in range(scope.header_line + 1, scope.end_line):
            container_at[line] = inner[-1] if scope.kind != "element" else None
        if scope.kind == "key":
            # Keys nest without end; those at the top of a data file (and of a TOML table) are what it declares.
            is_top = scope.parent is None and tree.language in ("json", "yaml")
            is_declared = is_top or tree.language in ("toml", "kotlin", "csharp")
        else:
            is_declared = scope.kind != "block" and (scope.kind != "element" or "#" in scope.name)
        if is_declared:
            kind = "function" if scope.kind == "method" else scope.kind
            add(kind, scope.name, container, branch, scope.header_line, scope.end_line)
    for _, captures in tree_sitter.QueryCursor(query).matches(tree.root):
        if capture := next((name for name in captures if name.startswith("definition.")), None):
            node = captures[capture][0]
            container = container_at[node.start_point[0]]
            if container is not None:
                name, kind = plain_name(tree, captures["name"][0]), capture.removeprefix("definition.")
                add(kind, name, container, "", node.start_point[0], node.end_point[0] + 1)
    return (symbol for _, symbol in sorted(found.values(), key=lambda item: (item[1].line, item[0])))


def _imported(tree: SyntaxTree, query: tree_sitter.Query) -> Iterator[Symbol]:
    """Import statements only; `const x = require("y")` is a variable."""
    names_of = _plain_names
    if tree.language == "python":
        names_of = _python_names
    elif tree.language in ("javascript", "typescript", "tsx"):
        names_of = _javascript_names
    nodes = tree_sitter.QueryCursor(query).captures(tree.root).get("import", [])
    for node in sorted(nodes, key=lambda node: node.start_byte):
        for name, line in names_of(tree, node):
            yield Symbol("import", name, "", "", "", line, is_indented=node.start_point[1] > 0)


def _plain_names(tree: SyntaxTree, node: tree_sitter.Node) -> Iterator[tuple[str, int]]:
    """The statement without its keyword, groups in braces written out: `use a::{b, c}` is `a::b` and `a::c`."""
    text = " ".join(tree.text_of(node).split()).rstrip("; ")
    if tree.language == "ruby" and not text.startswith(RUBY_LOADERS):
        return
    for name in _expand(IMPORT_KEYWORDS.sub("", text).strip(" ()"), MAX_NESTING):
        yield name, node.start_point[0]


def _expand(text: str, depth: int) -> Iterator[str]:
    head, brace, rest = text.partition("{")
    if not brace or depth == 0:
        yield text.strip()
        return
    inner, n_open, start = rest.rpartition("}")[0], 0, 0
    for match in re.finditer(r"[{},]|$", inner):
        n_open += {"{": 1, "}": -1}.get(match.group(), 0)
        if not match.group() or (match.group() == "," and n_open == 0):
            if part := inner[start : match.start()].strip():
                yield from _expand(head.strip() + part, depth - 1)
            start = match.end()


def _python_names(tree: SyntaxTree, node: tree_sitter.Node) -> Iterator[tuple[str, int]]:
    module = node.child_by_field_name("module_name")
    prefix = f"{tree.text_of(module)}:" if module is not None else ""
    names = node.children_by_field_name("name")
    for name in names:
        yield prefix + " ".join(tree.text_of(name).split()), name.start_point[0]
    if not names:
        yield prefix + "*", node.start_point[0]


def _javascript_names(tree: SyntaxTree, node: tree_sitter.Node) -> Iterator[tuple[str, int]]:
    source = node.child_by_field_name("source")
    prefix = tree.text_of(source).strip("\"'`") + ":" if source is not None else ""
    clause = next((child for child in node.named_children if child.type == "import_clause"), None)
    if clause is None:
        yield prefix, node.start_point[0]
        return
    for child in clause.named_children:
        for specifier in child.named_children if child.type == "named_imports" else [child]:
            if specifier.type != "comment":
                yield prefix + " ".join(tree.text_of(specifier).split()), specifier.start_point[0]
