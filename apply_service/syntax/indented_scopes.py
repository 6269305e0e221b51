"""Scopes of a language without a grammar: a line is a header where the next line of text is indented deeper.

Closing lines (`}`, `end`) at the header's indentation belong to the scope.  Tabs count as eight columns.
"""

from __future__ import annotations

from apply_service.syntax.language_table import Language
from apply_service.syntax.languages import find_language
from apply_service.syntax.scope_lines import CLOSER, MAX_NAME_CHARS, Scope, ScopeLines

UNKNOWN = Language("")
TAB_COLUMNS = 8


def find_indented_scopes(text: str, language: str | None) -> list[Scope]:
    """Scopes of kind `block`, outer before inner.  Linear in the number of lines."""
    lines = text.split("\n")
    leads = ScopeLines(text, find_language(language) or UNKNOWN)
    scopes: list[Scope] = []
    open_scopes: list[tuple[int, int]] = []
    rows = [row for row, line in enumerate(lines) if line.strip()]
    for position, row in enumerate(rows):
        width = _width(lines[row])
        _close(open_scopes, scopes, lines, row, width, last=rows[position - 1] + 1 if position else 0)
        follower = rows[position + 1] if position + 1 < len(rows) else None
        if follower is not None and _width(lines[follower]) > width:
            parent = open_scopes[-1][1] if open_scopes else None
            open_scopes.append((width, len(scopes)))
            scopes.append(_header_scope(lines, row, leads.lead(row), parent))
    _close(open_scopes, scopes, lines, len(lines), -1, last=rows[-1] + 1 if rows else 0)
    return scopes


def _close(
    open_scopes: list[tuple[int, int]], scopes: list[Scope], lines: list[str], row: int, width: int, *, last: int
) -> None:
    """Ends the scopes that `row`, indented by `width`, leaves; `last` is the line after the last line of text."""
    while open_scopes and open_scopes[-1][0] >= width:
        opened, index = open_scopes.pop()
        is_closer = opened == width and row < len(lines) and CLOSER.match(lines[row]) is not None
        end = row + 1 if is_closer else last
        scopes[index] = scopes[index]._replace(end_line=end, body_end_line=row if is_closer else last)


def _header_scope(lines: list[str], row: int, lead: int, parent: int | None) -> Scope:
    line = lines[row]
    return Scope(
        name=line.strip()[:MAX_NAME_CHARS],
        kind="block",
        start_line=row,
        end_line=row + 1,
        header_line=row,
        body_start_line=row + 1,
        body_end_line=row + 1,
        lead_line=lead,
        indent=line[: len(line) - len(line.lstrip())],
        parent=parent,
    )


def _width(line: str) -> int:
    body = line.lstrip()
    return len(line[: len(line) - len(body)].expandtabs(TAB_COLUMNS))
