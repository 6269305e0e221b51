"""New comments of a snippet that may be markers in other words: `// (handlers as before)`, `/* imports */`.

`markers` takes what is a marker by its own text.  What is found here may as well be a comment that the file shall have;
the merger reads the snippet both ways.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from apply_service.edits.lazy.statements import tokens
from apply_service.edits.markers import ENCLOSED, MAX_NOTE_LENGTH, TOLD, Role, strip_comment

KINDS = ("enclosed", "phrased", "bare")
"""In brackets; in words that speak of what stays; any other short comment at the edge of a block."""
MAX_BARE = 6
"""Words of a bare note."""
_SEPARATORS = (Role.MARKER, Role.HINT, Role.FENCE, Role.BLANK)


def find_notes(update: Sequence[str], roles: Sequence[Role], known: Collection[str]) -> dict[int, str]:
    """The kind of each update line that may be a note.  `known`: the lines of the file, stripped."""
    return {
        i: kind
        for i, line in enumerate(update)
        if roles[i] is Role.CONTENT and line.strip() not in known and (kind := _kind(update, roles, i)) is not None
    }


def _kind(update: Sequence[str], roles: Sequence[Role], i: int) -> str | None:
    comment = strip_comment(update[i])
    if not comment.is_comment or not comment.core or len(update[i]) > MAX_NOTE_LENGTH:
        return None
    if ENCLOSED.match(comment.core):
        return "enclosed"
    beside = [k for k in (i - 1, i + 1) if 0 <= k < len(update)]
    if any(strip_comment(update[k]).is_comment and roles[k] is Role.CONTENT for k in beside):
        return None
    if TOLD.search(comment.core):
        return "phrased"
    is_edge = len(beside) < 2 or any(roles[k] in _SEPARATORS for k in beside)
    return "bare" if is_edge and len(tokens(comment.core)) <= MAX_BARE else None
