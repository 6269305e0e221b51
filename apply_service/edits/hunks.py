"""What search/replace blocks, diffs and patches come down to: hunks of lines that stay, go and come.

The parsers (`search_replace_blocks`, `diff_parser`, `v4a_parser`) make them, `hunk_places` finds where they belong and
`hunk_merge` writes the result.  Holds data only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from apply_service.edits.line_diff import diff_lines
from apply_service.edits.markers import is_marker

HunkLineKind = Literal["context", "remove", "add"]


class HunkLine(NamedTuple):
    """One line of a hunk, its prefix off.  `update_line`: where in the update it stands."""

    kind: HunkLineKind
    text: str
    update_line: int


@dataclass(frozen=True)
class Hunk:
    """One change with what is quoted of the file around it."""

    label: str
    """How messages name it: "block 2", "hunk 3"."""
    lines: tuple[HunkLine, ...]
    stated_line: int | None = None
    """0-based line of the original where the edit says that the hunk starts."""
    scopes: tuple[str, ...] = ()
    """Headers under which the hunk lies, outermost first."""
    scopes_bind: bool = False
    """The format defines that the hunk lies under its scopes; otherwise they are a hint."""
    is_at_end: bool = False
    """The edit says that the hunk reaches the end of the file."""
    old_lacks_newline: bool = False
    new_lacks_newline: bool = False
    newline_note: int | None = None
    """Line of the update that speaks of the final newline."""
    may_be_cut: bool = False
    """The edit ends with this hunk, before all its lines were there by its own count."""
    is_well_formed: bool = False
    """The edit's own counts are right, so that its line numbers deserve trust."""

    @cached_property
    def old(self) -> tuple[str, ...]:
        """The lines that the hunk expects in the file."""
        return tuple(line.text for line in self.lines if line.kind != "add")

    @cached_property
    def new(self) -> tuple[str, ...]:
        """The lines that it leaves there."""
        return tuple(line.text for line in self.lines if line.kind != "remove")

    @property
    def anchor(self) -> str:
        """The quoted line that says most, for messages."""
        return max((line.strip() for line in self.old), key=len, default="")[:200]


def hunk_of_replacement(
    label: str,
    search: Sequence[tuple[int, str]],
    replace: Sequence[tuple[int, str]],
    *,
    stated_line: int | None = None,
) -> Hunk:
    """A hunk from old and new text, both as (line of the update, text); what they share is context."""
    lines: list[HunkLine] = []
    b = 0
    for hunk in diff_lines([text for _, text in search], [text for _, text in replace]):
        lines += (HunkLine("context", text, at) for at, text in replace[b : hunk.b0])
        lines += (HunkLine("remove", text, at) for at, text in search[hunk.a0 : hunk.a1])
        lines += (HunkLine("add", text, at) for at, text in replace[hunk.b0 : hunk.b1])
        b = hunk.b1
    lines += (HunkLine("context", text, at) for at, text in replace[b:])
    return Hunk(label, tuple(lines), stated_line)


def split_at_markers(hunk: Hunk) -> list[Hunk]:
    """The hunk cut where a context line stands for lines left out (`...`); the parts keep its label and order."""
    parts: list[list[HunkLine]] = [[]]
    for line in hunk.lines:
        if line.kind == "context" and is_marker(line.text):
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return [hunk]
    return [Hunk(hunk.label, tuple(part), scopes=hunk.scopes) for part in parts if part]
