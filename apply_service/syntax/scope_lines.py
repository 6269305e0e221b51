"""The lines of a scope: its comments, header, body and end.  From a syntax node, or from indentation alone.

`scopes` finds the nodes and nests the scopes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import Language

CLOSER = re.compile(r"\s*(?:[}\])]|end\b|done\b|fi\b|esac\b|;;|</)")
ATTRIBUTE = re.compile(r"\s*(?:#!?\[|@\w|\[\w)")
ATTRIBUTE_NODES = frozenset({"attribute_list", "modifiers", "attribute_group", "annotation", "marker_annotation"})
MAX_NAME_CHARS = 120
MAX_LEAD_LINES = 200
TAB_COLUMNS = 8


class Scope(NamedTuple):
    """One scope.  Lines are 0-based; `lead_line <= start_line <= header_line < body_start_line <= body_end_line <=
    end_line`, but for a scope within one line, where the body is empty and starts at `end_line`."""

    name: str
    """As declared; the stripped first line for what declares no name (blocks)."""
    kind: str
    """function, method, class, module, key, section, element or block."""
    start_line: int
    """With decorators, attributes, `export`, `template <...>`."""
    end_line: int
    """Half open; blank lines after the scope are not in it."""
    header_line: int
    """The line with the declaration itself."""
    body_start_line: int
    """The first line after the header."""
    body_end_line: int
    """Half open; before the closing line (`}`, `end`, `</div>`) where there is one."""
    lead_line: int
    """With comments that stand directly above."""
    indent: str
    """White space before the header."""
    parent: int | None
    """Index of the innermost scope around this one."""


class ScopeLines:
    """The lines of one text, by which its scopes are measured."""

    def __init__(self, text: str, language: Language) -> None:
        self.language = language
        self._lines = text.split("\n")
        # Stripped once: a minified file has all its scopes on one long line, which must not be copied for each.
        self._stripped = [line.strip() for line in self._lines]
        self._line_comment = language.line_comment or ("\0",)

    def measure(
        self,
        node: tree_sitter.Node,
        body: tree_sitter.Node | None,
        *,
        outer_row: int,
        name: str,
        kind: str,
        parent: int | None,
    ) -> Scope:
        """The scope of `node`.  `outer_row`: where what is wrapped around the node (`export`) starts."""
        header, start = self._header_row(node, body), min(outer_row, node.start_point[0])
        end = max(self._end(node, header), header + 1)
        body_start = min(self._body_start(header, body, end), end)
        has_closer = end - 1 >= body_start and CLOSER.match(self._lines[end - 1]) is not None
        return Scope(
            name=name or self._stripped[header][:MAX_NAME_CHARS],
            kind=kind,
            start_line=start,
            end_line=end,
            header_line=header,
            body_start_line=body_start,
            body_end_line=end - 1 if has_closer else end,
            lead_line=self._lead(start),
            indent=self._indent(header),
            parent=parent,
        )

    def measure_indented(self) -> list[Scope]:
        """The scopes of a text without a syntax tree, outer before inner: a line is a header where the next line that
        is not blank is indented deeper.  A closing line (`}`, `end`) at the header's indentation is the scope's last.
        Linear in the number of lines."""
        scopes: list[Scope] = []
        open_scopes: list[tuple[int, int]] = []
        rows = [(row, self._columns(row)) for row, text in enumerate(self._stripped) if text]
        rows.append((len(self._lines), -1))
        last = 0
        for (row, columns), (_, next_columns) in zip(rows, [*rows[1:], (0, -1)], strict=True):
            while open_scopes and open_scopes[-1][0] >= columns:
                opened, index = open_scopes.pop()
                is_closer = opened == columns and CLOSER.match(self._lines[row]) is not None
                body_end, end = (row, row + 1) if is_closer else (last, last)
                scopes[index] = scopes[index]._replace(end_line=end, body_end_line=body_end)
            if next_columns > columns:
                scope = Scope(
                    name=self._stripped[row][:MAX_NAME_CHARS],
                    kind="block",
                    start_line=row,
                    end_line=row + 1,
                    header_line=row,
                    body_start_line=row + 1,
                    body_end_line=row + 1,
                    lead_line=self._lead(row),
                    indent=self._indent(row),
                    parent=open_scopes[-1][1] if open_scopes else None,
                )
                open_scopes.append((columns, len(scopes)))
                scopes.append(scope)
            last = row + 1
        return scopes

    def _indent(self, row: int) -> str:
        """The white space before a line's text; all of a blank line."""
        line, text = self._lines[row], self._stripped[row]
        return line[: line.index(text[0])] if text else line

    def _columns(self, row: int) -> int:
        return len(self._indent(row).expandtabs(TAB_COLUMNS))

    def _header_row(self, node: tree_sitter.Node, body: tree_sitter.Node | None) -> int:
        """The first row that is not an attribute or annotation inside the node."""
        row, last = node.start_point[0], (body or node).start_point[0]
        if last == row or ATTRIBUTE.match(self._lines[row]) is None:
            return row
        for child in node.children:
            if child.type not in ATTRIBUTE_NODES:
                return child.start_point[0] if child.start_point[0] <= last else row
            if child.type == "modifiers":
                # The first plain modifier (`public`), else what follows the annotations.
                plain = next((part for part in child.children if "annotation" not in part.type), child.next_sibling)
                row = (plain or child).start_point[0]
        return row

    def _end(self, node: tree_sitter.Node, header: int) -> int:
        row, column = node.end_point
        end = min(row + (column > 0), len(self._lines))
        if self.language.is_indented:
            # Python's and YAML's grammars leave the comments at the end of a block outside it.
            width = len(self._indent(header))
            for row in range(end, len(self._lines)):
                text = self._stripped[row]
                if text and not (text.startswith("#") and len(self._indent(row)) > width):
                    break
                end = row + 1 if text else end
        while end > header + 1 and not self._stripped[end - 1]:
            end -= 1
        return end

    def _body_start(self, header: int, body: tree_sitter.Node | None, end: int) -> int:
        if body is None:
            return header + 1
        row, column = body.start_point
        # Bytes before the body, characters of indentation: equal where only white space stands before it.
        if row == header or column > len(self._indent(row).encode()) or self._stripped[row][:1] in ("{", "(", "["):
            return row + 1
        # The body node starts at its first statement: comments and blank lines between are body too.
        while row - 1 > header and (
            not self._stripped[row - 1] or self._stripped[row - 1].startswith(self._line_comment)
        ):
            row -= 1
        return min(row, end)

    def _lead(self, start: int) -> int:
        """The first of the comment and attribute lines that touch `start` from above."""
        row = start
        while row > 0 and start - row < MAX_LEAD_LINES:
            above = self._comment_start(row - 1)
            if above is None:
                return row
            row = above
        return row

    def _comment_start(self, row: int) -> int | None:
        """Where the comment or attribute that ends in `row` starts; None if `row` is neither."""
        line = self._stripped[row]
        if line.startswith(self._line_comment):
            return row
        for opening, closing in self.language.block_comment:
            if line.endswith(closing):
                above = range(row, max(-1, row - MAX_LEAD_LINES), -1)
                first = next((n for n in above if opening in self._stripped[n]), None)
                return first if first is not None and self._stripped[first].startswith(opening) else None
        if line.endswith("]") and self.language.name in ("rust", "cpp", "php") and ATTRIBUTE.match(line) is not None:
            return row
        return None
