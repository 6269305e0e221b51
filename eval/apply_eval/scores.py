"""All questions about one answer's text, asked right after it came.

Pure: nothing here runs or times anything.  A question that a grammar can't answer (unknown language, errors in the
wanted text itself) is None, never a guess: such samples are left out of the share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

from rapidfuzz.distance import Indel, Levenshtein

from apply_eval.datasets import EditRecord
from apply_eval.line_diff import diff_lines
from apply_service.syntax.languages import detect_language
from apply_service.syntax.trees import SyntaxTree, parse
from apply_service.text.diff import unified_diff_text
from apply_service.text.markers import strip_comment

MIN_SIMILARITY = 0.5
"""Of some lines and their misquotation, as texts without white space at the ends of lines."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What the scorers said.  None: the question has no answer for this sample."""

    exact: bool
    same_but_blanks: bool
    same_but_misquotes: bool
    same_tree: bool | None
    equivalent: bool | None
    edit_similarity: float
    syntax_kept: bool | None
    lines_outside: int


def score_answer(record: EditRecord, answer: str) -> Scores:
    """Judge `answer` to `record`.  Tens of milliseconds at 1,500 lines."""
    language = detect_language(name=record.language, path=record.path)
    before, wanted = record.before, record.after
    same_tree, equivalent = (same(wanted, answer, language) for same in (is_same_tree, is_equivalent))
    syntax_kept = is_syntax_kept(before, wanted, answer, language)
    if answer == wanted:
        return Scores(True, True, True, same_tree, equivalent, 1.0, syntax_kept, 0)
    return Scores(
        exact=False,
        same_but_blanks=is_same_but_blanks(wanted, answer),
        same_but_misquotes=is_same_but_misquotes(before, wanted, answer, record.update),
        same_tree=same_tree,
        equivalent=equivalent,
        edit_similarity=Levenshtein.normalized_similarity(wanted, answer),
        syntax_kept=syntax_kept,
        lines_outside=count_lines_outside(before, wanted, answer),
    )


def diff_hunks(wanted: str, answer: str, limit: int) -> list[str]:
    """The lines of the unified diff from `wanted` to `answer`, without its headers, cut after `limit` lines."""
    lines = unified_diff_text(wanted, answer, "file").split("\n")
    lines = lines[next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines)) :]
    return lines if len(lines) <= limit else [*lines[:limit], f"... {len(lines) - limit} more lines"]


# -- text --------------------------------------------------------------------------------------------------------------
def is_same_but_blanks(wanted: str, answer: str) -> bool:
    """Whether the texts are equal apart from white space at line ends (carriage returns included) and blank lines."""
    one, other = ([x for line in text.split("\n") if (x := line.rstrip())] for text in (wanted, answer))
    return one == other


def is_slight(wanted: str, answer: str) -> bool:
    """Whether a wrong answer has all lines of the wanted text and no other, in order, apart from white space, blank
    lines and the words of comments on lines of their own.  Every other error is grave: lines are lost, doubled,
    misplaced or changed."""
    one, other = (
        [code for code, _ in groupby(map(_code_of, filter(str.strip, text.split("\n"))))] for text in (wanted, answer)
    )
    lengths = [sum(1 for line in text.split("\n") if _code_of(line)) for text in (wanted, answer)]
    return one == other and lengths[0] == lengths[1]


def _code_of(line: str) -> str:
    """The line without white space; "" for a comment, so that those below each other count as one."""
    return "" if strip_comment(line).is_comment else "".join(line.split())


def count_lines_outside(before: str, wanted: str, answer: str) -> int:
    """Lines in which the answer differs from the wanted text outside the wanted edit: lines lost or altered there, and
    lines added where the edit does not touch.  0 for a right answer, and for one that is wrong inside the edit alone.

    A text is its `split("\\n")`, so a lost final newline counts as one line.
    """
    wanted_lines = wanted.split("\n")
    edited = diff_lines(before.split("\n"), wanted_lines)
    n_outside = 0
    for hunk in diff_lines(wanted_lines, answer.split("\n")):  # lines of wanted in a0:a1; `edited` has them in b0:b1
        n_lost = sum(not any(e.b0 <= line < e.b1 for e in edited) for line in range(hunk.a0, hunk.a1))
        is_beside_edit = any(hunk.a0 <= e.b1 and hunk.a1 >= e.b0 for e in edited)
        n_outside += n_lost if is_beside_edit else max(n_lost, hunk.b1 - hunk.b0)
    return n_outside


