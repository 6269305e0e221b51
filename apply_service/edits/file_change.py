"""One file's part of a diff or patch, and what it makes of that file's text.

Diffs and patches are read into these (`diff_parser`, `v4a_parser`); a request is about one file and picks its change,
`patch` applies all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from apply_service.edits.envelope import is_same_file
from apply_service.edits.hunk_merge import merge_hunks, write_file
from apply_service.edits.hunks import Hunk
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit
from apply_service.types import Certainty, LineOp, Prediction

Action = Literal["create", "delete", "rename", "modify", "mode"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What happens to one file.  `path` is its name before (after, for a new one); empty where the edit names none."""

    path: str
    action: Action = "modify"
    new_path: str | None = None
    """Its name after, where that is another."""
    hunks: tuple[Hunk, ...] = ()
    old_mode: str | None = None
    new_mode: str | None = None
    is_copy: bool = False
    """A rename that leaves the old file where it is."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.path,) if self.new_path is None else (self.path, self.new_path)

    def is_for(self, path: str | None) -> bool:
        return not self.path or any(is_same_file(name, path) for name in self.names)


def pick_change(changes: Sequence[FileChange], path: str | None, trust: Trust) -> FileChange:
    """The change of the file at `path`, or the only one.  A copy changes the file it makes, not the one it is of.

    Raises:
        MalformedEdit: several files, and `path` does not tell which.
    """
    mine = [change for change in changes if change.is_for(path)]
    exact = [change for change in mine if path in change.names]
    mine = exact or mine
    mine = [change for change in mine if not change.is_copy or change.new_path == path] or mine
    if not mine and len({change.path for change in changes}) == 1:
        mine = _take_other_name(changes, path, trust)
    if len({change.path for change in mine}) != 1:
        raise MalformedEdit(
            "the edit is for several files, and it is not clear which of them is this one",
            value=path,
            limit=[change.path for change in changes],
            remedy="send the `path` of the file, as the edit names it",
        )
    if others := [change.path for change in changes if change not in mine]:
        trust.note("the edit also changes " + ", ".join(others))
    return (
        mine[0] if len(mine) == 1 else replace(mine[0], hunks=tuple(hunk for change in mine for hunk in change.hunks))
    )


def _take_other_name(changes: Sequence[FileChange], path: str | None, trust: Trust) -> list[FileChange]:
    named, asked = changes[0].path, (path or "").replace("\\", "/")
    if PurePosixPath(named).name == PurePosixPath(asked).name:
        trust.note(f"the edit names the file {named}")
    else:
        trust.lower(Certainty.LIKELY, f"the edit names another file: {named}")
    return list(changes)


def predict_change(original: str, update: str, change: FileChange, trust: Trust) -> Prediction:
    """The file after its change.  A deleted file has no text; its name and mode are told in the reasons.

    Raises:
        MalformedEdit: creates what exists, or contradicts itself.
        NeedsMoreContext: a hunk has no place.
    """
    _tell(change, trust)
    if change.action == "create":
        return _create(original, update, change, trust)
    if change.action == "delete":
        return _delete(original, update, change, trust)
    return merge_hunks(original, update, change.hunks, is_ordered=True, trust=trust)


def _tell(change: FileChange, trust: Trust) -> None:
    if change.hunks and change.hunks[-1].may_be_cut:
        trust.lower(
            Certainty.LIKELY, f"{change.hunks[-1].label}: has fewer lines than it says, the edit may be cut short"
        )
    if change.action == "delete":
        trust.note("the edit deletes the file")
    if change.new_path is not None:
        trust.note(f"the edit {'copies' if change.is_copy else 'moves'} the file to {change.new_path}")
    if change.new_mode is not None and change.old_mode is not None:
        trust.note(f"the edit changes the mode from {change.old_mode} to {change.new_mode}")


def _create(original: str, update: str, change: FileChange, trust: Trust) -> Prediction:
    if original.strip():
        raise MalformedEdit(
            f"the edit creates {change.path}, but the file is not empty",
            value=change.path,
            remedy="send the edit as a change of the file, or an empty original",
        )
    new = [(line.update_line, line.text) for hunk in change.hunks for line in hunk.lines if line.kind != "remove"]
    lacks_newline = bool(change.hunks) and change.hunks[-1].new_lacks_newline
    return write_file(original, update, new, trust, has_final_newline=not lacks_newline)


def _delete(original: str, update: str, change: FileChange, trust: Trust) -> Prediction:
    lines = original.split("\n")
    quoted = [text for hunk in change.hunks for text in hunk.old]
    if change.hunks and quoted != (lines[:-1] if lines[-1] == "" else lines):
        trust.lower(Certainty.GUESS, "the file is not what the edit deletes")
    ops = tuple(LineOp("drop", row, None, line) for row, line in enumerate(lines))
    determined = trust.certainty is Certainty.CERTAIN
    return Prediction(ops, tuple(update.split("\n")), trust.certainty, tuple(trust.reasons), determined)
