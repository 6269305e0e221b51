"""Parsed trees, cached by (language, text) so that merger, windows and checks parse a text once between them.

Trees are only read after parsing, so they are shared between threads; parsers are not.  Some grammars take quadratic
time or memory on hostile text, and one overruns its own stack, so a text is looked at before it is parsed and the parse
has a budget of processor time; a text that fails either has no tree, as if its language were unknown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache

import tree_sitter

from apply_service.syntax.languages import find_language, get_parser

MAX_CHARS = 1_500_000
"""Longer texts have no tree."""

CACHED_TREES = 16
"""A request touches four texts (original, update, prediction, merged); a few requests run side by side."""

READ_BYTES = 2048
"""Handed to the parser at a time; the budget is looked at in between."""

START_BUDGET_S = 0.1
BUDGET_S_PER_BYTE = 1e-6
"""Real files take 0.05 to 0.2 microseconds of processor time a byte."""

MAX_OPEN_ANGLES = 500
"""`<` between two statement ends: Java's and C#'s grammars need memory quadratic in it (16,000: gigabytes)."""

DEEP_SEQUENCE = re.compile(r"(?:[-?:][ \t]+){60}|^[ \t]{400}", re.MULTILINE)
"""YAML's scanner writes its indentation stack into a fixed buffer without looking."""

STATEMENT_END = re.compile(r"[;{}]")


@lru_cache(maxsize=CACHED_TREES)
def parse(text: str, language: str | None) -> tree_sitter.Tree | None:
    """The tree of `text`, rows counted as `text.split("\\n")` does; None without a grammar, past `MAX_CHARS`, or where
    parsing would take too long.

    Where the grammar finds errors and the language has a dialect (TypeScript: TSX, C: C++) whose grammar finds none,
    the tree is the dialect's.
    """
    row = find_language(language)
    tree = _parse_with(text, row.name) if row is not None else None
    if row is None or tree is None or row.dialect is None or not tree.root_node.has_error:
        return tree
    other = _parse_with(text, row.dialect)
    return other if other is not None and not other.root_node.has_error else tree


def _parse_with(text: str, language: str) -> tree_sitter.Tree | None:
    parser = get_parser(language)
    if parser is None or not _is_parsable(text, language):
        return None
    # A lone surrogate has no UTF-8 form; it becomes one "?", which moves no row.
    read = _Reader(text.encode("utf-8", "replace"))
    tree = parser.parse(read)
    return None if read.is_late else tree


def _is_parsable(text: str, language: str) -> bool:
    if len(text) > MAX_CHARS:
        return False
    if language == "yaml" and DEEP_SEQUENCE.search(text) is not None:
        return False
    if text.count("<") <= MAX_OPEN_ANGLES or language in ("html", "markdown"):
        return True
    return max(part.count("<") for part in STATEMENT_END.split(text)) <= MAX_OPEN_ANGLES


class _Reader:
    """Feeds a parser until its budget is spent, then says that the text ends."""

    def __init__(self, source: bytes, clock: Callable[[], float] = time.thread_time) -> None:
        self._source = source
        self._clock = clock
        self._start_s = clock()
        self.is_late = False

    def __call__(self, offset: int, _point: tuple[int, int]) -> bytes:
        budget_s = START_BUDGET_S + BUDGET_S_PER_BYTE * offset
        self.is_late = self.is_late or self._clock() - self._start_s > budget_s
        return b"" if self.is_late else self._source[offset : offset + READ_BYTES]
