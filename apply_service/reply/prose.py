"""Distinguishes English prose around code without a fence from text of the file.

Prose is a paragraph at the left edge that reads as English, ends with ":" or ".", and is not a line of the file.  It
must be invalid in the file's language.  If the language accepts any text (Markdown, HTML, shell commands), or if the
file itself has such paragraphs, prose must be an order ("Replace the last line of `start` with:").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from rapidfuzz import fuzz, process

from apply_service.syntax.languages import find_language
from apply_service.syntax.trees import SyntaxTree, count_syntax_errors, parse
from apply_service.text.english import MAX_PROSE, is_order, reads_as_english
from apply_service.text.markers import strip_comment

MAX_PARAGRAPHS = 200
"""A reply with more paragraphs at the left edge than this counts as a text, not as prose around code."""
MAX_LIKENESS = 80.0
"""A paragraph that is more similar than this to a line of the file is not prose: it may be that line in other words."""
_DOCUMENT = re.compile(r"\b(?:section|heading|paragraph|line|list|table|sentence|item|bullet|row|file)\b")
"""Parts of a document that an order may name."""
_MARKUP = ("latex", "svelte", "vue", "xml")
"""Languages that have no grammar here and in which text may stand by itself."""
_STRINGS = ('"""', "'''")
_QUOTES = ('"', "`")
_WITHOUT_BLOCKS = ("python", "ruby", "yaml", "toml", "bash", "elixir", "lua", "r", "makefile", "dockerfile")
"""Languages without comments from `/*` to `*/`.  In these languages, the two signs are parts of path patterns."""
_TEXT_NODES = ("string", "comment", "heredoc", "template", "text", "raw")


def find_prose(lines: Sequence[str], original: Sequence[str], language: str | None, *, is_text: bool) -> list[range]:
    """Return the paragraphs of prose among the lines of a reply, as ranges of lines.

    `is_text`: whether the file itself is prose.  In that case only an order in the first paragraph counts.
    """
    found = [span for span in _paragraphs(lines) if reads_as_english(join(lines, span))]
    if not found or len(found) > MAX_PARAGRAPHS:
        return []
    known = {line.strip() for line in original}
    paragraphs = [line for line in known if len(line) <= MAX_PROSE and reads_as_english(line)]
    has_own = any(not strip_comment(line).is_comment for line in paragraphs)
    is_string = _in_strings(lines, found, language)

    def is_prose(span: range) -> bool:
        text = join(lines, span)
        if any(lines[at].strip() in known for at in span):
            return False
        if process.extractOne(text, paragraphs, scorer=fuzz.ratio, score_cutoff=MAX_LIKENESS):
            return False
        if is_text and (any(line.strip() for line in lines[: span.start]) or _DOCUMENT.search(text) is None):
            return False
        return is_order(text) or (not is_text and not has_own and _is_refused(text, original, language))

    return [span for span, is_inside in zip(found, is_string, strict=True) if not is_inside and is_prose(span)]


def join(lines: Sequence[str], span: range) -> str:
    """Return the lines of a paragraph as one line."""
    return " ".join(lines[at].strip() for at in span)


def _paragraphs(lines: Sequence[str]) -> list[range]:
    """Return the paragraphs at the left edge.  Each begins after a blank line, and ends at the next blank line or after
    a line that ends with ":"."""
    found = []
    for is_blank, run in groupby(range(len(lines)), key=lambda at: not lines[at].strip()):
        at = [*run]
        if is_blank or lines[at[0]][:1] in (" ", "\t"):
            continue
        lead = next((k for k in at if lines[k].rstrip().endswith(":") or lines[k][:1] in (" ", "\t")), at[-1])
        found.append(range(at[0], lead + 1))
    return found


def _is_refused(text: str, original: Sequence[str], language: str | None) -> bool:
    """Tell whether the text is invalid in the language: alone, or below the file.

    In a language without a grammar any text is invalid, unless it is markup or unknown.
    """
    alone = parse(text, language)
    if alone is None:
        return find_language(language) is not None and language not in _MARKUP
    whole = "\n".join(original)
    return alone.root.has_error or (
        not count_syntax_errors(whole, language) and bool(count_syntax_errors(f"{whole}\n\n{text}\n", language))
    )


def _is_in_text(tree: SyntaxTree, row: int) -> bool:
    """Tell whether a stretch of text, as the grammar sees it, began above the row."""
    node = tree.root.descendant_for_point_range((row, 0), (row, 0))
    while node is not None and node.parent is not None:
        if any(kind in node.type for kind in _TEXT_NODES) and node.start_point[0] < row:
            return True
        node = node.parent
    return False


def _in_strings(lines: Sequence[str], found: Sequence[range], language: str | None) -> list[bool]:
    """Return whether each paragraph is inside a string, a comment or text of markup.

    The grammar decides, from the reply without these paragraphs.  Besides, a paragraph counts as inside a string if the
    string signs above or below it are not in pairs.  An order, however, may stand beside a lone quote.
    """
    blanked = list(lines)
    for span in found:
        for at in span:
            blanked[at] = ""
    tree = parse("\n".join(blanked), language)
    inside = []
    for span in found:
        is_text = tree is not None and _is_in_text(tree, span.start)
        halves = ("\n".join(blanked[: span.start]), "\n".join(blanked[span.stop :]))
        signs = _STRINGS if is_order(join(lines, span)) else (*_STRINGS, *_QUOTES)
        is_open = any(half.count(sign) % 2 for sign in signs for half in halves)
        has_blocks = language not in _WITHOUT_BLOCKS
        is_open = is_open or (has_blocks and any(half.count("/*") != half.count("*/") for half in halves))
        inside.append(is_text or is_open)
    return inside
