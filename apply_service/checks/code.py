"""Checks whether the merged text still parses, is indented as before, and keeps its names.

A name of the file or of one of its classes, or an import, may be lost or doubled although the update does not mention
this.  The update mentions the removal of a symbol if the predicted merge removes it by lines that the update shows, or
if a removal note names it.  A second symbol is a duplicate only if it has the same place and the same header line,
because overloads have different header lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

import tree_sitter

from apply_service.checks.changes import MAX_FINDINGS, REMOVAL, EditLines, count_stripped, find_changes, verdicts_at
from apply_service.protocols import CheckInput
from apply_service.syntax.languages import load_grammar, load_query
from apply_service.syntax.scopes import Scope, find_scopes, plain_name
from apply_service.syntax.trees import APPROXIMATE, count_syntax_errors, parse, python_error
from apply_service.types import Verdict

CONTAINERS = frozenset({"class", "module", "section"})
TRANSPARENT_BLOCKS = frozenset({"python", "c", "cpp", "ruby", "go"})
"""Languages in which a block at top level (`if TYPE_CHECKING:`, `#ifdef`, `var (`) declares names of the file."""
REPEATABLE = frozenset({"section", "element", "variable"})
"""Kinds of symbols that often occur twice."""
IMPORTED = re.compile(r"[^\s,;{}()]+")
KEYWORDS = re.compile(r"(?:import|from|as|use|using|pub|extern|crate|static|type|global|#|#?include|require\w*|load)\Z")
MAX_HEADER_CHARS = 500


class Symbol(NamedTuple):
    """One declared or imported name."""

    kind: str
    """A kind of `Scope.kind`, where methods count as functions; or variable, export, import."""
    name: str
    container: str
    """The classes, modules, sections and conditional blocks around it, joined by "."; empty at top level."""
    signature: str
    """The header line (for an import, the statement) with single blanks.  It distinguishes overloads."""
    line: int
    """The 0-based line of the header, or of the name in an import statement."""


def find_symbols(text: str, language: str | None) -> list[Symbol]:
    """Return the names that a file declares or imports outside its functions, in order; empty without a grammar."""
    tree = parse(text, language)
    query = load_query(tree.language) if tree is not None else None
    if tree is None or query is None:
        return []
    lines, found = text.split("\n"), dict[tuple[str, int], Symbol]()
    container_at: list[str | None] = [""] * len(lines)
    """The container of declarations on each line; None inside a function or the like."""

    def add(kind: str, name: str, container: str, line: int, signature: str) -> None:
        found.setdefault((name, line), Symbol(kind, name, container, " ".join(signature.split()), line))

    for scope, container, within in _containers(text, language, tree.language):
        rows = range(scope.header_line + 1, scope.end_line)
        container_at[rows.start : rows.stop] = [within] * len(rows)
        if _is_declared(scope, tree.language):
            kind = "function" if scope.kind == "method" else scope.kind
            add(kind, scope.name, container, scope.header_line, lines[scope.header_line][:MAX_HEADER_CHARS])
    for _, captures in tree_sitter.QueryCursor(query).matches(tree.root):
        capture = next((name for name in captures if name.startswith("definition.") or name == "import"), "")
        node = captures[capture][0] if capture else tree.root
        row = node.start_point[0]
        where = container_at[row]
        if not capture or where is None:
            continue
        if capture != "import":
            name, kind = plain_name(tree, captures["name"][0]), capture.removeprefix("definition.")
            add(kind, name, where, row, lines[row][:MAX_HEADER_CHARS])
            continue
        statement = tree.text_of(node)
        for word in IMPORTED.finditer(statement):
            if not KEYWORDS.match(word[0]):
                add("import", word[0], where, row + statement.count("\n", 0, word.start()), statement)
    return sorted(found.values(), key=lambda symbol: symbol.line)


def _containers(text: str, language: str | None, grammar: str) -> Iterator[tuple[Scope, str, str | None]]:
    """Yield the scopes that can declare names of the file, each with its container and the container of its content."""
    # The container of declarations inside each scope; None inside a function or the like.
    inner: list[str | None] = []
    for scope in find_scopes(text, language):
        container = "" if scope.parent is None else inner[scope.parent]
        is_block = scope.kind == "block" and grammar in TRANSPARENT_BLOCKS
        if container is not None and (is_block or scope.kind in CONTAINERS):
            inner.append(f"{container}.{scope.name}".lstrip("."))
        else:
            inner.append(container if scope.kind == "element" else None)
        if container is not None:
            yield scope, container, inner[-1] if scope.kind != "element" else None


def _is_declared(scope: Scope, grammar: str) -> bool:
    """Tell whether the scope is a name of the file.  Keys nest without limit, so only those at the top of a data file
    and of a TOML table count."""
    if scope.kind == "key":
        return (scope.parent is None and grammar in ("json", "yaml")) or grammar in ("toml", "kotlin", "csharp")
    return scope.kind != "block" and (scope.kind != "element" or "#" in scope.name)


def find_symbol_changes(answer: CheckInput) -> list[Verdict]:
    """Find lost and doubled names.  A finding is a warning.  Nothing is found without a grammar."""
    if not answer.original.strip() or load_grammar(answer.language) is None:
        return []
    edit, changes = EditLines(answer), find_changes(answer.original, answer.merged)
    said = edit.dropped - edit.unsaid
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    counts = count_stripped(answer.merged)
    may_be_lost = any(original[row].strip() and row not in said for row in changes.removed)
    doubled = {line for row in changes.added if counts[line := merged[row].strip()] > 1 and line}
    if not may_be_lost and not doubled:
        return []  # most edits end here, so nothing is parsed
    before, after = (find_symbols(text, answer.language) for text in (answer.original, answer.merged))
    found = list(_find_lost(answer, edit, _gone(before, after) if may_be_lost else ()))
    found += _find_doubled(answer, doubled, before, after)
    return list(dict.fromkeys(found))[:MAX_FINDINGS]


def _find_lost(answer: CheckInput, edit: EditLines, gone: Iterable[Symbol]) -> Iterator[Verdict]:
    """Yield a verdict on each symbol that was removed although the edit does not mention it."""
    original, said = answer.original.split("\n"), edit.dropped - edit.unsaid
    # If a name's line occurs as often as before, the name is not lost; the parser merely failed to see it.
    lost = count_stripped(answer.original)
    lost.subtract(count_stripped(answer.merged))
    for item in gone:
        word = re.escape(item.name.rsplit(":", 1)[-1].rsplit(".", 1)[-1])
        named = re.compile(rf"(?<!\w){word}(?!\w)")
        is_said = item.line in said or any(REMOVAL.search(line) and named.search(line) for line in edit.unplaced)
        if lost[original[item.line].strip()] > 0 and not is_said:
            message = f"{item.kind} `{item.name}` is gone, and the edit does not say so"
            yield from verdicts_at("symbols", "warning", message, [item.line], "original")


def _find_doubled(
    answer: CheckInput, doubled: Set[str], before: Sequence[Symbol], after: Sequence[Symbol]
) -> Iterator[Verdict]:
    """Yield a verdict on each symbol on one of the `doubled` lines that is defined more often than before."""
    merged = answer.merged.split("\n")
    known, seen = Counter(item[:4] for item in before), Counter[tuple[str, ...]]()
    # SQL statements may repeat.  So may keys in TOML's arrays of tables, and in a file of several YAML documents.
    has_parts = answer.language == "toml" or (answer.language == "yaml" and "\n---" in answer.merged)
    for item in after:
        seen[item[:4]] += 1
        may_repeat = item.kind in REPEATABLE or answer.language == "sql" or (item.kind == "key" and has_parts)
        is_second = merged[item.line].strip() in doubled and seen[item[:4]] > max(1, known[item[:4]])
        if is_second and not may_repeat:
            said_name = f"`{item.signature}`" if item.kind == "import" else f"{item.kind} `{item.name}`"
            yield from verdicts_at("symbols", "warning", f"{said_name} is defined twice", [item.line])


def _gone(before: list[Symbol], after: list[Symbol]) -> list[Symbol]:
    """Return names that occur less often than before, and imports that no longer occur.  Among equal names, the ones
    that lost their place are returned."""
    left, places = Counter(item[:2] for item in after), Counter(item[:4] for item in after)
    moved = []
    for item in before:
        if places[item[:4]] > 0:
            places[item[:4]] -= 1
            left[item[:2]] -= item.kind != "import"
        else:
            moved.append(item)
    gone = []
    for item in moved:
        left[item[:2]] -= item.kind != "import"
        if left[item[:2]] < (item.kind == "import"):
            gone.append(item)
    return gone


# -- syntax and indentation --------------------------------------------------------------------------------------------
MAX_ERRORS = 3
MIN_INDENTED = 5
"""A file needs at least this many indented lines to have a style to keep."""


def find_broken_syntax(answer: CheckInput) -> list[Verdict]:
    """Find a text that no longer parses, or a new file that does not parse.

    A finding is an error, or a warning if the grammar only approximates its language.  Python is compiled, which also
    finds errors that a grammar overlooks, such as an indent without a header.  The grammar is asked only about text
    that does not compile.  Nothing is found without a grammar, or in a file that the grammar could not read before.
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


