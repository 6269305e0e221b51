"""A top-level symbol (or one of a class) or an import is gone, or stands twice, and the update does not say so.

Warning.  Needs a grammar; nothing is found without one.  A symbol counts as said where the predicted merge removes it
by what the update shows, or where a removal note names it.  Overloads are told apart by their header line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from apply_service.checks.edit_scope import EditScope, speaks_of_removal
from apply_service.checks.line_changes import find_changes, report
from apply_service.protocols import CheckInput
from apply_service.syntax.languages import has_grammar
from apply_service.syntax.symbols import find_imports, find_symbols
from apply_service.types import Verdict

HEADER = re.compile(
    r"^(?!(?:if|for|while|switch|catch|else|return|with|try|do)\b)"
    r"(?:.*\b(?:def|class|func|function|fn|fun|impl|struct|enum|trait|interface|import|from|use|using|require\w*|module|"
    r"namespace|object|record|type|const|val|var|let|create)\b|#\s*include|.*\{$|.*\)$|[\w\"'.-]+\s*[:=])",
    re.IGNORECASE,
)
"""Lines that may declare a name; looser than any grammar, so that the trees are asked only where it pays."""

REPEATABLE = frozenset({"section", "element", "variable"})
"""Kinds of which a second one is common."""

MAX_HEADER_CHARS = 500
MAX_FINDINGS = 5


class _Name(NamedTuple):
    """A symbol or import reduced to what is compared."""

    what: str
    name: str
    place: str
    """Container, branch and header line: a second symbol is a duplicate only where these agree too."""
    line: int
    is_unique: bool
    """Whether a second one of the same place is a mistake."""


class Symbols:
    name = "symbols"

    def find(self, answer: CheckInput) -> list[Verdict]:
        scope = EditScope(answer)
        if not answer.original.strip() or not has_grammar(answer.language) or not _may_find(answer, scope):
            return []
        before = _names(answer.original, answer.language)
        after = _names(answer.merged, answer.language)
        original = answer.original.split("\n")
        # Where a name's line occurs as often as before, only the parser lost sight of the name.
        lost = Counter(line.strip() for line in original)
        lost.subtract(line.strip() for line in answer.merged.split("\n"))
        found: list[Verdict] = []
        for item in _gone(before, after):
            if lost[original[item.line].strip()] > 0 and not _is_said(item, scope):
                found += report(self.name, "warning", f"{item.what} `{item.name}` is gone", [item.line], "original")
        for item in _doubled(before, after):
            found += report(self.name, "warning", f"{item.what} `{item.name}` stands twice", [item.line])
        return found[:MAX_FINDINGS]


def _may_find(answer: CheckInput, scope: EditScope) -> bool:
    """Whether any changed line could hold a finding; most edits are done here, without a look at the tree."""
    changes = find_changes(answer.original, answer.merged)
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    if any(original[number].strip() and not _is_spoken(number, scope) for number in changes.removed):
        return True
    counts = Counter(line.strip() for line in merged)
    new = (merged[number].strip() for number in changes.added)
    return any(counts[text] > 1 and len(text) < MAX_HEADER_CHARS and HEADER.match(text) is not None for text in new)


def _is_spoken(number: int, scope: EditScope) -> bool:
    return number in scope.dropped and number not in scope.unsaid


def _names(text: str, language: str | None) -> list[_Name]:
    # Also the statements of an SQL script may repeat, and the keys in TOML's arrays of tables and in a stream of YAML
    # documents.
    has_parts = language == "toml" or (language == "yaml" and "\n---" in text)
    names = []
    for symbol in find_symbols(text, language):
        may_repeat = symbol.kind in REPEATABLE or language == "sql" or (symbol.kind == "key" and has_parts)
        place = "|".join((symbol.container, symbol.branch, symbol.signature))
        names.append(_Name(symbol.kind, symbol.name, place, symbol.header_line, is_unique=not may_repeat))
    for item in find_imports(text, language):
        names.append(_Name("import", item.name, "", item.line, is_unique=item.column == 0 or language == "go"))
    return names


def _gone(before: Sequence[_Name], after: Sequence[_Name]) -> Iterable[_Name]:
    """Names of which there are fewer now; those whose place is gone first."""
    left = Counter((item.what, item.name) for item in after)
    places = Counter((item.what, item.name, item.place) for item in after)
    rest = []
    for item in before:
        if places[item[:3]] > 0:
            places[item[:3]] -= 1
            left[item[:2]] -= 1
        else:
            rest.append(item)
    for item in rest:
        if left[item[:2]] > 0:
            left[item[:2]] -= 1
        else:
            yield item


def _doubled(before: Sequence[_Name], after: Sequence[_Name]) -> Iterable[_Name]:
    """Names that stand more often than once, and more often than before, in one place with one header."""
    known = Counter(item[:3] for item in before)
    seen: Counter[tuple[str, ...]] = Counter()
    for item in after:
        seen[item[:3]] += 1
        if item.is_unique and seen[item[:3]] > max(1, known[item[:3]]):
            yield item


def _is_said(item: _Name, scope: EditScope) -> bool:
    if _is_spoken(item.line, scope):
        return True
    word = re.escape(item.name.rsplit(":", 1)[-1].rsplit(".", 1)[-1])
    named = re.compile(rf"(?<!\w){word}(?!\w)")
    return any(speaks_of_removal(line) and named.search(line) for line in scope.unplaced)
