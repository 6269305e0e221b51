"""Parses texts into syntax trees, and finds syntax errors.  Trees are cached, so that a text is parsed only once.

Threads share the trees and only read them; each parse has its own parser.  On hostile text, some grammars take
quadratic time or memory, one overruns its stack, and the limits of the binding do not work.  So texts are examined
before they are parsed.  A text that looks hostile gets no tree, as if its language were unknown.

The binding (tree-sitter 0.26.0) has two traps.  `Point.row` and `Point.column` free a reference that they do not own,
which causes a crash later; so use `point[0]` and `point[1]`.  Parsing through a read callable leaks the text.
"""

from __future__ import annotations

import ast
import re
import warnings
import zlib
from functools import lru_cache
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import DIALECTS, find_language, load_grammar

MAX_CHARS = 1_500_000
"""A text with more characters than this is not parsed."""
CACHED_TREES = 16
"""Enough for a few requests at once, each with four texts (original, update, prediction, merged)."""
MAX_PLAIN_BYTES = 8192
MAX_COMPRESSION = 40
"""A long text that can be compressed by more than this factor is not parsed (code: 3 to 10).  Such a text repeats one
pattern.  Error recovery then takes quadratic time: seconds for 50 kB, while random tokens take a tenth of a second."""
READ_BYTES = 1024
MAX_READS = 250
"""In languages that may hang, each piece of text is read at most this many times.  Real files need up to 40 reads,
broken files 100."""
MAY_HANG = frozenset({"kotlin"})
"""Languages whose grammar may loop forever on broken code."""
MAX_OPEN_ANGLES = 500
"""A text with more `<` than this between two statement ends is not parsed.  Java's and C#'s grammars need memory
quadratic in their number (gigabytes for 16,000)."""
DEEP_LINE = re.compile(r"^[ \t?:-]{200}", re.MULTILINE)
"""Deep indentation: YAML's scanner overruns its stack at about 250 levels, each of at least one column."""
STATEMENT_END = re.compile(r"[;{}]")
APPROXIMATE = frozenset({"c", "cpp", "css", "html", "kotlin", "php", "shell", "sql"})
"""Languages with macros, templates or dialects that the grammars do not know."""
MAX_ERRORS = 1000
HINTS = {
    "python": r"^(?:from [\w.]+ import |import [\w.]+$|(?:async )?def \w+\(|class \w.*:$)",
    "go": r"^package \w+$",
    "rust": r"^(?:pub |impl\b|use [\w:]+;|mod \w+;|fn \w+)",
    "java": r"^(?:package [\w.]+;|import [\w.*]+;|public (?:\w+ )*(?:class|interface|enum|record) \w)",
    "javascript": r"^(?:import (?:.* from )?[\"'{*]|export \W?\w|(?:const|let|var) \w|(?:async )?function\b|"
    r"class \w.*\{$|(?:module\.)?exports\b)",
}
HINTS["typescript"] = HINTS["javascript"][:-1] + r"|interface \w|type \w|declare )"
"""Beginnings of lines that hint at a language."""


class SyntaxTree(NamedTuple):
    """A parsed text.  `language` is the language of the grammar, which may be a dialect of the requested language."""

    root: tree_sitter.Node
    source: bytes
    language: str

    def text_of(self, node: tree_sitter.Node) -> str:
        """Return the text that a node covers."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")


@lru_cache(maxsize=CACHED_TREES)
def parse(text: str, language: str | None) -> SyntaxTree | None:
    """Return the tree of `text`, with the rows of `text.split("\\n")`.

    The result is None if there is no grammar, or if the text is too long or looks hostile.  If the grammar finds errors
    and a dialect's grammar (TSX for TypeScript, C++ for C) finds none, the tree is the dialect's.
    """
    known = find_language(language)
    tree = _parse_with(text, known.name) if known is not None else None
    if known is None or tree is None or known.name not in DIALECTS or not tree.root.has_error:
        return tree
    other = _parse_with(text, DIALECTS[known.name])
    return other if other is not None and not other.root.has_error else tree


def _parse_with(text: str, language: str) -> SyntaxTree | None:
    grammar = load_grammar(language)
    if grammar is None or len(text) > MAX_CHARS or (language == "yaml" and DEEP_LINE.search(text) is not None):
        return None
    has_angles = text.count("<") > MAX_OPEN_ANGLES and language not in ("html", "markdown")
    if has_angles and max(part.count("<") for part in STATEMENT_END.split(text)) > MAX_OPEN_ANGLES:
        return None
    # A lone surrogate has no UTF-8 form; it becomes one "?", so that no row changes.
    source = text.encode("utf-8", "replace")
    if not source.endswith(b"\n"):
        # Kotlin's scanner (1.1.0) looks for white space after `@` beyond the end of the text, forever.
        source += b"\n"
    if len(source) > MAX_PLAIN_BYTES and len(zlib.compress(source, 1)) * MAX_COMPRESSION < len(source):
        return None
    parser = tree_sitter.Parser(grammar)
    root = _parse_counted(parser, source) if language in MAY_HANG else parser.parse(source).root_node
    return SyntaxTree(root, source, language) if root is not None else None


def _parse_counted(parser: tree_sitter.Parser, source: bytes) -> tree_sitter.Node | None:
    """Return the root, or None if the parser hangs.  A hanging parser keeps reading until it is given the end of the
    text."""
    views: dict[int, memoryview] = {}
    end = memoryview(b"")
    n_left = MAX_READS * (len(source) // READ_BYTES + 1)

    def read(offset: int, _point: object) -> memoryview:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            return end
        if offset not in views:
            views[offset] = memoryview(source[offset : offset + READ_BYTES])
        return views[offset]

    root = parser.parse(read).root_node
    for view in views.values():
        # The binding keeps references to all views that it was given; a released view holds no text.
        view.release()
    return root if n_left >= 0 else None


def guess_language(text: str) -> str | None:
    """Return the language of a file without a name: a language that has a hint in the file and parses the file without
    errors."""
    for name, hint in HINTS.items():
        if re.search(hint, text, re.MULTILINE):
            tree = parse(text, name)
            if tree is not None and not tree.root.has_error:
                return tree.language
    return None


def count_syntax_errors(text: str, language: str | None) -> list[int]:
    """Return the lines (0-based) on which ERROR and MISSING nodes start, in order, at most `MAX_ERRORS`.

    The result is empty without a grammar.  This costs as much as the parse and a walk through the damaged part of the
    tree.
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


@lru_cache(maxsize=4)
def python_error(text: str) -> SyntaxError | None:
    """Return the error in this Python text; None if it has no error, or if the parser gives up.  Cached, because
    several checks ask about the same text."""
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
    """Tell whether the original parses and the merged text does not.  The result is False if the grammar is an
    approximation."""
    if language in APPROXIMATE or merged == original:
        return False
    if language == "python":
        return python_error(merged) is not None and python_error(original) is None
    return bool(count_syntax_errors(merged, language)) and not count_syntax_errors(original, language)
