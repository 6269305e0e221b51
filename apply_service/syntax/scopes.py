"""Finds the nested scopes of a file (functions, classes, keys, sections, blocks) as ranges of lines.

The scopes come from the syntax tree, or from indentation if there is no tree (`is_fallback`).  In broken code, only the
scopes that the parser recognises are found.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import tree_sitter

from apply_service.syntax.languages import Language, find_language, load_query
from apply_service.syntax.trees import CACHED_TREES, SyntaxTree, parse

KINDS = frozenset({"function", "class", "module", "block", "key", "section", "element"})
CLOSER = re.compile(r"\s*(?:[}\])]|end\b|done\b|fi\b|esac\b|;;|</)")
ATTRIBUTE = re.compile(r"\s*(?:#!?\[|@\w|\[\w)")
ATTRIBUTE_NODES = frozenset({"attribute_list", "modifiers", "attribute_group", "annotation", "marker_annotation"})
MAX_NAME_CHARS = 120
MAX_LEAD_LINES = 200
TAB_COLUMNS = 8

DECLARED = re.compile(
    r"(operator\s*(?:\(\)|\[\]|[^\s(\w]+|\s\w+)|[~\w]+(?:<[^<>()]*>)?(?:::[~\w]+(?:<[^<>()]*>)?)*)\s*(?:\(|\[|$)"
)
"""The name in a C or C++ declarator."""
HTML_ID = re.compile(r"""\bid\s*=\s*["']?([^"'\s>]+)""")
HTML_TAG = re.compile(r"<\s*([\w:-]+)")
HEADING_MARKS = re.compile(r"^\s*#+\s*|\s+#+\s*$|\n.*", re.DOTALL)
QUOTED_NAMES = frozenset({"json", "yaml", "toml", "javascript", "typescript", "tsx"})


class Scope(NamedTuple):
    """One scope.  Lines are 0-based: `lead_line <= start_line <= header_line < body_start_line <= body_end_line <=
    end_line`.  A scope in a single line has an empty body at `end_line`."""

    name: str
    """The declared name; for a scope without a name (a block), its first line, stripped."""
    kind: str
    """function, method, class, module, key, section, element or block."""
    start_line: int
    """The first line, including decorators, attributes, `export`, `template <...>`."""
    end_line: int
    """One past the last line; blank lines after the scope do not belong to it."""
    header_line: int
    """The line with the declaration itself."""
    body_start_line: int
    """The first line after the header."""
    body_end_line: int
    """One past the last line of the body, which is without the closing line (`}`, `end`, `</div>`)."""
    lead_line: int
    """The first line if the comments right above the scope are included."""
    parent: int | None
    """Index of the innermost scope around this one."""


def is_fallback(text: str, language: str | None) -> bool:
    """Tell whether the scopes of `text` come from indentation: there is no grammar, or `parse` refuses the text."""
    return parse(text, language) is None


Found = dict[tuple[int, int], tuple[str, tree_sitter.Node, tree_sitter.Node | None, tree_sitter.Node | None]]
"""For each scope, by its (first, last) byte: the kind, the node, the name's node and the body's node."""


@lru_cache(maxsize=CACHED_TREES)
def find_scopes(text: str, language: str | None) -> tuple[Scope, ...]:
    """Return the scopes of `text` (LF line ends), outer scopes before inner ones, ordered by first line.

    The cost is linear: 1 to 10 ms for 1,500 lines.  Results are cached like the trees.
    """
    known = find_language(language) or Language("")
    lines, tree = ScopeLines(text, known), parse(text, language)
    query = load_query(tree.language) if tree is not None else None
    if tree is None or query is None:
        return tuple(lines.measure_indented())
    outer_rows, found = _match(query, tree.root)
    scopes: list[Scope] = []
    open_scopes: list[tuple[int, int]] = []  # end byte and index
    for (start, end), (kind, node, name, body) in sorted(found.items(), key=lambda item: (item[0][0], -item[0][1])):
        while open_scopes and open_scopes[-1][0] <= start:
            open_scopes.pop()
        parent = open_scopes[-1][1] if open_scopes else None
        open_scopes.append((end, len(scopes)))
        if kind == "function" and parent is not None and scopes[parent].kind == "class":
            kind = "method"
        declared = "" if name is None else _declared(tree, node, name)
        first_row = min(outer_rows.get(start, node.start_point[0]), node.start_point[0])
        scopes.append(lines.measure(node, body, first_row)._replace(kind=kind, parent=parent))
        if declared:
            scopes[-1] = scopes[-1]._replace(name=declared)
    return tuple(scopes)


def _declared(tree: SyntaxTree, node: tree_sitter.Node, name: tree_sitter.Node) -> str:
    """Return the name of a scope.  The name of a trait's implementation includes the trait and the type."""
    if node.type == "impl_item" and (trait := node.child_by_field_name("trait")) is not None:
        return f"{tree.text_of(trait)} for {tree.text_of(name)}"
    return plain_name(tree, name)


def _match(query: tree_sitter.Query, root: tree_sitter.Node) -> tuple[dict[int, int], Found]:
    """Return two mappings: from the first byte of each wrapped declaration to the first row of its wrapper (`export`,
    decorators), and from the extent of each scope to its nodes."""
    outer_rows: dict[int, int] = {}
    found: Found = {}
    for _, captures in tree_sitter.QueryCursor(query).matches(root):
        if "wrapper" in captures:
            wrapper, wrapped = captures["wrapper"][0], captures["wrapped"][0]
            row = outer_rows.get(wrapper.start_byte, wrapper.start_point[0])
            outer_rows[wrapped.start_byte] = min(row, outer_rows.get(wrapped.start_byte, row))
        elif kind := next(iter(KINDS.intersection(captures)), None):
            node = captures[kind][0]
            name, body = (captures[part][0] if part in captures else None for part in ("name", "body"))
            # Several patterns may match one node: the pattern with a name wins.
            extent = (node.start_byte, node.end_byte)
            if extent not in found or (found[extent][2] is None and name is not None):
                found[extent] = (kind, node, name, body)
    return outer_rows, found


def plain_name(tree: SyntaxTree, name: tree_sitter.Node) -> str:
    """Return the bare name in a name node: `Foo::bar` for `*Foo::bar(int a)`, `div#main` for `<div id="main">`."""
    text = tree.text_of(name)
    if tree.language in ("c", "cpp"):
        declarator = (text if "operator" in text else text.split("=", 1)[0]).strip()
        match = DECLARED.search(declarator)
        text = match.group(1) if match is not None else declarator.strip("*& ")
    elif tree.language == "html":
        tag, ident = HTML_TAG.match(text), HTML_ID.search(text)
        text = (tag.group(1) if tag is not None else text) + (f"#{ident.group(1)}" if ident is not None else "")
    elif tree.language == "markdown":
        text = HEADING_MARKS.sub("", text)
    elif tree.language in QUOTED_NAMES and len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return " ".join(text.split())[:MAX_NAME_CHARS]


class ScopeLines:
    """The lines of a text.  Measures the text's scopes by syntax nodes or by indentation."""

    def __init__(self, text: str, language: Language) -> None:
        self._language = language
        self._lines = text.split("\n")
        # Strip each line once: a minified file has all its scopes on one long line, which would be copied for each
        # scope.
        self._stripped = [line.strip() for line in self._lines]
        self._line_comment = language.line_comment or ("\0",)

    def measure(self, node: tree_sitter.Node, body: tree_sitter.Node | None, start: int) -> Scope:
        """Return the scope of `node`, without its declared name.  `start`: the first row of the scope with its wrapper
        (`export`)."""
        header = self._header_row(node, body)
        end = max(self._end(node, header), header + 1)
        body_start = header + 1
        if body is not None:
            row, column = body.start_point
            # Compares bytes before the body with characters of indentation.  The two are equal if only white space is
            # before the body.
            is_after_text = row == header or column > len(self._indent(row).encode())
            if is_after_text or self._stripped[row][:1] in ("{", "(", "["):
                body_start = row + 1
            else:
                # The body node starts at its first statement, but comments and blank lines above that statement belong
                # to the body too.
                while row - 1 > header and (
                    not self._stripped[row - 1] or self._stripped[row - 1].startswith(self._line_comment)
                ):
                    row -= 1
                body_start = row
        body_start = min(body_start, end)
        has_closer = end - 1 >= body_start and CLOSER.match(self._lines[end - 1]) is not None
        return self._unnamed(header, start, end, body_start, end - has_closer)

    def measure_indented(self) -> list[Scope]:
        """Return the scopes of a text without a syntax tree, outer before inner.

        A line is a header if the next line that is not blank is indented deeper.  A closing line (`}`, `end`) with the
        header's indentation ends the scope.
        """
        scopes: list[Scope] = []
        open_scopes: list[tuple[int, int]] = []
        rows = [
            (row, len(self._indent(row).expandtabs(TAB_COLUMNS))) for row, text in enumerate(self._stripped) if text
        ]
        rows.append((len(self._lines), -1))
        last = 0
        for (row, columns), (_, next_columns) in zip(rows, [*rows[1:], (0, -1)], strict=True):
            while open_scopes and open_scopes[-1][0] >= columns:
                opened, index = open_scopes.pop()
                is_closer = opened == columns and CLOSER.match(self._lines[row]) is not None
                body_end, end = (row, row + 1) if is_closer else (last, last)
                scopes[index] = scopes[index]._replace(end_line=end, body_end_line=body_end)
            if next_columns > columns:
                parent = open_scopes[-1][1] if open_scopes else None
                open_scopes.append((columns, len(scopes)))
                scopes.append(self._unnamed(row, row, row + 1, row + 1, row + 1)._replace(parent=parent))
            last = row + 1
        return scopes

    def _unnamed(self, header: int, start: int, end: int, body_start: int, body_end: int) -> Scope:
        """Return a block at top level with these lines, and with the comments and attributes right above it."""
        lead = start
        while lead > 0 and start - lead < MAX_LEAD_LINES:
            row, line = lead - 1, self._stripped[lead - 1]
            opening = next((first for first, last in self._language.block_comment if line.endswith(last)), None)
            if line.startswith(self._line_comment):
                lead = row
            elif opening is not None:
                above = range(row, max(-1, row - MAX_LEAD_LINES), -1)
                opened = next((n for n in above if opening in self._stripped[n]), None)
                if opened is None or not self._stripped[opened].startswith(opening):
                    break
                lead = opened
            elif line.endswith("]") and self._language.name in ("rust", "cpp", "php") and ATTRIBUTE.match(line):
                lead = row
            else:
                break
        name = self._stripped[header][:MAX_NAME_CHARS]
        return Scope(name, "block", start, end, header, body_start, body_end, lead, None)

    def _indent(self, row: int) -> str:
        """Return the white space before a line's text; for a blank line, return the whole line."""
        line, text = self._lines[row], self._stripped[row]
        return line[: line.index(text[0])] if text else line

    def _header_row(self, node: tree_sitter.Node, body: tree_sitter.Node | None) -> int:
        """Return the first row that is not an attribute or annotation inside the node."""
        row, last = node.start_point[0], (body or node).start_point[0]
        if last == row or ATTRIBUTE.match(self._lines[row]) is None:
            return row
        for child in node.children:
            if child.type not in ATTRIBUTE_NODES:
                return child.start_point[0] if child.start_point[0] <= last else row
            if child.type == "modifiers":
                # Take the first plain modifier (`public`), or else the node after the annotations.
                plain = next((part for part in child.children if "annotation" not in part.type), child.next_sibling)
                row = (plain or child).start_point[0]
        return row

    def _end(self, node: tree_sitter.Node, header: int) -> int:
        row, column = node.end_point
        end = min(row + (column > 0), len(self._lines))
        if self._language.name in ("python", "yaml"):
            # Their grammars leave the comments at the end of a block outside it.
            width = len(self._indent(header))
            for row in range(end, len(self._lines)):
                text = self._stripped[row]
                if text and not (text.startswith("#") and len(self._indent(row)) > width):
                    break
                end = row + 1 if text else end
        while end > header + 1 and not self._stripped[end - 1]:
            end -= 1
        return end
