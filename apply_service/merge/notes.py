"""Finds lines of a snippet with a doubtful role: comments that may be markers, and markers that may be code.

`markers` decides a line's role by its own text.  This module compares the line with the file.  A *note* is a new
comment that may be a marker in other words (`// (handlers as before)`, `/* imports */`); the merger reads it both ways.
A marker that may be a line of the file is a reason for doubt, and so are blank lines at the snippet's edges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rapidfuzz import fuzz, process

from apply_service.merge.statements import tokens
from apply_service.text.markers import ENCLOSED, MAX_NOTE_LENGTH, TOLD, Role, strip_comment

KINDS = ("enclosed", "phrased", "bare")
"""Kinds of notes: in brackets; in words about code that stays; or any other short comment at the edge of a block."""
MAX_BARE = 6
"""A bare note has at most this many words."""
MIN_NOTE = 12
"""A comment about the edit is compared with the file's lines only if it has at least this many characters."""
MIN_LIKENESS = 80.0
MAX_HEAD = 3
"""An opening fence is looked for in this many first lines."""
TILDES = "~~~"
_SEPARATORS = (Role.MARKER, Role.HINT, Role.FENCE, Role.BLANK)


def find_notes(update: Sequence[str], roles: Sequence[Role], known: Collection[str]) -> dict[int, str]:
    """Return the kind of each note, by its update line.  `known`: the lines of the file, stripped."""
    found: dict[int, str] = {}
    for i, line in enumerate(update):
        comment = strip_comment(line)
        if roles[i] is not Role.CONTENT or line.strip() in known or len(line) > MAX_NOTE_LENGTH:
            continue
        if not comment.is_comment or not comment.core:
            continue
        beside = [k for k in (i - 1, i + 1) if 0 <= k < len(update)]
        if ENCLOSED.match(comment.core):
            found[i] = "enclosed"
        elif any(strip_comment(update[k]).is_comment and roles[k] is Role.CONTENT for k in beside):
            continue
        elif TOLD.search(comment.core):
            found[i] = "phrased"
        elif len(tokens(comment.core)) <= MAX_BARE and (
            len(beside) < 2 or any(roles[k] in _SEPARATORS for k in beside)
        ):
            found[i] = "bare"
    return found


def doubt_roles(roles: Sequence[Role], texts: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yield the reasons to doubt the roles.  `texts`: the update as written.  `lines`: the file's lines, stripped."""
    noted = [(role, text.strip()) for role, text in zip(roles, texts, strict=True)]
    known = set(lines)
    if any(role is Role.MARKER and text in known for role, text in noted):
        yield "a marker of the snippet is a line of the file too"
    if Role.ASIDE in roles:
        yield "a comment was taken for words about the edit and left out"
    notes = {text for role, text in noted if role in (Role.MARKER, Role.HINT, Role.DELETION, Role.ASIDE)} - known
    long = [note for note in notes if len(strip_comment(note).core) >= MIN_NOTE]
    if any(process.extractOne(note, lines, scorer=fuzz.ratio, score_cutoff=MIN_LIKENESS) for note in long):
        yield "a comment about the edit is like a line of the file"
    is_fenced = any(role is Role.FENCE and text.startswith(TILDES) for role, text in noted)
    if is_fenced and any(line.startswith(TILDES) for line in lines):
        yield "a fence of the snippet is like a line of the file"
    if _is_loose(roles, 0) or _is_loose(roles[::-1], 1):
        yield "blank lines at the snippet's start or end may be meant for the file"


def _is_loose(roles: Sequence[Role], n_free: int) -> bool:
    """Tell whether more than `n_free` blank lines separate this edge of the snippet (or its fence) from its code."""
    start = 0
    if Role.FENCE in roles[:MAX_HEAD]:
        start, n_free = roles.index(Role.FENCE) + 1, 0
    first = next((k for k in range(start, len(roles)) if roles[k] is not Role.BLANK), len(roles))
    return first < len(roles) and roles[first] is Role.CONTENT and first - start > n_free
