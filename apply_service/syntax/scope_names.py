"""What a scope is called, from its name node.  One short rule for each way in which grammars hide a name."""

from __future__ import annotations

import re
from collections.abc import Callable

import tree_sitter

from apply_service.syntax.trees import SyntaxTree

MAX_NAME_CHARS = 120
DECLARED = re.compile(
    r"(operator\s*(?:\(\)|\[\]|[^\s(\w]+|\s\w+)|[~\w]+(?:<[^<>()]*>)?(?:::[~\w]+(?:<[^<>()]*>)?)*)\s*(?:\(|\[|$)"
)
HTML_ID = re.compile(r"""\bid\s*=\s*["']?([^"'\s>]+)""")
HTML_TAG = re.compile(r"<\s*([\w:-]+)")
HEADING_MARKS = re.compile(r"^\s*#+\s*|\s+#+\s*$|\n.*", re.DOTALL)


def name_scope(tree: SyntaxTree, node: tree_sitter.Node, name: tree_sitter.Node | None) -> str:
    """The name of a scope; empty where it declares none."""
    if name is None:
        return ""
    trait = node.child_by_field_name("trait") if node.type == "impl_item" else None
    if trait is not None:
        return f"{tree.text_of(trait)} for {tree.text_of(name)}"
    return plain_name(tree, name)


def plain_name(tree: SyntaxTree, name: tree_sitter.Node) -> str:
    """The name in a name node."""
    text = tree.text_of(name)
    rule = RULES.get(tree.language)
    plain = rule(text) if rule is not None else text
    return " ".join(plain.split())[:MAX_NAME_CHARS]


def _declarator_name(text: str) -> str:
    """`*Foo::bar(int a) const` -> `Foo::bar`."""
    declarator = text if "operator" in text else text.split("=", 1)[0]
    match = DECLARED.search(declarator.strip())
    return match.group(1) if match is not None else declarator.strip("*& ")


def _tag_name(text: str) -> str:
    """`<div id="main" class="x">` -> `div#main`."""
    tag, ident = HTML_TAG.match(text), HTML_ID.search(text)
    name = tag.group(1) if tag is not None else text
    return f"{name}#{ident.group(1)}" if ident is not None else name


def _heading(text: str) -> str:
    return HEADING_MARKS.sub("", text)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


RULES: dict[str, Callable[[str], str]] = {
    "c": _declarator_name,
    "cpp": _declarator_name,
    "html": _tag_name,
    "markdown": _heading,
    "json": _unquoted,
    "yaml": _unquoted,
    "toml": _unquoted,
    "javascript": _unquoted,
    "typescript": _unquoted,
    "tsx": _unquoted,
}
