"""Where a block goes that has no anchor: new imports, new definitions, loose lines between two markers.

By its hint, by the kind of its first line, by the scopes around.  The answers are guesses and say so.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from apply_service.edits.headers import definition_end, is_definition
from apply_service.edits.indentation import Shift, indent_of
from apply_service.edits.markers import Hint
from apply_service.edits.reading import Reading
from apply_service.syntax.scopes import Scope

_IMPORT = re.compile(
    r"^\s*(?:import\b|from\s+\S+\s+import\b|use\s|using\s|#\s*include\b|require\b|require_relative\b|package\b|@import\b|"
    r"(?:const|let|var)\s.{0,200}\brequire\(|export\s.*\bfrom\b|<link\b|<script\b)"
)
_BEFORE = ("before", "above")
_INSIDE = ("inside", "within", "into", "in", "to", "at")


@dataclass(frozen=True, slots=True)
class Placement:
    """Replace original lines `at:end` (mostly none), with blank lines around."""

    at: int
    reason: str
    blanks_before: int = 0
    blanks_after: int = 0
    end: int = -1
    shift: Shift = field(default_factory=Shift)

    def __post_init__(self) -> None:
        if self.end < 0:
            object.__setattr__(self, "end", self.at)


def place_block(reading: Reading, b: int, low: int, high: int) -> Placement:
    """The place for block b, not before line `low` and not behind line `high` of the original."""
    snippet, original = reading.snippet, reading.original
    block = snippet.blocks[b]
    first = reading.texts[block.lines[0]]
    if block.hint is not None:
        placement = _by_hint(reading, block.hint, first, low, high)
        if placement is not None:
            return placement
    if _IMPORT.match(first):
        at = _after_last_import(reading, low, high)
        if at is not None:
            return Placement(at, "no anchor; placed after the last import")
    if b == 0 and not block.marked_before and block.marked_after:
        return Placement(low, "no anchor; placed at the start", blanks_after=usual_gap(reading, first))
    at = _end_of_scope(
        reading, indent_of(first), low, high, last=b == len(snippet.blocks) - 1 and not block.marked_after
    )
    blanks = _blanks_after(reading, at)
    if at >= len(original) or not blanks or indent_of(original[min(at + blanks, len(original) - 1)]) < indent_of(first):
        blanks = usual_gap(reading, first)
    return Placement(at, "no anchor; placed by its indentation", blanks_before=blanks if at > low else 0)


def _by_hint(reading: Reading, hint: Hint, first: str, low: int, high: int) -> Placement | None:
    """Next to what the hint names: a scope, else a line that has its words."""
    words = hint.target.strip("`'\"() .:").removesuffix("()")
    if hint.where in ("end", "start"):
        return _at_edge(
            reading,
            hint.where,
            re.sub(r"^(?:file|class|module)$|\s+(?:class|function|file)$", "", words),
            first,
            low,
            high,
        )
    if not words:
        return None
    scope = find_scope(reading, words, low, high)
    if scope is None:
        line = next((j for j in range(low, high) if words.lower() in reading.original[j].lower()), None)
        if line is None:
            return None
        start, end = line, definition_end(reading.original, line, high)
    else:
        start, end = scope.lead_line, scope.end_line
    shift = Shift().moved(indent_of(reading.original[start]) - indent_of(first))
    if hint.where in _BEFORE:
        return Placement(start, "placed by its hint", blanks_after=reading.blanks_before(start), shift=shift)
    if hint.where in _INSIDE and scope is not None and scope.body_end_line > scope.body_start_line:
        return Placement(scope.body_end_line, "placed by its hint")
    blanks = _blanks_after(reading, end) or reading.blanks_before(start)
    return Placement(end, "placed by its hint", blanks_before=blanks, shift=shift)


def _at_edge(reading: Reading, where: str, name: str, first: str, low: int, high: int) -> Placement | None:
    """At the start or end of a named scope, or of the file."""
    scope = find_scope(reading, name, low, high) if name else None
    if name and scope is None:
        return None
    start, end = (scope.body_start_line, scope.body_end_line) if scope is not None else (low, high)
    gap = usual_gap(reading, first)
    if where == "start":
        return Placement(start, "placed by its hint", blanks_after=gap)
    while end > start and not reading.original[end - 1].strip():
        end -= 1
    return Placement(end, "placed by its hint", blanks_before=gap)


def find_scope(reading: Reading, name: str, low: int, high: int) -> Scope | None:
    """The scope of that name; else the one whose header has the words."""
    named = reading.scopes_named.get(name, [])
    for scope in named[bisect_left(named, low, key=_start) :]:
        if scope.start_line > high:
            break
        if scope.end_line <= high:
            return scope
    text, begins = reading.scope_headers
    n = bisect_left(reading.scopes, low, key=_start)
    while (at := text.find(name.lower(), begins[n])) >= 0:
        n = bisect_right(begins, at)
        scope = reading.scopes[n - 1]
        if scope.start_line > high:
            break
        if scope.end_line <= high:
            return scope
    return None


def _start(scope: Scope) -> int:
    return scope.start_line


def _after_last_import(reading: Reading, low: int, high: int) -> int | None:
    found = [j for j in range(low, high) if _IMPORT.match(reading.original[j])]
    return definition_end(reading.original, found[-1], high) if found else None


def _end_of_scope(reading: Reading, indent: int, low: int, high: int, *, last: bool) -> int:
    """Behind the last line of the scope around `low`, as far as lines are indented at least `indent`; with `last`
    behind the last such line of all."""
    at = low
    for j in range(low, high):
        line = reading.original[j]
        if line.strip() and indent_of(line) < indent:
            if not last:
                break
            continue
        at = j + 1 if line.strip() else at
    return at


def usual_gap(reading: Reading, first: str) -> int:
    """Blank lines between definitions like this one: the commonest in the file; none between plain lines."""
    if not is_definition(first):
        return 0
    return reading.gaps_above.get(indent_of(first), 1)


def _blanks_after(reading: Reading, at: int) -> int:
    end = at
    while end < len(reading.original) and not reading.original[end].strip():
        end += 1
    return end - at if end < len(reading.original) else 0
