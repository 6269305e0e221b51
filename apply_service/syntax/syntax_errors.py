"""Where a text breaks its language's grammar: the lines of ERROR and MISSING nodes."""

from __future__ import annotations

import ast
import warnings

from apply_service.syntax.trees import parse

APPROXIMATE = frozenset({"c", "cpp", "css", "html", "kotlin", "php", "shell", "sql"})
"""Macros, templates and dialects that the grammars do not know."""
MAX_ERRORS = 1000


def count_syntax_errors(text: str, language: str | None) -> list[int]:
    """0-based lines where errors start, in order, one for each error; empty where there is none, and without a grammar.

    Cost: that of the parse, plus the damaged part of the tree; stops at `MAX_ERRORS`.
    """
    tree = parse(text, language)
    lines: list[int] = []
    stack = [tree.root] if tree is not None and tree.root.has_error else []
    while stack and len(lines) < MAX_ERRORS:
        node = stack.pop()
        if node.is_error or node.is_missing:
            lines.append(min(node.start_point[0], text.count("\n")))
        else:
            stack.extend(child for child in reversed(node.children) if child.has_error or child.is_missing)
    return lines


def python_error(text: str) -> SyntaxError | None:
    """Why this Python does not compile; None where it does, or where the compiler can't tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def breaks_syntax(original: str, merged: str, language: str | None) -> bool:
    """Whether a text that parsed does not any more; never where the grammar is only an approximation."""
    if language in APPROXIMATE or merged == original:
        return False
    if language == "python":
        return python_error(merged) is not None and python_error(original) is None
    return bool(count_syntax_errors(merged, language)) and not count_syntax_errors(original, language)
