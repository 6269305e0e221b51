"""Whether the merged text still parses, and whether its indentation fits."""

from __future__ import annotations

from collections import Counter

from apply_service.checks.changes import MAX_FINDINGS, EditLines, find_changes, verdicts_at
from apply_service.protocols import CheckInput
from apply_service.syntax.trees import APPROXIMATE, count_syntax_errors, parse, python_error
from apply_service.types import Verdict

MAX_ERRORS = 3
MIN_INDENTED = 5
"""A file with fewer indented lines has no style to keep."""


def find_broken_syntax(answer: CheckInput) -> list[Verdict]:
    """The text parsed before and does not now (or a new file does not parse).  Error; where the grammar is only an
    approximation of its language, warning.

    Python is compiled, which also finds what a grammar overlooks (an indent that belongs to nothing); the grammar is
    asked only about what does not compile.  Nothing is found without a grammar, nor in a file that the grammar could
    not read before.
    """
    if answer.merged == answer.original:
        return []
    said = (
        "the file had no syntax error before the edit and has one now"
        if answer.original.strip()
        else "the new file has a syntax error"
    )
    if answer.language == "python":
        error = python_error(answer.merged)
        if error is None:
            return []
        if python_error(answer.original) is None:
            return [Verdict("syntax", "error", f"{said}: {error.msg}", (error.lineno or 1, error.lineno or 1))]
    errors = count_syntax_errors(answer.merged, answer.language)
    if not errors or count_syntax_errors(answer.original, answer.language):
        return []
    return verdicts_at("syntax", "warning" if answer.language in APPROXIMATE else "error", said, errors)[:MAX_ERRORS]


def find_odd_indentation(answer: CheckInput) -> list[Verdict]:
    """Indentation that does not fit.  Warning.

    Three signs, each on lines that the merge brought: tabs in a file that indents with spaces, or the reverse; a Python
    statement that does not line up with the block around it; a line of the original or the update that has another
    indentation than in the predicted merge.
    """
    if answer.merged == answer.original:
        return []
    lines, added = answer.merged.split("\n"), find_changes(answer.original, answer.merged).added
    styles = Counter(map(_style, answer.original.split("\n")))
    mixed: list[int] = []
    is_uniform = not (styles["space"] and styles["tab"]) and not styles["mixed"]
    if is_uniform and styles["space"] + styles["tab"] >= MIN_INDENTED:
        foreign = "tab" if styles["space"] else "space"
        mixed = [number for number in added if _style(lines[number]) in (foreign, "mixed")]
    odd: list[int] = []
    if answer.language == "python" and python_error(answer.merged) is not None:  # what compiles lines up
        odd = [] if _odd_statements(answer.original) else _odd_statements(answer.merged)
    shifted: list[int] = []
    if answer.prediction.text != answer.merged and EditLines(answer).is_given:
        expected = set(answer.prediction.text.split("\n"))
        stripped = {line.strip() for line in expected}
        shifted = [n for n in added if lines[n].strip() in stripped and lines[n] not in expected]
        shifted = [n for n in shifted if sum(map(str.isalnum, lines[n])) > 1]
    found = verdicts_at(
        "indentation",
        "warning",
        "the line is indented with tabs or spaces, and the rest of the file with the other",
        mixed,
    )
    found += verdicts_at("indentation", "warning", "the statement does not line up with its block", odd)
    message = "the line has another indentation than in the edit"
    return (found + verdicts_at("indentation", "warning", message, shifted))[:MAX_FINDINGS]


def _style(line: str) -> str:
    """Which characters indent a line.  Up to three spaces may align (` * ...`), so they are no style of their own."""
    lead = line[: len(line) - len(line.lstrip(" \t"))]
    if not lead or not line.strip():
        return "none"
    if "\t" not in lead:
        return "space" if len(lead) > 1 else "none"
    # Spaces after tabs align; tabs after spaces do not.
    return "mixed" if " \t" in lead else "tab"


def _odd_statements(text: str) -> list[int]:
    """Rows of Python statements that start at another column than the first statement of their block."""
    tree = parse(text, "python")
    stack = [tree.root] if tree is not None else []
    found = []
    while stack:
        node = stack.pop()
        stack.extend(child for child in node.named_children if child.child_count > 0)
        if node.type not in ("module", "block"):
            continue
        block_column = None if node.type == "block" else 0
        last_row = -1
        for child in node.named_children:
            row, column = child.start_point
            if child.type == "comment" or row == last_row:
                continue
            block_column = column if block_column is None else block_column
            if column != block_column:
                found.append(row)
            last_row = child.end_point[0]
    return found
