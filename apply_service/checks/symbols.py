"""A top-level symbol (or one of a class) or an import is gone, or is there twice, and the update does not say so.

A symbol counts as said where the predicted merge removes it by what the update shows, or where a removal note names it.
A second symbol is a duplicate only in the same place, with the same header line: overloads differ in it.
"""

from __future__ import annotations

import re
from collections import Counter

from apply_service.checks.changes import MAX_FINDINGS, REMOVAL, EditLines, count_stripped, find_changes, verdicts_at
from apply_service.protocols import CheckInput
from apply_service.syntax.languages import load_grammar
from apply_service.syntax.symbols import Symbol, find_symbols
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


def find_symbol_changes(answer: CheckInput) -> list[Verdict]:
    """Warning.  Needs a grammar; nothing is found without one."""
    if not answer.original.strip() or load_grammar(answer.language) is None:
        return []
    edit, changes = EditLines(answer), find_changes(answer.original, answer.merged)
    said = edit.dropped - edit.unsaid
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    counts = count_stripped(answer.merged)
    lines = (merged[number].strip() for number in changes.added)
    may_be_lost = any(original[number].strip() and number not in said for number in changes.removed)
    is_doubled = (counts[line] > 1 and len(line) < MAX_HEADER_CHARS and HEADER.match(line) for line in lines)
    if not may_be_lost and not any(is_doubled):
        return []  # as with most edits: the trees are not asked
    before, after = (find_symbols(text, answer.language) for text in (answer.original, answer.merged))
    found: list[Verdict] = []
    # Where a name's line occurs as often as before, only the parser lost sight of the name.
    lost = count_stripped(answer.original)
    lost.subtract(counts)
    for item in _gone(before, after):
        word = re.escape(item.name.rsplit(":", 1)[-1].rsplit(".", 1)[-1])
        named = re.compile(rf"(?<!\w){word}(?!\w)")
        is_said = item.line in said or any(REMOVAL.search(line) and named.search(line) for line in edit.unplaced)
        if lost[original[item.line].strip()] > 0 and not is_said:
            found += verdicts_at("symbols", "warning", f"{item.kind} `{item.name}` is gone", [item.line], "original")
    known, seen = Counter(item[:5] for item in before), Counter[tuple[str, ...]]()
    for item in after:
        seen[item[:5]] += 1
        if seen[item[:5]] > max(1, known[item[:5]]) and not _may_repeat(item, answer):
            found += verdicts_at("symbols", "warning", f"{item.kind} `{item.name}` stands twice", [item.line])
    return found[:MAX_FINDINGS]


def _may_repeat(item: Symbol, answer: CheckInput) -> bool:
    """Also the statements of an SQL script may repeat, and the keys in TOML's arrays of tables and in a stream of YAML
    documents."""
    language = answer.language
    if item.kind == "import":
        return item.is_indented and language != "go"
    has_parts = language == "toml" or (language == "yaml" and "\n---" in answer.merged)
    return item.kind in REPEATABLE or language == "sql" or (item.kind == "key" and has_parts)


def _gone(before: list[Symbol], after: list[Symbol]) -> list[Symbol]:
    """Names of which there are fewer now; those whose place is gone first."""
    left = Counter((item.kind, item.name) for item in after)
    places = Counter(item[:5] for item in after)
    moved = []
    for item in before:
        if places[item[:5]] > 0:
            places[item[:5]] -= 1
            left[item[:2]] -= 1
        else:
            moved.append(item)
    gone = []
    for item in moved:
        left[item[:2]] -= 1
        if left[item[:2]] < 0:
            gone.append(item)
    return gone
