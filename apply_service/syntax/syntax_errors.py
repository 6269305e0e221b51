"""Where a text breaks its language's grammar: the lines of ERROR and MISSING nodes."""

from __future__ import annotations

import tree_sitter

from apply_service.syntax.languages import find_language
from apply_service.syntax.trees import parse

MAX_ERRORS = 1000


def count_syntax_errors(text: str, language: str | None) -> list[int]:
    """0-based lines where errors start, in order, one for each error; empty where there is none, and without a grammar.

    Cost: that of the parse, plus the damaged part of the tree; stops at `MAX_ERRORS`.
    """
    row = find_language(language)
    tree = parse(text, row.name) if row is not None else None
    if tree is None or not tree.root.has_error:
        return []
    lines: list[int] = []
    stack = [tree.root]
    while stack and len(lines) < MAX_ERRORS:
        node = stack.pop()
        if node.is_error or node.is_missing:
            lines.append(min(node.start_point[0], text.count("\n")))
            continue
        stack.extend(reversed(_damaged_children(node)))
    return lines


def _damaged_children(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    return [child for child in node.children if child.has_error or child.is_missing]
