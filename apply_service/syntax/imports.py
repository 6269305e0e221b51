"""What a file imports, name by name.  Reads import statements only; `const x = require("y")` is a symbol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import load_query
from apply_service.syntax.trees import SyntaxTree, parse

KEYWORDS = re.compile(
    r"^(?:#\s*include|(?:pub(?:\([^)]*\))?\s+)?use|extern crate|global using|using|import"
    r"|require_relative|require|load)\b"
)
RUBY_LOADERS = ("require", "require_relative", "load")
QUOTES = "\"'`"
MAX_NESTING = 20


class Import(NamedTuple):
    """One imported name and the statement that brings it.  Lines are 0-based, `end_line` half open."""

    name: str
    """Module and name, as `module:name` where the statement names both; what the language writes otherwise."""
    start_line: int
    end_line: int
    line: int
    """Where the name itself stands, or the statement starts."""
    column: int
    """Of the statement, in bytes: an import inside a function is indented."""


def find_imports(text: str, language: str | None) -> list[Import]:
    """The imports of `text` in order, one for each name; empty without a grammar."""
    tree = parse(text, language)
    query = load_query(tree.language) if tree is not None else None
    if tree is None or query is None:
        return []
    nodes = tree_sitter.QueryCursor(query).captures(tree.root).get("import", [])
    return [
        Import(name, node.start_point[0], node.end_point[0] + (node.end_point[1] > 0), line, node.start_point[1])
        for node in sorted(nodes, key=lambda node: node.start_byte)
        for name, line in RULES.get(tree.language, _plain_names)(tree, node)
    ]


def _plain_names(tree: SyntaxTree, node: tree_sitter.Node) -> Iterator[tuple[str, int]]:
    """The statement without its keyword, groups in braces written out: `use a::{b, c}` is `a::b` and `a::c`."""
    text = " ".join(tree.text_of(node).split()).rstrip("; ")
    if tree.language == "ruby" and not text.startswith(RUBY_LOADERS):
        return
    for name in _expand(KEYWORDS.sub("", text).strip(" ()"), MAX_NESTING):
        yield name, node.start_point[0]


def _expand(text: str, depth: int) -> Iterator[str]:
    head, brace, rest = text.partition("{")
    if not brace or depth == 0:
        yield text.strip()
        return
    inner, _, _ = rest.rpartition("}")
    for part in _split_top(inner):
        if part.strip():
            yield from _expand(head.strip() + part.strip(), depth - 1)


def _split_top(text: str) -> list[str]:
    """Splits at the commas outside braces."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[{},]", text):
        if match.group() == ",":
            if depth == 0:
                parts.append(text[start : match.start()])
                start = match.end()
        else:
            depth += 1 if match.group() == "{" else -1
    return [*parts, text[start:]]


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
    prefix = f"{tree.text_of(source).strip(QUOTES)}:" if source is not None else ""
    clause = next((child for child in node.named_children if child.type == "import_clause"), None)
    if clause is None:
        yield prefix, node.start_point[0]
        return
    for child in clause.named_children:
        specifiers = child.named_children if child.type == "named_imports" else [child]
        for specifier in specifiers:
            if specifier.type != "comment":
                yield prefix + " ".join(tree.text_of(specifier).split()), specifier.start_point[0]


RULES: dict[str, Callable[[SyntaxTree, tree_sitter.Node], Iterator[tuple[str, int]]]] = {
    "python": _python_names,
    "javascript": _javascript_names,
    "typescript": _javascript_names,
    "tsx": _javascript_names,
}
