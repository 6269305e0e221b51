"""How an answer compares with the wanted text as its language's grammar sees it.

A question that a grammar can't answer (unknown language, text too odd to parse, errors in the wanted text itself) is
None, never a guess: such samples are left out of the share.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import tree_sitter

from apply_service.syntax.trees import SyntaxTree, parse


def is_same_tree(wanted: str, answer: str, language: str | None) -> bool | None:
    """Whether both texts have the same syntax tree: same nodes in the same order, same words, comments included; white
    space between words and after comments does not count, indentation does where the language gives it meaning.

    None where the wanted text has no tree free of errors.
    """
    expected = parse(_lf(wanted), language)
    if expected is None or expected.root.has_error:
        return None
    found = parse(_lf(answer), language)
    if found is None or found.root.has_error:
        return False
    pairs = zip_longest(_words(expected), _words(found))
    return all(left == right for left, right in pairs)


def is_syntax_kept(before: str, wanted: str, answer: str, language: str | None) -> bool | None:
    """Whether the answer still parses; None where `before` or `wanted` do not, or there is no grammar to tell."""
    if not _parses(before, language) or not _parses(wanted, language):
        return None
    return _parses(answer, language)


def _parses(text: str, language: str | None) -> bool:
    tree = parse(_lf(text), language)
    return tree is not None and not tree.root.has_error


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _words(tree: SyntaxTree) -> Iterator[tuple[str, int, str]]:
    """(kind, number of children, text) of every node in order; the text of a node with children is what lies between
    them that is no white space, for grammars that leave words without a node."""
    stack = [tree.root]
    while stack:
        node = stack.pop()
        children = node.children
        yield node.type, len(children), _own_text(tree.source, node, children)
        stack.extend(reversed(children))


def _own_text(source: bytes, node: tree_sitter.Node, children: list[tree_sitter.Node]) -> str:
    pieces: list[bytes] = []
    at = node.start_byte
    for child in children:
        pieces.append(source[at : child.start_byte])
        at = max(at, child.end_byte)
    pieces.append(source[at : node.end_byte])
    if not children:
        text = pieces[0].decode("utf-8", "replace")
        return text.rstrip() if "comment" in node.type else text
    return b" ".join(stripped for piece in pieces if (stripped := piece.strip())).decode("utf-8", "replace")
