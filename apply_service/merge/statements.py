"""Lines put together into statements, and how much two of them say the same.

By brackets and comment signs alone, so that it works on fragments and in any language.
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
"""Lines of one statement that brackets hold together."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
QUOTES = str.maketrans({"'": '"', "`": '"', "“": '"', "”": '"', "‘": '"', "’": '"'})
_SAYING = re.compile(r"\w+|[^\w\s\"'`“”‘’;()\[\]{},:-]")

_IMPORT = re.compile(r"^\s*(?:import|from|use|pub use|using|export \{|const .*\brequire\()")
_NAMES = re.compile(r"^\s*(?:import\b[^(){}=]*|export\s+(?:type\s+)?|(?:pub\s+)?use\s[\w:]*::)\{[^{}]*$")
"""The first line of a list of names in curly brackets that goes on below."""
_QUOTED = re.compile(r"(?:from\s*)?(?:\"[^\"]*\"|'[^']*')")
_LISTED = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"\w+")
_SEPARATED = re.compile(r"[\s,;{}()]+")


class Statement(NamedTuple):
    """Lines `start:stop` of a text that belong together."""

    start: int
    stop: int
    kind: str
    """`code`, `comment` or `text` (inside a string of several lines)."""


@lru_cache(maxsize=65536)
def tokens(text: str) -> tuple[str, ...]:
    """Return words and signs of a text, quotes of all kinds alike."""
    return tuple(_TOKEN.findall(text.translate(QUOTES)))


@lru_cache(maxsize=65536)
def essence(text: str) -> tuple[str, ...]:
    """Return the tokens that say something: without quotes, semicolons, and commas before a closing bracket."""
    found = [token for token in tokens(text) if token not in ('"', ";")]
    kept = []
    for k, token in enumerate(found):
        following = found[k + 1] if k + 1 < len(found) else ""
        if token != "," or following not in ("", ")", "]", "}"):
            kept.append(token)
    return tuple(kept)


@lru_cache(maxsize=65536)
def gist(text: str) -> tuple[str, ...]:
    """Return the essence without brackets, commas and the dashes of lists: what stays where the layout changes."""
    return tuple(_SAYING.findall(text))


def _depth(line: str) -> int:
    return line.count("(") + line.count("[") - line.count(")") - line.count("]")


def goes_on(line: str) -> bool:
    """Tell whether the line continues the one above: it begins with a call or an operator."""
    return line.lstrip().startswith((".", "?.", "&& ", "|| ", "? ", ": ", "|> ", "->", "| ")) and "..." not in line


def statements(lines: Sequence[str]) -> list[Statement]:
    """Return lines that are not blank, put together: what round and square brackets hold, and comments of several
    lines, each up to the sign that ends it."""
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
    """Return how much two essences have in common, 1 where they are equal; `right` may leave out part of `left`."""
    if not left or not right:
        return 0.0
    if left == right:
        return 1.0 + 0.1 * same_kind
    shared = (len(left) + len(right) - Indel.distance(left, right)) / 2
    part = 0.9 * shared / len(right) if len(right) >= 3 else 0.0
    return max(Indel.normalized_similarity(left, right), part) * (1.0 if same_kind else 0.8)


@lru_cache(maxsize=16384)
def imported(line: str) -> frozenset[str]:
    """Return the names that a line of imports binds, as far as its words tell."""
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
    """Tell whether an import of one line imports what `old` does, from the same source, and more."""
    names = imported(new)
    return imported(old) < names and bool(imported(old)) and _source(old, names) == _source(new, names)


def _source(line: str, names: frozenset[str]) -> str:
    """Return an import without the names that it binds."""
    return " ".join(word for word in _SEPARATED.split(line.strip()) if word not in names)
