"""Where a block goes that has no anchor: new imports, new definitions, loose lines between two markers.

Works by indentation and the kind of line; its answers are guesses and say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apply_service.edits.headers import definition_end
from apply_service.edits.indentation import indent_of
from apply_service.edits.markers import Hint
from apply_service.edits.snippet import Snippet

_IMPORT = re.compile(
    r"^\s*(?:import\b|from\s+\S+\s+import\b|use\s|using\s|#\s*include\b|require\b|require_relative\b|package\b|@import\b|"
    r"(?:const|let|var)\s.{0,200}\brequire\(|export\s.*\bfrom\b|<link\b|<script\b)"
)


@dataclass(frozen=True, slots=True)
class Placement:
    """Insert before original line `at`, with blank lines around."""

    at: int
    reason: str
    blanks_before: int = 0
    blanks_after: int = 0


def place_block(
    snippet: Snippet, b: int, texts: Sequence[str], original: Sequence[str], low: int, high: int
) -> Placement:
    """The place for block b, not before line `low` and not behind line `high` of the original."""
    block = snippet.blocks[b]
    first = texts[block.lines[0]]
    if block.hint is not None:
        at = _by_hint(block.hint, original, low, high)
        if at is not None:
            return _spaced(at, original, "placed by its hint")
    if _IMPORT.match(first):
        at = _after_last_import(original, low, high)
        if at is not None:
            return Placement(at, "no anchor; placed after the last import")
    if b == len(snippet.blocks) - 1 and not block.marked_after:
        return _spaced(_skip_back(original, high, low), original, "no anchor; placed at the end")
    if b == 0 and not block.marked_before:
        return Placement(low, "no anchor; placed at the start")
    return _spaced(
        _end_of_scope(original, indent_of(first), low, high), original, "no anchor; placed by its indentation"
    )


def _by_hint(hint: Hint, original: Sequence[str], low: int, high: int) -> int | None:
    words = hint.target.strip("`'\"() .:").lower()
    if not words:
        return None
    for j in range(low, high):
        if words in original[j].lower():
            if hint.where in ("before", "above"):
                return j
            return definition_end(original, j, high)
    return None


def _after_last_import(original: Sequence[str], low: int, high: int) -> int | None:
    found = [j for j in range(low, high) if _IMPORT.match(original[j])]
    return definition_end(original, found[-1], high) if found else None


def _skip_back(original: Sequence[str], at: int, low: int) -> int:
    while at > low and not original[at - 1].strip():
        at -= 1
    return at


def _end_of_scope(original: Sequence[str], indent: int, low: int, high: int) -> int:
    """Behind the last line of the scope that starts at `low`, as far as lines are indented at least `indent`."""
    at = low
    for j in range(low, high):
        if original[j].strip() and indent_of(original[j]) < indent:
            break
        at = j + 1
    return _skip_back(original, at, low)


def _spaced(at: int, original: Sequence[str], reason: str) -> Placement:
    above = at > 0 and bool(original[at - 1].strip())
    return Placement(at, reason, blanks_before=1 if above else 0)
