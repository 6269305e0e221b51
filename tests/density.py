"""Counts the branch points of functions: `python -m tests.density` writes the list of those that have too many.

Counted are `if`, `for`, `while`, `except`, `case`, the ternary, each `for` of a comprehension, and each `and` and `or`.
A function inside another counts for itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "apply_service"
MOST = 15
KNOWN = Path(__file__).parent / "dense_functions.txt"
"""Functions above that, one a line with its number.  The list only shrinks."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
ONE = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.IfExp, ast.comprehension)


def branch_points(node: ast.AST) -> int:
    """Those of a function's body, without the functions inside it."""
    found = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        found += isinstance(child, ONE) + branch_points(child)
        if isinstance(child, ast.BoolOp):
            found += len(child.values) - 1
    return found


def functions(node: ast.AST, name: str) -> Iterator[tuple[str, Function]]:
    """Every function below a node, with its dotted name."""
    for child in ast.iter_child_nodes(node):
        inner = f"{name}.{child.name}" if isinstance(child, Function | ast.ClassDef) else name
        if isinstance(child, Function):
            yield inner, child
        yield from functions(child, inner)


def dense_functions() -> dict[str, int]:
    """Of the package: every function with more than MOST branch points, and how many it has."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name, function in functions(ast.parse(path.read_text(encoding="utf-8")), dotted):
            if (n := branch_points(function)) > MOST:
                found[name] = n
    return found


def known_functions() -> dict[str, int]:
    """Those that were dense before there was a limit."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    return {name: int(n) for name, n in (line.split() for line in lines)}


if __name__ == "__main__":
    KNOWN.write_text("".join(f"{name} {n}\n" for name, n in sorted(dense_functions().items())), encoding="utf-8")
