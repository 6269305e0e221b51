"""The lines of a sketch: their text, and what each of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["context", "new", "marker", "padding", "fence", "file_name", "hint", "deletion", "end"]


@dataclass(frozen=True, slots=True)
class SketchLine:
    """One line of a snippet.  `original_line` for context, `after_line` for context and new lines.

    Roles: context (the original's line, perhaps misquoted), new, marker, padding (a blank beside a marker, or between
    code and fence), fence, file_name, hint, deletion (a comment that says what is gone), end (the empty last line).
    A remark stands on its line: `has_remark`.
    """

    text: str
    role: Role
    original_line: int | None = None
    after_line: int | None = None
    has_remark: bool = False


def lead_of(line: str) -> str:
    """The white space at the start of a line."""
    return line[: len(line) - len(line.lstrip())]
