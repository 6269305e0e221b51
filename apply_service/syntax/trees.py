"""Parsed trees, cached by (language, text) so that merger, windows and checks parse a text once between them.

Trees are only read after parsing, so threads share them; parsers keep state and are made for each parse.  Some grammars
take quadratic time or memory on hostile text, one overruns its own stack, and the binding has no limit that works.  So
a text is looked at before it is parsed; one that looks bad has no tree, as if its language were unknown.

Two traps of the binding (tree-sitter 0.26.0): `Point.row` and `Point.column` free a reference that they do not own
(crashes later; take `point[0]`, `point[1]`), and parsing through a read callable leaks the text.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter

from apply_service.syntax.languages import Language, find_language, load_grammar

MAX_CHARS = 1_500_000
"""Longer texts have no tree."""

CACHED_TREES = 16
"""A request touches four texts (original, update, prediction, merged); a few requests run side by side."""

MAX_PLAIN_BYTES = 8192
MAX_COMPRESSION = 40
"""Longer texts that shrink more than this (code: 3 to 10 times) are one pattern repeated, on which error recovery takes
time quadratic in the length: seconds at 50 kB.  Random tokens of the same length take a tenth of a second."""

READ_BYTES = 1024
MAX_READS = 250
"""How often a parse that may hang may read each piece of the text.  Real files need up to 40 reads, broken ones 100."""

MAX_OPEN_ANGLES = 500
"""`<` between two statement ends: Java's and C#'s grammars need memory quadratic in it (16,000: gigabytes)."""

DEEP_LINE = re.compile(r"^[ \t?:-]{200}", re.MULTILINE)
"""YAML's scanner writes its indentation stack into a buffer for some 250 levels without a look; each takes a column."""

STATEMENT_END = re.compile(r"[;{}]")


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """A parsed text.  `language` is the grammar's, which may be a dialect of what was asked for."""

    root: tree_sitter.Node
    source: bytes
    language: str

    def text_of(self, node: tree_sitter.Node) -> str:
        """The text that a node covers."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")


@lru_cache(maxsize=CACHED_TREES)
def parse(text: str, language: str | None) -> SyntaxTree | None:
    """The tree of `text`, rows counted as `text.split("\\n")` does; None without a grammar, past `MAX_CHARS`, or where
    parsing would take too long.

    Where the grammar finds errors and the language has a dialect (TypeScript: TSX, C: C++) whose grammar finds none,
    the tree is the dialect's.
    """
    row = find_language(language)
    tree = _parse_with(text, row)
    if row is None or tree is None or row.dialect is None or not tree.root.has_error:
        return tree
    other = _parse_with(text, find_language(row.dialect))
    return other if other is not None and not other.root.has_error else tree


def _parse_with(text: str, row: Language | None) -> SyntaxTree | None:
    grammar = load_grammar(row.name) if row is not None else None
    if row is None or grammar is None or len(text) > MAX_CHARS or _is_deep(text, row.name):
        return None
    # A lone surrogate has no UTF-8 form; it becomes one "?", which moves no row.
    source = text.encode("utf-8", "replace")
    if not source.endswith(b"\n"):
        # Kotlin's scanner (1.1.0) looks for white space after `@` beyond the end of the text, for ever.
        source += b"\n"
    if len(source) > MAX_PLAIN_BYTES and len(zlib.compress(source, 1)) * MAX_COMPRESSION < len(source):
        return None
    parser = tree_sitter.Parser(grammar)
    root = _parse_counted(parser, source) if row.may_hang else parser.parse(source).root_node
    return SyntaxTree(root, source, row.name) if root is not None else None


def _parse_counted(parser: tree_sitter.Parser, source: bytes) -> tree_sitter.Node | None:
    """The root, or None where the parser hangs: it then reads on and on, and only the end of the text stops it."""
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
        # The binding keeps a reference to all that it was handed; a released view holds no text.
        view.release()
    return root if n_left >= 0 else None


def _is_deep(text: str, language: str) -> bool:
    """Whether the text nests deeper than the language's parser can bear."""
    if language == "yaml" and DEEP_LINE.search(text) is not None:
        return True
    if text.count("<") <= MAX_OPEN_ANGLES or language in ("html", "markdown"):
        return False
    return max(part.count("<") for part in STATEMENT_END.split(text)) > MAX_OPEN_ANGLES
