"""The errors that a caller can mend say how."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import apply_service.errors as errors

PACKAGE = Path(errors.__file__).parent
MENDABLE = (errors.RequestError, errors.ModelError, errors.SettingsError)


def raised(path: Path) -> list[tuple[str, int, set[str | None]]]:
    """Class, line and keywords of every error that is raised where it is made, and that its receiver can mend."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            kind = getattr(errors, node.exc.func.id, None)
            if isinstance(kind, type) and issubclass(kind, MENDABLE):
                found.append((kind.__name__, node.lineno, {word.arg for word in node.exc.keywords}))
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_error_that_can_be_mended_has_a_remedy(path: Path) -> None:
    assert [(name, line) for name, line, words in raised(path) if "remedy" not in words and None not in words] == []


def test_errors_are_found() -> None:
    assert len(raised(PACKAGE / "pipeline.py")) > 5


@pytest.mark.parametrize(
    ("value", "text"),
    [("abcde", "abcde"), ("abcdef", "abcde..."), ([1, 2], "[1, 2..."), (3, "3"), (Path("a"), '"a"'), (None, "null")],
)
def test_a_value_is_shortened(value: object, text: str) -> None:
    assert errors.shorten(value, 5) == text
