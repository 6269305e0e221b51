"""A top-level symbol (or one of a class) or an import is gone, or is there twice, and the update does not say so.

A symbol counts as said where the predicted merge removes it by what the update shows, or where a removal note names it.
Overloads are told apart by their header line.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from apply_service.checks.changes import MAX_FINDINGS, REMOVAL, EditLines, count_stripped, find_changes, report
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


class Declared(NamedTuple):
    """A symbol or import reduced to what is compared."""

    what: str
    name: str
    place: str
    """Container, branch and header line: a second symbol is a duplicate only where these agree too."""
    line: int
    is_unique: bool
    """Whether a second one of the same place is a mistake."""


def find_symbol_changes(answer: CheckInput) -> list[Verdict]:
    """Warning.  Needs a grammar; nothing is found without one."""
    if not answer.original.strip() or not has_grammar(answer.language):
        return []
    edit, changes = EditLines(answer), find_changes(answer.original, answer.merged)
    said = edit.dropped - edit.unsaid
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    counts = count_stripped(answer.merged)
    lines = (merged[number].strip() for number in changes.added)
    may_be_lost = any(original[number].strip() and number not in said for number in changes.removed)
    may_repeat = (counts[line] > 1 and len(line) < MAX_HEADER_CHARS and HEADER.match(line) for line in lines)
    if not may_be_lost and not any(may_repeat):
        return []  # as with most edits: the trees are not asked
    before, after = _declared(answer.original, answer.language), _declared(answer.merged, answer.language)
    found: list[Verdict] = []
    # Where a name's line occurs as often as before, only the parser lost sight of the name.
    lost = count_stripped(answer.original)
    lost.subtract(counts)
    for item in _gone(before, after):
        word = re.escape(item.name.rsplit(":", 1)[-1].rsplit(".", 1)[-1])
        named = re.compile(rf"(?<!\w){word}(?!\w)")
        is_said = item.line in said or any(REMOVAL.search(line) and named.search(line) for line in edit.unplaced)
        if lost[original[item.line].strip()] > 0 and not is_said:
            found += report("symbols", "warning", f"{item.what} `{item.name}` is gone", [item.line], "original")
    known, seen = Counter(item[:3] for item in before), Counter[tuple[str, ...]]()
    for item in after:
        seen[item[:3]] += 1
        if item.is_unique and seen[item[:3]] > max(1, known[item[:3]]):
            found += report("symbols", "warning", f"{item.what} `{item.name}` stands twice", [item.line])
    return found[:MAX_FINDINGS]


def _declared(text: str, language: str | None) -> list[Declared]:
    # Also the statements of an SQL script may repeat, and the keys in TOML's arrays of tables and in a stream of YAML
    # documents.
    has_parts = language == "toml" or (language == "yaml" and "\n---" in text)
    found = []
    for symbol in find_symbols(text, language):
        may_repeat = symbol.kind in REPEATABLE or language == "sql" or (symbol.kind == "key" and has_parts)
        place = "|".join((symbol.container, symbol.branch, symbol.signature))
        found.append(Declared(symbol.kind, symbol.name, place, symbol.header_line, is_unique=not may_repeat))
    for item in find_imports(text, language):
        found.append(Declared("import", item.name, "", item.line, is_unique=item.column == 0 or language == "go"))
    return found


def _gone(before: list[Declared], after: list[Declared]) -> list[Declared]:
    """Names of which there are fewer now; those whose place is gone first."""
    left = Counter((item.what, item.name) for item in after)
    places = Counter(item[:3] for item in after)
    moved = []
    for item in before:
        if places[item[:3]] > 0:
            places[item[:3]] -= 1
            left[item[:2]] -= 1
        else:
            moved.append(item)
    gone = []
    for item in moved:
        left[item[:2]] -= 1
        if left[item[:2]] < 0:
            gone.append(item)
    return gone
