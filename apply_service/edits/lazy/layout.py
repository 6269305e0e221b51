"""A file as units: statements, definitions, entries and paragraphs with what is nested in them, as ranges of lines.

By the scopes of the grammar where it knows one, by indentation and brackets elsewhere.  Knows nothing of edits.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from apply_service.edits.code_lines import Unit, attached_start, definition_end, find_unit, indent_of
from apply_service.syntax.scopes import Scope

_GOES_ON = re.compile(r"\s*(?:\}\s*)?(?:else|elif|elsif|except|catch|finally|rescue|ensure)\b")
_CLOSES = re.compile(r"\s*(?:[\])}]|</)")
_IMPORT = re.compile(
    r"\s*(?:import\b|from\s+\S+\s+import\b|use\s|using\s|#\s*include\b|require(?:_relative)?\b|@import\b|"
    r"(?:const|let|var)\s[^=\n]{1,200}=\s*require\()"
)
MAX_LINE = 2000


def is_import(line: str) -> bool:
    """Whether the line opens an import statement."""
    return _IMPORT.match(line[:MAX_LINE]) is not None


def depth(lines: Sequence[str]) -> int:
    """Brackets that the lines open and do not close."""
    return sum(line.count(sign) for line in lines for sign in "([{") - sum(
        line.count(sign) for line in lines for sign in ")]}"
    )


class Layout:
    """The lines of a file, and which of them belong together."""

    def __init__(self, lines: Sequence[str], scopes: Sequence[Scope], language: str | None) -> None:
        self.lines = lines
        self.scopes = scopes
        self.is_prose = language in ("markdown", "text", "rst")
        self.text = "\n".join(lines).lower()
        self.starts = [0]
        for line in self.text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self._units: dict[int, tuple[int, int]] = {}
        self._around: dict[int, list[tuple[int, int]]] = {}
        self._at_line: dict[int, Scope] = {}
        for scope in scopes:
            self._at_line.setdefault(scope.start_line, scope)
            self._at_line.setdefault(scope.header_line, scope)

    @property
    def end(self) -> int:
        """One past the last line with text."""
        return self.before_blanks(len(self.lines))

    def line_at(self, offset: int) -> int:
        """The line of a place in `text`."""
        return bisect_right(self.starts, offset) - 1

    def before_blanks(self, line: int) -> int:
        """`line`, moved up over blank lines."""
        while line > 0 and not self.lines[line - 1].strip():
            line -= 1
        return line

    def after_blanks(self, line: int) -> int:
        """`line`, moved down over blank lines."""
        while line < len(self.lines) and not self.lines[line].strip():
            line += 1
        return line

    @cached_property
    def solid_from(self) -> list[int]:
        """For each line (and the end) the first one with text from there on."""
        found = [len(self.lines)]
        for j in range(len(self.lines) - 1, -1, -1):
            found.append(j if self.lines[j].strip() else found[-1])
        return found[::-1]

    @cached_property
    def indents(self) -> list[int]:
        """Columns before the first character of each line; many for a blank one."""
        return [indent_of(line) if line.strip() else 1000 for line in self.lines]

    @cached_property
    def _depths(self) -> list[int]:
        depths = [0]
        for line in self.lines:
            depths.append(depths[-1] + depth((line,)))
        return depths

    def depth(self, start: int, end: int) -> int:
        """Brackets that lines [start, end) open and do not close."""
        return self._depths[end] - self._depths[start]

    @cached_property
    def unit_of_indent(self) -> Unit | None:
        """One level of the file's indentation."""
        return find_unit(self.lines)

    def scope_at(self, line: int) -> Scope | None:
        """The outermost scope that begins with this line, or has its header here."""
        return self._at_line.get(line)

    def scopes_named(self, name: str) -> list[Scope]:
        """The scopes with that name, case regarded only where that leaves any."""
        same = [scope for scope in self.scopes if scope.name == name]
        return same or [scope for scope in self.scopes if scope.name.lower() == name.lower()]

    def unit(self, line: int) -> tuple[int, int]:
        """The statement, definition, entry or paragraph that begins with `line`."""
        if line not in self._units:
            self._units[line] = self._measure(line)
        return self._units[line]

    def _measure(self, line: int) -> tuple[int, int]:
        scope = self.scope_at(line)
        end = definition_end(self.lines, line, len(self.lines))
        if _GOES_ON.match(self.lines[line][:MAX_LINE]) and self.lines[end - 1].strip() in ("end", "fi"):
            return line, end - 1
        if scope is not None:
            end = max(scope.end_line, end if scope.kind in ("block", "element") else 0)
        elif self.is_prose and self.lines[line].strip():
            end = self._paragraph_end(line, end)
        elif self.lines[line].rstrip().endswith("\\"):
            while end < len(self.lines) and self.lines[end - 1].rstrip().endswith("\\"):
                end += 1
        return (scope.start_line if scope is not None else line), end

    def _paragraph_end(self, line: int, end: int) -> int:
        if re.match(r"\s*(?:[-*+]|\d+[.)])\s|\s*\||\s*#", self.lines[line]):
            return end
        while end < len(self.lines) and self.lines[end].strip() and not re.match(r"\s*(?:[-*+#|]\s)", self.lines[end]):
            end += 1
        return end

    def chain(self, start: int, end: int) -> int:
        """The end of a statement whose further branches (else, except, ...) follow."""
        while (
            end < len(self.lines)
            and _GOES_ON.match(self.lines[end][:MAX_LINE])
            and indent_of(self.lines[end]) == indent_of(self.lines[start])
        ) or (end <= len(self.lines) and _GOES_ON.match(self.lines[end - 1][:MAX_LINE]) and self.opens(end - 1)):
            at = end if end < len(self.lines) and _GOES_ON.match(self.lines[end][:MAX_LINE]) else end - 1
            further = definition_end(self.lines, at, len(self.lines))
            if further <= end:
                break
            end = further
        return end

    def opens(self, line: int) -> bool:
        """Whether the next line with text is indented deeper."""
        below = self.after_blanks(line + 1)
        return below < len(self.lines) and indent_of(self.lines[below]) > indent_of(self.lines[line])

    def lead(self, start: int) -> int:
        """The first of the decorators and comments right above."""
        scope = self.scope_at(start)
        if scope is not None:
            return scope.lead_line
        return attached_start(self.lines, start, 0) if not self.is_prose else start

    @cached_property
    def parents(self) -> list[int]:
        """For each line the nearest one above that is indented less; -1 for none."""
        parents, stack = [], [(-1, -1)]
        for j, line in enumerate(self.lines):
            if line.strip():
                indent = indent_of(line)
                while stack[-1][0] >= indent:
                    stack.pop()
                parents.append(stack[-1][1])
                if not _CLOSES.match(line[:MAX_LINE]):
                    stack.append((indent, j))
            else:
                parents.append(stack[-1][1])
        return parents

    def enclosing(self, line: int) -> list[tuple[int, int]]:
        """The units around a line, innermost first."""
        if line not in self._around:
            self._around[line] = self._units_around(line)
        return self._around[line]

    def _units_around(self, line: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        parent = self.parents[line]
        while parent >= 0 and len(found) < 12:
            found.append(self.unit(parent))
            parent = self.parents[parent]
        found += [
            (scope.start_line, scope.end_line)
            for scope in reversed(self.scopes)
            if scope.header_line < line < scope.end_line
        ]
        return sorted(set(found), key=lambda span: (span[1] - span[0], span[0]))

    def body(self, start: int, end: int) -> tuple[int, int]:
        """The lines of a unit less its header and its closing line."""
        scope = self.scope_at(start)
        if scope is not None and scope.end_line == end and scope.body_start_line < scope.body_end_line:
            return scope.body_start_line, self.before_blanks(scope.body_end_line)
        last = end - 1 if end - 1 > start and _CLOSES.match(self.lines[end - 1][:MAX_LINE]) else end
        first = start + 1
        while first < last and indent_of(self.lines[first]) <= indent_of(self.lines[start]):
            first += 1
        return (first if first < last else start + 1), self.before_blanks(last)

    def after_units(self, start: int, end: int, number: int) -> int:
        """One past so many units from `start` on, not behind `end`."""
        at = start
        for _ in range(number):
            begin = self.after_blanks(at)
            if begin >= end:
                break
            at = self.unit(begin)[1]
        return min(at, end)

    @cached_property
    def last_import(self) -> int:
        """One past the last import at the top; 0 for none."""
        found = 0
        for j, line in enumerate(self.lines):
            if is_import(line) and indent_of(line) == 0:
                found = definition_end(self.lines, j, len(self.lines))
            elif found and (scope := self.scope_at(j)) is not None and scope.kind in ("function", "class"):
                break
        return found

    def levels(self, at: int) -> set[int]:
        """The indentations that a line at this place may have."""
        above = self.before_blanks(at) - 1
        below = self.after_blanks(at)
        floor = indent_of(self.lines[below]) if below < len(self.lines) else 0
        levels = {floor}
        while above >= 0:
            if (level := indent_of(self.lines[above])) >= floor:
                levels.add(level)
            above = self.parents[above]
        return levels
