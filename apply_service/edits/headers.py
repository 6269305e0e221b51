"""Names of definitions by patterns: which line opens a function, class, test, key or section, and what it is called.

A cheap stand-in for a parser that works on fragments and in any language; where tree-sitter knows the file's scopes,
they win.  Used to tell a new definition from a changed one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from apply_service.edits.indentation import indent_of

_WORD = r"[A-Za-z_$][\w$]*"
_HEADER = re.compile(
    r"^(?!\s*(?:\}\s*)?(?:if|for|while|switch|catch|return|else|elif|elsif|with|match|when|until|unless|foreach|new|await|"
    r"throw|raise|assert|yield|case|try|except|finally|do|select|go|defer|not|in|and|or|print|delete|loop|using)\b)"
    rf"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|override|virtual|inline|"
    rf"open|data|sealed|pub(?:\([\w ]+\))?|unsafe|extern(?:\s+\"C\")?|const|declare|suspend|friend|constexpr|"
    rf"readonly|get|set|local|partial)\s+)*"
    rf"(?:"
    rf"(?:def|class|func|fn|fun|function\*?|struct|interface|enum|trait|impl(?:<[^>]*>)?|type|module|namespace|mod|macro_rules!|object|record|union|protocol|extension|typedef\s+struct|sub|proc|CREATE\s+TABLE)\s+(?:\([^)]*\)\s*)?(?P<defined>[\w$.:<>]*[\w$])"
    rf"|(?:[\w.]+)\s*\(?\s*(?P<quote>['\"`])(?P<spoken>.{{1,200}}?)(?P=quote).*(?:\bdo\b(?:\s*\|.*\|)?|\{{|=>|->|\(\))\s*$"
    rf"|(?:let|var|const)?\s*(?:this\.|self\.|exports\.|module\.exports\.)?(?P<assigned>{_WORD})\s*(?::[^=]{{1,80}})?=\s*(?:async\s*)?(?:function\b|\(.*\)\s*(?::[^=]+)?=>|{_WORD}\s*=>|class\b|\($|\{{$|\[$)"
    rf"|(?:[\w<>\[\],.*&:?]+\s+)*[*&]*(?P<called>(?!if\b|for\b|while\b|switch\b|catch\b|return\b|else\b|elif\b|with\b|match\b|when\b|until\b|unless\b|foreach\b|function\b|new\b|await\b|throw\b|assert\b)[\w$:~]+)\s*\([^;]*\)?\s*[^;=]*[{{(,]\s*$"
    rf"|(?P<section>\[\[?[^\]]+\]\]?)\s*$"
    rf"|#{{1,6}}\s+(?P<heading>.+?)\s*#*$"
    rf"|(?:-\s+)?(?:\"(?P<quoted>[^\"]+)\"|(?P<key>[\w./$-]+))\s*:(?:\s*[\[{{|>][-+]?\s*)?$"
    rf")"
)
_GROUPS = ("defined", "spoken", "assigned", "called", "section", "heading", "quoted", "key")
_ATTACHED = re.compile(r"^\s*(?:@|#\[|#!\[|\[[A-Z]|//|#(?![a-z]+\b\s)|/\*|\*|--|\"\"\"|<!--)")
_CLOSER = re.compile(r"^\s*(?:[\]\)}]+[\]\)};,.\w\s]*$|[\]\)}]|end\b|\{\s*$|</|fi\b|done\b|esac\b)")
_BRANCH = re.compile(
    r"^\s*(?:\}\s*)?(?:else|elif|elsif|except|finally|catch|rescue|ensure|case|default|when)\b|^\s*\{\s*$"
)
MAX_HEADER_LENGTH = 400


@lru_cache(maxsize=65536)
def header_name(line: str) -> str | None:
    """What the line defines, if it opens a definition."""
    if len(line) > MAX_HEADER_LENGTH:
        return None
    match = _HEADER.match(_collapsed(line))
    if match is None:
        return None
    return next((match[group] for group in _GROUPS if match[group]), None)


def _collapsed(line: str) -> str:
    """The line with single blanks: a pattern tries every way to share out a run of them."""
    return " ".join(line.split())


def is_definition(line: str) -> bool:
    """Whether the line opens, or is attached to, what files part by blank lines: a function, class, test or section."""
    if is_attached(line):
        return True
    match = _HEADER.match(_collapsed(line)) if len(line) <= MAX_HEADER_LENGTH else None
    if match is None:
        return False
    is_function = bool(match["assigned"]) and ("=>" in line or "function" in line or "class" in line)
    return is_function or any(match[group] for group in ("defined", "spoken", "called", "section", "heading"))


def is_closer(line: str) -> bool:
    """Whether the line (also) closes what a line above it at the same indentation opened."""
    return len(line) <= MAX_HEADER_LENGTH and _CLOSER.match(line) is not None


def is_branch(line: str) -> bool:
    """Whether the line goes on with the statement above it: else, except, catch and their like."""
    return _BRANCH.match(line) is not None


def is_attached(line: str) -> bool:
    """Whether the line belongs to the definition right below it: decorator, attribute or comment."""
    return len(line) <= MAX_HEADER_LENGTH and _ATTACHED.match(line) is not None


def definition_end(lines: Sequence[str], start: int, stop: int) -> int:
    """One past the last line of the definition that `lines[start]` opens, by indentation; `stop` bounds it."""
    indent = indent_of(lines[start])
    end = start + 1
    braced = _braced_end(lines, start, stop)
    if braced is not None:
        return braced
    for i in range(start + 1, stop):
        line = lines[i]
        if not line.strip():
            continue
        if indent_of(line) < indent or (indent_of(line) == indent and not is_closer(line)):
            break
        end = i + 1
        if indent_of(line) == indent and line.strip()[-1] not in "{:([,":
            break
    return end


def _braced_end(lines: Sequence[str], start: int, stop: int) -> int | None:
    """The end of a definition in braces: its closing brace at its own indentation, whatever stands inside."""
    opens = lines[start].rstrip().endswith("{") or (start + 1 < stop and lines[start + 1].strip() == "{")
    if not opens:
        return None
    indent = indent_of(lines[start])
    closing = (i for i in range(start + 1, stop) if lines[i].lstrip()[:1] == "}" and indent_of(lines[i]) == indent)
    end = next(closing, None)
    return None if end is None else end + 1


def attached_start(lines: Sequence[str], start: int, stop: int) -> int:
    """The first of the decorators and comments right above `lines[start]`, not above `stop`."""
    indent = indent_of(lines[start])
    first = start
    while first > stop and lines[first - 1].strip() and is_attached(lines[first - 1]):
        if indent_of(lines[first - 1]) < indent:
            break
        first -= 1
    return first
