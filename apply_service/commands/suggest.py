"""What a user may have meant by a name that does not exist: of an option, a command, a setting, a file.

Only asked once something went wrong, so that nobody else waits for the library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

LEAST_LIKE = 75.0
"""How alike two names must be, of 100."""
LEAST_CHARS = 3
"""Fewer are in many names."""
MAX_ENTRIES = 5_000
"""How many names of the folders below this one are looked at for a file."""
NOT_SEARCHED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that alone holds the word, or else is most like it; None where none is much like it."""
    from rapidfuzz import fuzz, process

    known = list(known)
    longer = [name for name in known if len(word) >= LEAST_CHARS and word in name]
    if len(longer) == 1:
        return longer[0]
    found = process.extractOne(word, known, scorer=fuzz.ratio, processor=str.casefold, score_cutoff=LEAST_LIKE)
    return None if found is None else str(found[0])


def did_you_mean(name: str | None) -> str:
    """The question, or nothing."""
    return "" if name is None else f"Did you mean {name}?"


def file_hint(path: str | Path) -> str:
    """Where a file does not exist, the one that may be meant: of the same name in a folder below this one, or of a
    similar path; or nothing."""
    path = Path(path)
    if path.exists():
        return ""
    looks = (_elsewhere, _similar) if path.parent.is_dir() else (_similar, _elsewhere)
    return did_you_mean(looks[0](path) or looks[1](path))


def _similar(path: Path) -> str | None:
    """The path with its first wrong part replaced by a similar name, if the whole then exists."""
    right = Path(path.anchor)
    for i, part in enumerate(parts := path.parts[bool(path.anchor) :]):
        if (right / part).exists():
            right /= part
            continue
        try:
            names = [entry.name for entry in os.scandir(right) if entry.is_dir() == (i < len(parts) - 1)]
        except OSError:
            return None
        name = closest(part, names)
        if name is None:
            return None
        right /= name
    return str(right) if right.is_file() else None


def _elsewhere(path: Path) -> str | None:
    """A file with the path's name in the folders below this one, nearest first."""
    folders, n_seen = ["."], 0
    for folder in folders:  # grows by the folders in it
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        n_seen += len(entries)
        for entry in entries:
            if entry.name == path.name and entry.is_file():
                return os.path.normpath(entry.path)
            is_searched = not entry.name.startswith(".") and entry.name not in NOT_SEARCHED
            if is_searched and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
        if n_seen > MAX_ENTRIES:
            break
    return None
