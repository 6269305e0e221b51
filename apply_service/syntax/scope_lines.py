"""A scope as lines: where its lead, header, body and end are.  Works on text and one node; `scopes` nests them."""

from __future__ import annotations

import re
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.language_table import Language

CLOSER = re.compile(r"\s*(?:[}\])]|end\b|done\b|fi\b|esac\b|;;|</)")
ATTRIBUTE = re.compile(r"\s*(?:#!?\[|@\w|\[\w)")
MAX_NAME_CHARS = 120
MAX_LEAD_LINES = 200


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
    """The lines of one text, for measuring its scopes."""

    def __init__(self, text: str, language: Language) -> None:
        self.language = language
        self._lines = text.split("\n")
        self._blocks = language.block_comment
        # A minified file has all its scopes on one long line, which must not be copied for each.
        self._stripped: dict[int, str] = {}

    def header(self, scope: Scope) -> str:
        """The header line as a name for a scope that has none."""
        return self._strip(scope.header_line)[:MAX_NAME_CHARS]

    def _strip(self, row: int) -> str:
        if row not in self._stripped:
            self._stripped[row] = self._lines[row].strip()
        return self._stripped[row]

    def _indent(self, row: int) -> str:
        """The white space before a line's text; all of a blank line."""
        text = self._strip(row)
        return self._lines[row][: self._lines[row].index(text[0])] if text else self._lines[row]

    def measure(self, node: tree_sitter.Node, body: tree_sitter.Node | None, *, outer_row: int) -> Scope:
        """The lines of `node`; name, kind and parent are left for the caller."""
        header, start = self._header_row(node, body), min(outer_row, node.start_point[0])
        end = max(self._end(node, header), header + 1)
        body_start = min(self._body_start(header, body, end), end)
        has_closer = end - 1 >= body_start and CLOSER.match(self._lines[end - 1]) is not None
        return Scope(
            name="",
            kind="",
            start_line=start,
            end_line=end,
            header_line=header,
            body_start_line=body_start,
            body_end_line=end - 1 if has_closer else end,
            lead_line=self.lead(start),
            indent=self._indent(header),
            parent=None,
        )

    def _header_row(self, node: tree_sitter.Node, body: tree_sitter.Node | None) -> int:
        """The first row that is not an attribute or annotation inside the node."""
        row, last = node.start_point[0], (body or node).start_point[0]
        if last == row or ATTRIBUTE.match(self._lines[row]) is None:
            return row
        for child in node.children:
            if child.type not in ("attribute_list", "modifiers", "attribute_group", "annotation", "marker_annotation"):
                return child.start_point[0] if child.start_point[0] <= last else row
            if child.type == "modifiers":
                row = self._past_annotations(child)
        return row

    def _past_annotations(self, modifiers: tree_sitter.Node) -> int:
        """The row of the first plain modifier (`public`), else of the token after the annotations."""
        for child in modifiers.children:
            if "annotation" not in child.type:
                return child.start_point[0]
        after = modifiers.next_sibling
        return after.start_point[0] if after is not None else modifiers.start_point[0]

    def _end(self, node: tree_sitter.Node, header: int) -> int:
        point = node.end_point
        end = min(point[0] + 1 if point[1] > 0 else point[0], len(self._lines))
        if self.language.is_indented:
            end = self._with_trailing_comments(header, end)
        while end > header + 1 and not self._strip(end - 1):
            end -= 1
        return end

    def _with_trailing_comments(self, header: int, end: int) -> int:
        """Python's and YAML's grammars leave the comments at the end of a block outside it."""
        width, row, last = len(self._indent(header)), end, end
        while row < len(self._lines):
            text = self._strip(row)
            if text and not (text.startswith("#") and len(self._indent(row)) > width):
                break
            row += 1
            last = row if text else last
        return last

    def _body_start(self, header: int, body: tree_sitter.Node | None, end: int) -> int:
        if body is None:
            return header + 1
        row = body.start_point[0]
        # Bytes before the body, characters of indentation: equal where only white space stands before it.
        if row == header or body.start_point[1] > len(self._indent(row).encode()):
            return row + 1
        if self._strip(row)[:1] in ("{", "(", "["):
            return row + 1
        # The body node starts at its first statement: comments and blank lines between are body too.
        while row - 1 > header and self._is_blank_or_comment(row - 1):
            row -= 1
        return min(row, end)

    def _is_blank_or_comment(self, row: int) -> bool:
        return not self._strip(row) or self._strip(row).startswith(self.language.line_comment or ("\0",))

    def lead(self, start: int) -> int:
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
        line = self._strip(row)
        if line.startswith(self.language.line_comment or ("\0",)):
            return row
        for opening, closing in self._blocks:
            if line.endswith(closing):
                return self._find_opening(row, opening)
        if line.endswith("]") and self.language.name in ("rust", "cpp", "php"):
            return row if ATTRIBUTE.match(line) is not None else None
        return None

    def _find_opening(self, row: int, opening: str) -> int | None:
        for above in range(row, max(-1, row - MAX_LEAD_LINES), -1):
            line = self._strip(above)
            if opening in line:
                return above if line.startswith(opening) else None
        return None
