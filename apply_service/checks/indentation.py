"""Indentation that does not fit.  Warning.

Three signs, each on lines that the merge brought: tabs in a file that indents with spaces, or the reverse; a Python
statement that does not line up with the block around it; a line of the original or the update that stands at another
indentation than in the predicted merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tree_sitter

from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import LineChanges, find_changes, group_lines
from apply_service.protocols import CheckInput
from apply_service.syntax.trees import parse
from apply_service.types import Verdict

MIN_INDENTED = 5
"""A file with fewer indented lines has no style to keep."""

MAX_FINDINGS = 5


class Indentation:
    name = "indentation"

    def find(self, answer: CheckInput) -> list[Verdict]:
        if answer.merged == answer.original:
            return []
        changes = find_changes(answer.original, answer.merged)
        found = [
            *self._report(_wrong_style(answer, changes), "tabs and spaces are mixed: the file indents with the other"),
            *self._report(_misaligned(answer), "the statement does not line up with its block"),
            *self._report(_shifted(answer, changes), "the line stands at another indentation than the edit gives it"),
        ]
        return found[:MAX_FINDINGS]

    def _report(self, numbers: Sequence[int], message: str) -> list[Verdict]:
        return [Verdict(self.name, "warning", message, lines) for lines in group_lines(numbers)]


def _wrong_style(answer: CheckInput, changes: LineChanges) -> list[int]:
    styles = Counter(_style(line) for line in answer.original.split("\n"))
    if styles["space"] + styles["tab"] < MIN_INDENTED or (styles["space"] and styles["tab"]) or styles["mixed"]:
        return []
    foreign = "tab" if styles["space"] else "space"
    lines = answer.merged.split("\n")
    return [number for number in changes.added if _style(lines[number]) in (foreign, "mixed")]


def _style(line: str) -> str:
    """Which characters indent a line.  Up to three spaces may align (` * ...`), so they are no style of their own."""
    lead = line[: len(line) - len(line.lstrip(" \t"))]
    if not lead or not line.strip():
        return "none"
    if "\t" not in lead:
        return "space" if len(lead) > 1 else "none"
    # Spaces after tabs align; tabs after spaces do not.
    return "mixed" if " \t" in lead else "tab"


def _misaligned(answer: CheckInput) -> list[int]:
    if answer.language != "python":
        return []
    found = _odd_statements(answer.merged)
    return [] if not found or _odd_statements(answer.original) else found


def _odd_statements(text: str) -> list[int]:
    """Rows of statements that start their row at another column than the first statement of their block."""
    tree = parse(text, "python")
    if tree is None:
        return []
    found = []
    for block in _blocks(tree.root):
        column = None if block.type == "block" else 0
        last_row = -1
        for child in block.named_children:
            row, start = child.start_point
            if child.type == "comment" or row == last_row:
                continue
            column = start if column is None else column
            if start != column:
                found.append(row)
            last_row = child.end_point[0]
    return found


def _blocks(root: tree_sitter.Node) -> list[tree_sitter.Node]:
    """The module and every indented block in it."""
    stack, found = [root], []
    while stack:
        node = stack.pop()
        if node.type in ("module", "block"):
            found.append(node)
        stack.extend(child for child in node.named_children if child.child_count > 0)
    return found


def _shifted(answer: CheckInput, changes: LineChanges) -> list[int]:
    """Added lines that the predicted merge holds too, but at another indentation."""
    if answer.prediction.text == answer.merged or not EditScope(answer).has_update:
        return []
    expected = Counter(answer.prediction.text.split("\n"))
    bare: dict[str, int] = Counter(line.strip() for line in expected.elements())
    lines = answer.merged.split("\n")
    return [
        number
        for number in changes.added
        if (text := lines[number].strip())
        and bare[text]
        and lines[number] not in expected
        and sum(char.isalnum() for char in text) > 1
    ]
