"""Finds names of files in the lines of a reply, and tells which of the user's files a name means."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePosixPath

from apply_service.syntax.languages import language_of_path

MAX_LENGTH = 400
"""A line that names a file has at most this many characters."""
NAMES_WITHOUT_SUFFIX = ("Dockerfile", "Makefile", "Gemfile", "Rakefile", "CMakeLists.txt", "Justfile", "Procfile")
_WORD = re.compile(r"[\w.@+~()\[\]/\\-]+")
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,9}$")
_NUMBER = re.compile(r"^\d{1,3}[.)]\s")


def is_prose(path: str | None) -> bool:
    """Tell whether the file at `path` is text for people."""
    return (path or "").lower().endswith((".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc"))


_STATE = re.compile(r" \([A-Za-z][A-Za-z ,'-]{0,39}\)$")
"""A remark about a file after its name."""


def is_path(word: str) -> bool:
    """Tell whether the word can only be the name of a file."""
    if not _WORD.fullmatch(word) or word.startswith("//") or word.endswith(("/", "\\", "()")):
        return False
    name = re.split(r"[/\\]", word)[-1]
    is_named = name in NAMES_WITHOUT_SUFFIX or _SUFFIX.search(word) is not None
    return is_named or "/" in word or "\\" in word


def named_path(line: str) -> str | None:
    """Return the path in a line that only names a file."""
    if len(line) > MAX_LENGTH:
        return None
    text = _STATE.sub("", line.strip().rstrip(":").strip()).lstrip("#*>;/- \t").removesuffix("-->").strip(" \t*`#\"'")
    label, sign, rest = text.partition(":")
    if sign and label.strip(" *`").lower() in ("file", "filename", "file name", "path", "filepath"):
        text = rest.strip(" \t*`\"'")
    elif text[:5].lower() == "file ":
        text = text[5:].strip(" \t*`\"'")
    text = text.rstrip(":").rstrip("*`")
    if line.lstrip().startswith("/") and not line.lstrip().startswith(("//", "/*")):
        text = "/" + text
    return text if text and is_path(text) else None


def mentioned_path(line: str) -> str | None:
    """Return the only path that a sentence or heading has in backticks or bold ("In `src/a.py`:", "### 1. `a.py`")."""
    text = line.strip()
    if len(text) > MAX_LENGTH or not text:
        return None
    pieces = [word for word in text.split("`")[1::2] if is_path(word) and _is_surely_path(word)]
    if not pieces:
        words = (word.strip("*`\"'():,.") for word in text.split())
        is_lead = text.endswith(":") or text.startswith(("#", "**")) or _NUMBER.match(text) is not None
        pieces = [word for word in words if is_path(word) and _is_surely_path(word) and _SUFFIX.search(word)]
        pieces = pieces if is_lead else []
    return pieces[0] if len(set(pieces)) == 1 else None


def _is_surely_path(word: str) -> bool:
    """Tell whether the word has a folder or a known suffix.  A word such as `Cart.add` may be a method."""
    return "/" in word or word.lower().endswith((".cfg", ".env", ".txt")) or language_of_path(word) is not None


def titled_path(title: str) -> str | None:
    """Return the path in a fence's title: `python src/a.py`, `python:src/a.py`, `12:15:src/a.py`, `py title="a.py"`."""
    for word in title.replace("=", " ").replace(",", " ").split():
        bare = word.strip("\"'{}`")
        for part in (bare, bare.rpartition(":")[2]):
            if is_path(part) and (_SUFFIX.search(part) or "/" in part or part in NAMES_WITHOUT_SUFFIX):
                return part
    return None


def is_same_file(named: str, path: str | None) -> bool:
    """Tell whether a path in an edit means the file at `path`: the longer of the two must end with the shorter."""
    if path is None:
        return True
    a, b = path_parts(named), path_parts(path)
    n = min(len(a), len(b))
    return n > 0 and a[-n:] == b[-n:]


def has_same_name(named: str, path: str | None) -> bool:
    """Tell whether the two paths end in the same file name, whatever their folders."""
    return path is not None and path_parts(named)[-1:] == path_parts(path)[-1:]


def match_files(named: Iterable[str], known: Iterable[str]) -> dict[str, list[str]]:
    """Return the known files that each path in an edit may mean."""
    by_name: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in known:
        by_name[path_parts(path)[-1:]].append(path)
    return {name: [path for path in by_name[path_parts(name)[-1:]] if is_same_file(name, path)] for name in named}


@lru_cache(maxsize=16384)
def path_parts(path: str) -> tuple[str, ...]:
    """Return the folders and the name in a path of any operating system."""
    return tuple(part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in ("/", "."))
