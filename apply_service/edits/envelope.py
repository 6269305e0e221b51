"""What models put around an edit that is no part of it: code fences, sentences, a line naming the file.

Used by the parsers of blocks, diffs and patches to tell their own lines from the rest, and by detection: a text with
anything else around its hunks is not surely an edit of that format.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

FENCE = re.compile(r"^(?:`{3,}|~{3,})[\w+#.:/\\ -]*$")
_PATH = r"[\w.@+~()\[\]-]+(?:[/\\][\w.@+~()\[\]-]+)*"
_NAMED = re.compile(
    rf"^\s*(?:[#*>/;-]+\s*)?(?:\*\*|`)?(?:file(?:name)?|path)?\s*[:=]?\s*(?:\*\*|`)*(?P<path>{_PATH})(?:\*\*|`)*:?\s*$",
    re.I,
)
_SENTENCE = re.compile(r"^(?:\d+[.)] |[-*] )?[A-Z][^{}<>=;|\\]*[.:!?]$")
MAX_LENGTH = 400
"""A longer line is never taken for anything around an edit."""


def is_fence(line: str) -> bool:
    return len(line) <= MAX_LENGTH and FENCE.match(line.strip()) is not None


def is_sentence(line: str) -> bool:
    """Whether the line reads as prose around an edit ("Here is the change:")."""
    if len(line) > MAX_LENGTH or line[:1] in " \t":
        return False
    text = line.strip()
    return " " in text[3:] and _SENTENCE.match(text) is not None


def named_path(line: str) -> str | None:
    """The path, where the line does nothing but name a file."""
    match = _NAMED.match(line) if len(line) <= MAX_LENGTH else None
    if match is None:
        return None
    path = match["path"]
    is_path = "/" in path or "\\" in path or bool(re.search(r"\.[A-Za-z]\w{0,9}$", path))
    return path if is_path or path in ("Dockerfile", "Makefile", "Gemfile", "Rakefile") else None


def is_around(line: str) -> bool:
    """Whether the line can stand around an edit without being part of it."""
    return not line.strip() or is_fence(line) or named_path(line) is not None or is_sentence(line)


def is_same_file(named: str, path: str | None) -> bool:
    """Whether a path in an edit means the file at `path`: the shorter one is the other's tail."""
    if path is None:
        return True
    a, b = (PurePosixPath(p.replace("\\", "/")).parts for p in (named, path))
    a, b = (tuple(part for part in parts if part not in ("/", ".")) for parts in (a, b))
    n = min(len(a), len(b))
    return n > 0 and a[-n:] == b[-n:]
