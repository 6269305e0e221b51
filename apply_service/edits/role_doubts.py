"""Whether lines that a snippet's reading leaves out of the file may be meant for it: notes that read like its lines,
blank lines at the snippet's edges.

Asked while a snippet is read, of its lines' roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rapidfuzz import fuzz, process

from apply_service.edits.candidates import LineIndex
from apply_service.edits.markers import Role, strip_comment

NOTES = (Role.MARKER, Role.HINT, Role.DELETION, Role.ASIDE)
MIN_NOTE = 12
"""Characters of a note that is compared with the file's lines."""
MIN_LIKENESS = 80.0
MAX_HEAD = 3
"""Lines among which an opening fence is looked for."""
TILDES = "~~~"


def doubt_roles(roles: Sequence[Role], texts: Sequence[str], index: LineIndex) -> Iterator[str]:
    """The reasons to doubt them.  `texts`: the update as written."""
    noted = [(role, text.strip()) for role, text in zip(roles, texts, strict=True)]
    known = set(index.stripped)
    if any(role is Role.MARKER and text in known for role, text in noted):
        yield "a marker that stands in the file"
    if Role.ASIDE in roles:
        yield "hint or comment"
    notes = {text for role, text in noted if role in NOTES} - known
    if any(_is_like_code(note, index.stripped) for note in notes):
        yield "a note that reads like a line of the file"
    if any(role is Role.FENCE and text.startswith(TILDES) for role, text in noted) and _has_tildes(index.stripped):
        yield "a fence that reads like a line of the file"
    if _is_loose(roles, 0) or _is_loose(roles[::-1], 1):
        yield "blank lines at the snippet's start or end"


def _is_like_code(note: str, lines: Sequence[str]) -> bool:
    """Whether a note is much like a line of the file: then it may be that line, changed."""
    if len(strip_comment(note).core) < MIN_NOTE:
        return False
    return process.extractOne(note, lines, scorer=fuzz.ratio, score_cutoff=MIN_LIKENESS) is not None


def _has_tildes(lines: Sequence[str]) -> bool:
    return any(line.startswith(TILDES) for line in lines)


def _is_loose(roles: Sequence[Role], n_free: int) -> bool:
    """Whether more than `n_free` blank lines stand between this edge of the snippet (or its fence) and a line of the
    file."""
    start = 0
    if Role.FENCE in roles[:MAX_HEAD]:
        start, n_free = roles.index(Role.FENCE) + 1, 0
    first = next((k for k in range(start, len(roles)) if roles[k] is not Role.BLANK), len(roles))
    return first < len(roles) and roles[first] is Role.CONTENT and first - start > n_free