def _strange_styles(original: str) -> tuple[str, ...]:
    """Return the styles of indentation that the file does not use; empty if it has no style, or several."""
    styles = Counter(map(_style, original.split("\n")))
    is_uniform = not (styles["space"] and styles["tab"]) and not styles["mixed"]
    if not is_uniform or styles["space"] + styles["tab"] < MIN_INDENTED:
        return ()
    return ("tab" if styles["space"] else "space", "mixed")


def find_odd_indentation(answer: CheckInput) -> list[Verdict]:
    """Find indentation that does not fit.  A finding is a warning.

    There are three signs, each on added lines: tabs in a file that indents with spaces, or the reverse; a Python
    statement that does not line up with its block; and a line that is indented differently from the predicted merge.
    """
    if answer.merged == answer.original:
        return []
    lines, added = answer.merged.split("\n"), find_changes(answer.original, answer.merged).added
    strange = _strange_styles(answer.original)
    mixed = [number for number in added if _style(lines[number]) in strange]
    odd: list[int] = []
    if answer.language == "python" and python_error(answer.merged) is not None:  # code that compiles lines up
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
    """Return the kind of characters that indent a line.  A single space may align text (` * ...`), so it does not count
    as a style."""
    lead = line[: len(line) - len(line.lstrip(" \t"))]
    if not lead or not line.strip():
        return "none"
    if "\t" not in lead:
        return "space" if len(lead) > 1 else "none"
    # Spaces after tabs only align text, but tabs after spaces do not.
    return "mixed" if " \t" in lead else "tab"


def _odd_statements(text: str) -> list[int]:
    """Return rows of Python statements that do not start at the same column as the first statement of their block."""
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