def is_same_but_misquotes(before: str, wanted: str, answer: str, update: str) -> bool:
    """Whether, blank lines aside, each stretch in which the answer differs from the wanted text is misquoted context:
    the wanted text has lines of the original there that the edit does not touch, and the answer has in their place
    lines of the update that resemble them (MIN_SIMILARITY) and that the wanted text has nowhere.

    Indentation does not count, as snippets may be moved.
    """
    wanted_lines, answer_lines = wanted.split("\n"), answer.split("\n")
    edited = diff_lines(before.split("\n"), wanted_lines)
    quoted = set(_stripped(update.split("\n"))) - set(_stripped(wanted_lines))
    for stretch in diff_lines(wanted_lines, answer_lines):
        is_edited = any(edit.b0 < stretch.a1 and stretch.a0 < edit.b1 for edit in edited)
        old, new = _stripped(wanted_lines[stretch.a0 : stretch.a1]), _stripped(answer_lines[stretch.b0 : stretch.b1])
        is_alike = Indel.normalized_similarity("\n".join(old), "\n".join(new)) >= MIN_SIMILARITY
        if is_edited or not is_alike or not quoted.issuperset(new):
            return False
    return True


def _stripped(lines: Iterable[str]) -> list[str]:
    return [stripped for line in lines if (stripped := line.strip())]


# -- syntax ------------------------------------------------------------------------------------------------------------
def is_same_tree(wanted: str, answer: str, language: str | None) -> bool | None:
    """Whether both texts have the same syntax tree: same nodes in the same order, same words, comments included; white
    space between words and after comments does not count, indentation does where the language gives it meaning.

    None where the wanted text has no tree free of errors.
    """
    expected = _sound_tree(wanted, language)
    if expected is None:
        return None
    found = _sound_tree(answer, language)
    return found is not None and all(left == right for left, right in zip_longest(_words(expected), _words(found)))


def is_equivalent(wanted: str, answer: str, language: str | None) -> bool | None:
    """Whether both texts are the same by aiXapply's measure: JSON and YAML as parsed, all else by the tokens that
    Pygments sees, without white space.  So indentation does not count, as it does in `is_same_tree`.

    None where Pygments does not know the language, or is not installed (extra `eval`).
    """
    try:
        meaning = _meaning(wanted, language)
        return None if meaning is None else answer == wanted or meaning == _meaning(answer, language)
    except ModuleNotFoundError:
        return None


def _meaning(text: str, language: str | None) -> tuple[str, Any] | None:
    """The data of a text, or else its tokens; None in an unknown language."""
    import yaml
    from pygments import lex
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    with suppress(ValueError, RecursionError, yaml.YAMLError):
        if language == "json":
            return "data", json.loads(text)
        if language == "yaml":
            return "data", list(yaml.safe_load_all(text))
    try:
        lexer = get_lexer_by_name(language or "")
    except ClassNotFound:
        return None
    return "tokens", [(kind, word) for kind, word in lex(text, lexer) if word.strip()]


def is_syntax_kept(before: str, wanted: str, answer: str, language: str | None) -> bool | None:
    """Whether the answer still parses; None where `before` or `wanted` do not, or there is no grammar to tell."""
    if _sound_tree(before, language) is None or _sound_tree(wanted, language) is None:
        return None
    return _sound_tree(answer, language) is not None


def _sound_tree(text: str, language: str | None) -> SyntaxTree | None:
    """The tree of a text without syntax errors."""
    tree = parse(text.replace("\r\n", "\n"), language)
    return None if tree is None or tree.root.has_error else tree


def _words(tree: SyntaxTree) -> Iterator[tuple[str, int, str]]:
    """(kind, number of children, text) of every node in order; the text of a node with children is what lies between
    them that is no white space, for grammars that leave words without a node."""
    stack = [tree.root]
    while stack:
        node = stack.pop()
        children = node.children
        pieces: list[bytes] = []
        at = node.start_byte
        for child in children:
            pieces.append(tree.source[at : child.start_byte])
            at = max(at, child.end_byte)
        pieces.append(tree.source[at : node.end_byte])
        words = b" ".join(stripped for piece in pieces if (stripped := piece.strip())) if children else pieces[0]
        text = words.decode("utf-8", "replace")
        yield node.type, len(children), text.rstrip() if not children and "comment" in node.type else text
        stack.extend(reversed(children))
