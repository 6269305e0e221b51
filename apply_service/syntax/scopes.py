"""The nested scopes of a file (functions, classes, keys, sections, blocks) as ranges of lines.

Queries the syntax tree; a text without one falls back to indentation (`is_fallback` says so).  Broken code gives the
scopes that the parser could make out.  Knows nothing of edits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import Language, find_language, load_query
from apply_service.syntax.scope_lines import MAX_NAME_CHARS, Scope, ScopeLines
from apply_service.syntax.trees import CACHED_TREES, SyntaxTree, parse

__all__ = ["Scope", "find_scopes", "is_fallback", "plain_name"]

KINDS = frozenset({"function", "class", "module", "block", "key", "section", "element"})

DECLARED = re.compile(
    r"(operator\s*(?:\(\)|\[\]|[^\s(\w]+|\s\w+)|[~\w]+(?:<[^<>()]*>)?(?:::[~\w]+(?:<[^<>()]*>)?)*)\s*(?:\(|\[|$)"
)
"""The name in a C or C++ declarator."""
HTML_ID = re.compile(r"""\bid\s*=\s*["']?([^"'\s>]+)""")
HTML_TAG = re.compile(r"<\s*([\w:-]+)")
HEADING_MARKS = re.compile(r"^\s*#+\s*|\s+#+\s*$|\n.*", re.DOTALL)
QUOTED_NAMES = frozenset({"json", "yaml", "toml", "javascript", "typescript", "tsx"})


class _ScopeNode(NamedTuple):
    """A scope before its lines are worked out."""

    kind: str
    node: tree_sitter.Node
    name: tree_sitter.Node | None
    body: tree_sitter.Node | None


def is_fallback(text: str, language: str | None) -> bool:
    """Whether the scopes of `text` come from indentation: no grammar, or a text that the parser refuses."""
    return parse(text, language) is None


def find_scopes(text: str, language: str | None) -> list[Scope]:
    """The scopes of `text` (LF line ends), outer before inner, in order of their first line.

    Cost: 1 to 10 ms for 1,500 lines, linear in the length; cached like the trees.
    """
    return list(_find_scopes(text, language))


@lru_cache(maxsize=CACHED_TREES)
def _find_scopes(text: str, language: str | None) -> tuple[Scope, ...]:
    row = find_language(language) or Language("")
    lines, tree = ScopeLines(text, row), parse(text, language)
    query = load_query(tree.language) if tree is not None else None
    if tree is None or query is None:
        return tuple(lines.measure_indented())
    nodes, outer_rows = _scope_nodes(query, tree.root)
    scopes: list[Scope] = []
    open_scopes: list[tuple[int, int]] = []  # end byte and index
    for kind, node, name, body in nodes:
        while open_scopes and open_scopes[-1][0] <= node.start_byte:
            open_scopes.pop()
        parent = open_scopes[-1][1] if open_scopes else None
        is_method = kind == "function" and parent is not None and scopes[parent].kind == "class"
        open_scopes.append((node.end_byte, len(scopes)))
        scopes.append(
            lines.measure(
                node,
                body,
                outer_row=outer_rows.get(node.start_byte, node.start_point[0]),
                name=_scope_name(tree, node, name) if name is not None else "",
                kind="method" if is_method else kind,
                parent=parent,
            )
        )
    return tuple(scopes)


def _scope_nodes(query: tree_sitter.Query, root: tree_sitter.Node) -> tuple[list[_ScopeNode], dict[int, int]]:
    """The scope nodes, outer before inner, one for each extent; and for the first byte of a wrapped declaration the row
    where its wrapper starts."""
    found: dict[tuple[int, int], _ScopeNode] = {}
    outer_rows: dict[int, int] = {}
    for _, captures in tree_sitter.QueryCursor(query).matches(root):
        if "wrapper" in captures:
            wrapper, wrapped = captures["wrapper"][0], captures["wrapped"][0]
            row = outer_rows.get(wrapper.start_byte, wrapper.start_point[0])
            outer_rows[wrapped.start_byte] = min(row, outer_rows.get(wrapped.start_byte, row))
            continue
        kind = next(iter(KINDS.intersection(captures)), None)
        if kind is None:
            continue
        node = captures[kind][0]
        name = captures["name"][0] if "name" in captures else None
        body = captures["body"][0] if "body" in captures else None
        # Several patterns may match one node: the one with a name wins.
        known = found.get((node.start_byte, node.end_byte))
        if known is None or (known.name is None and name is not None):
            found[node.start_byte, node.end_byte] = _ScopeNode(kind, node, name, body)
    return sorted(found.values(), key=lambda scope: (scope.node.start_byte, -scope.node.end_byte)), outer_rows


def _scope_name(tree: SyntaxTree, node: tree_sitter.Node, name: tree_sitter.Node) -> str:
    trait = node.child_by_field_name("trait") if node.type == "impl_item" else None
    return f"{tree.text_of(trait)} for {tree.text_of(name)}" if trait is not None else plain_name(tree, name)


def plain_name(tree: SyntaxTree, name: tree_sitter.Node) -> str:
    """What a name node declares: `*Foo::bar(int a)` is `Foo::bar`, `<div id="main">` is `div#main`."""
    text = tree.text_of(name)
    if tree.language in ("c", "cpp"):
        declarator = (text if "operator" in text else text.split("=", 1)[0]).strip()
        match = DECLARED.search(declarator)
        text = match.group(1) if match is not None else declarator.strip("*& ")
    elif tree.language == "html":
        tag, ident = HTML_TAG.match(text), HTML_ID.search(text)
        text = (tag.group(1) if tag is not None else text) + (f"#{ident.group(1)}" if ident is not None else "")
    elif tree.language == "markdown":
        text = HEADING_MARKS.sub("", text)
    elif tree.language in QUOTED_NAMES and len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return " ".join(text.split())[:MAX_NAME_CHARS]
