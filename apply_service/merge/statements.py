"""Groups lines into statements, and measures how similar two statements are.

It looks only at brackets and comment signs, so that it works on fragments and in any language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz.distance import Indel

from apply_service.text.lines import indent_of
from apply_service.text.markers import strip_comment

MAX_STATEMENT = 40
"""A statement has at most this many lines."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
QUOTES = str.maketrans({"'": '"', "`": '"', "“": '"', "”": '"', "‘": '"', "’": '"'})
_SAYING = re.compile(r"\w+|[^\w\s\"'`“”‘’;()\[\]{},:-]")

_IMPORT = re.compile(r"^\s*(?:import|from|use|pub use|using|export \{|const .*\brequire\()")
_NAMES = re.compile(r"^\s*(?:import\b[^(){}=]*|export\s+(?:type\s+)?|(?:pub\s+)?use\s[\w:]*::)\{[^{}]*$")
"""The first line of a list of names in curly brackets that continues on the next line."""
_QUOTED = re.compile(r"(?:from\s*)?(?:\"[^\"]*\"|'[^']*')")
_LISTED = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"\w+")
_SEPARATED = re.compile(r"[\s,;{}()]+")


class Statement(NamedTuple):
    """Lines `start:stop` of a text that belong together."""

    start: int
    stop: int
    kind: str
    """`code` or `comment`."""


@lru_cache(maxsize=65536)
def tokens(text: str) -> tuple[str, ...]:
    """Return the words and signs of a text.  Quotes of all kinds count as equal."""
    return tuple(_TOKEN.findall(text.translate(QUOTES)))


@lru_cache(maxsize=65536)
def essence(text: str) -> tuple[str, ...]:
    """Return the tokens that carry meaning: no quotes, no semicolons, and no commas before a closing bracket."""
    found = [token for token in tokens(text) if token not in ('"', ";")]
    kept = []
    for k, token in enumerate(found):
        following = found[k + 1] if k + 1 < len(found) else ""
        if token != "," or following not in ("", ")", "]", "}"):
            kept.append(token)
    return tuple(kept)


@lru_cache(maxsize=65536)
def gist(text: str) -> tuple[str, ...]:
    """Return the essence without brackets, commas and list dashes, so that a new layout does not change it."""
    return tuple(_SAYING.findall(text))


def _depth(line: str) -> int:
    return line.count("(") + line.count("[") - line.count(")") - line.count("]")


def goes_on(line: str) -> bool:
    """Tell whether the line continues the one above, because it begins with a call or an operator."""
    return line.lstrip().startswith((".", "?.", "&& ", "|| ", "? ", ": ", "|> ", "->", "| ")) and "..." not in line


def statements(lines: Sequence[str]) -> list[Statement]:
    """Return the statements of the lines; blank lines belong to no statement.

    Lines inside round or square brackets form one statement, and so do the lines of a comment.
    """
    found: list[Statement] = []
    i = 0
    while i < len(lines):
        if not lines[i].strip():
            i += 1
            continue
        stop = i + 1
        if strip_comment(lines[i]).is_comment:
            while not lines[stop - 1].rstrip().endswith(("*/", "-->")) and stop < len(lines):
                if not lines[stop].strip() or not strip_comment(lines[stop]).is_comment:
                    break
                stop += 1
            found.append(Statement(i, stop, "comment"))
            i = stop
            continue
        if "{" in lines[i] and _NAMES.match(lines[i]):
            end = next((j for j in range(i + 1, min(len(lines), i + MAX_STATEMENT)) if "}" in lines[j]), i)
            found.append(Statement(i, end + 1, "code"))
            i = end + 1
            continue
        depth, indent = _depth(lines[i]), indent_of(lines[i])
        last = min(len(lines), i + MAX_STATEMENT)
        while depth > 0 and stop < last and not lines[stop - 1].rstrip().endswith("{"):
            depth += _depth(lines[stop])
            stop += 1
        if depth <= 0:
            while stop < last and indent_of(lines[stop]) > indent and goes_on(lines[stop]):
                stop += 1
        found.append(Statement(i, stop if depth <= 0 else i + 1, "code"))
        i = found[-1].stop
    return found


def likeness(left: Sequence[str], right: Sequence[str], *, same_kind: bool = True) -> float:
    """Return how similar two essences are, from 0 to about 1; `right` may leave out part of `left`."""
    if not left or not right:
        return 0.0
    if left == right:
        return 1.0 + 0.1 * same_kind
    shared = (len(left) + len(right) - Indel.distance(left, right)) / 2
    part = 0.9 * shared / len(right) if len(right) >= 3 else 0.0
    return max(Indel.normalized_similarity(left, right), part) * (1.0 if same_kind else 0.8)


@lru_cache(maxsize=16384)
def imported(line: str) -> frozenset[str]:
    """Return the names that an import line binds, as far as the line shows them."""
    if not _IMPORT.match(line):
        return frozenset()
    text = _QUOTED.sub("", line)
    listed = _LISTED.search(text)
    if listed is not None:
        text = listed[1]
    elif " import " in text:
        text = text.split(" import ", 1)[1]
    else:
        text = _WORD.findall(text)[-1] if _WORD.findall(text) else ""
    return frozenset(part.split()[-1] for part in text.strip(" ;()").split(",") if part.split())


def imports_more(old: str, new: str) -> bool:
    """Tell whether `new` imports all names that `old` imports, and more, from the same source.  `old` and `new` are
    import lines."""
    names = imported(new)
    return imported(old) < names and bool(imported(old)) and _source(old, names) == _source(new, names)


def _source(line: str, names: frozenset[str]) -> str:
    """Return an import without the names that it binds."""
    return " ".join(word for word in _SEPARATED.split(line.strip()) if word not in names)
