"""Holds one file's part of a diff or patch, and makes this change to the file's text.

`unified_diff` and `v4a` parse diffs and patches into such changes.  A request is about one file and picks the change of
that file; `patch` applies all changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, TypeVar

from apply_service.errors import MalformedEdit
from apply_service.formats.hunks import QuotedHunk, Trust, merge_hunks
from apply_service.formats.recognise import ReplyLines
from apply_service.text.line_search import FileLines, Likeness
from apply_service.text.paths import has_same_name, is_same_file
from apply_service.types import LineOp, Prediction

Action = Literal["create", "delete", "rename", "modify", "mode"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What happens to one file.  `path` is its old name, or the name of a new file; empty if the edit names no file."""

    path: str
    action: Action = "modify"
    new_path: str | None = None
    """The file's new name, if it gets one."""
    hunks: tuple[QuotedHunk, ...] = ()
    old_mode: str | None = None
    new_mode: str | None = None
    is_copy: bool = False
    """Whether the old file of a rename stays where it is."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.path,) if self.new_path is None else (self.path, self.new_path)

    def is_for(self, path: str | None) -> bool:
        return not self.path or any(is_same_file(name, path) for name in self.names)


class PatchText(NamedTuple):
    """The changes in a text, and its stray lines, which are neither part of a change nor usual around a change."""

    changes: tuple[FileChange, ...]
    strays: tuple[int, ...]


def quotes_file(changes: Sequence[FileChange], reply: ReplyLines) -> bool:
    """Tell whether the file has the lines that a hunk quotes.  A change that quotes nothing fits a new file."""
    for change in changes:
        # Ignore a hunk that changes nothing: code may have a line that looks like the header of a hunk.
        quotes = [hunk.old for hunk in change.hunks if hunk.quotes and hunk.old != hunk.new]
        if any(map(reply.file.stands, quotes)) or (not quotes and change.path and reply.is_new_file):
            return True
    return False


def pick_change(changes: Sequence[FileChange], path: str | None, trust: Trust) -> FileChange:
    """Return the change of the file at `path`, or the only change.  A copy counts as a change to the new file that it
    creates.

    Raises MalformedEdit if there are several files, and `path` does not tell which is meant.
    """
    mine = [change for change in changes if change.is_for(path)]
    mine = [change for change in mine if path in change.names] or mine
    mine = [change for change in mine if not change.is_copy or change.new_path == path] or mine
    if not mine and len({change.path for change in changes}) == 1:
        mine = list(changes)
        _tell_name(changes[0].path, path, trust)
    if len({change.path for change in mine}) != 1:
        raise _several_files(path, [change.path for change in changes])
    if others := [change.path for change in changes if change not in mine]:
        trust.note("the edit also changes " + ", ".join(others))
    return join_changes(mine)


def join_changes(changes: Sequence[FileChange]) -> FileChange:
    """Return all changes of one file as one change with numbered hunks."""
    hunks = (hunk for change in changes for hunk in change.hunks)
    return replace(
        changes[0],
        action=next((change.action for change in changes if change.action != "modify"), "modify"),
        new_path=next((change.new_path for change in changes if change.new_path), None),
        hunks=tuple(replace(hunk, label=f"hunk {number}") for number, hunk in enumerate(hunks, 1)),
    )


class _Named(Protocol):
    @property
    def path(self) -> str | None: ...


Part = TypeVar("Part", bound=_Named)


def pick_for_file(parts: Sequence[Part], path: str | None, trust: Trust) -> list[Part]:
    """Return the parts of an edit for the file at `path`.  A part without a name is for any file.

    If the parts name at most one file, all parts are returned.  Raises MalformedEdit if they name several files, and
    none is known to be the file at `path`.
    """
    named = sorted({part.path for part in parts if part.path})
    if len(named) <= 1:
        if named and not is_same_file(named[0], path):
            _tell_name(named[0], path, trust)
        return list(parts)
    mine = [part for part in parts if path is not None and (not part.path or is_same_file(part.path, path))]
    if not any(part.path for part in mine):
        raise _several_files(path, named)
    if others := [name for name in named if not is_same_file(name, path)]:
        trust.note("the edit also changes " + ", ".join(others))
    return mine


def _tell_name(named: str, path: str | None, trust: Trust) -> None:
    """Record a doubt if the edit names a file other than the one at `path`.  If only the folders differ, record a
    note."""
    if has_same_name(named, path):
        trust.note(f"the edit names the file {named}")
    else:
        trust.doubt(f"the edit names another file: {named}")


def _several_files(path: str | None, named: Sequence[str]) -> MalformedEdit:
    return MalformedEdit(
        "the edit is for several files, and it is not clear which of them is this one",
        value=path,
        limit=list(named),
        remedy="send the `path` of the file, as the edit names it",
    )


def predict_change(original: str, update: str, change: FileChange, trust: Trust) -> Prediction:
    """Return the file after its change.  A deleted file has no text.  The prediction's reasons report a new name or
    mode.

    Raises MalformedEdit if the change creates a file that exists, or contradicts itself.  Raises NeedsMoreContext if a
    hunk has no place.
    """
    file, lines = FileLines(original), update.split("\n")
    hunks = [_with_found_context(hunk, file, lines) for hunk in change.hunks]
    if hunks and (last := hunks[-1]).lacking != (0, 0):
        lacks_blank = "\n" + "\n".join(last.old) + "\n\n" in f"\n{original}\n"
        if last.lacking != (1, 1) or not lacks_blank:  # otherwise the hunk lacks only a blank line of the file
            trust.doubt(f"{last.label}: has fewer lines than its header says; the edit may be cut short")
    _note_headers(change, trust)
    if change.action == "create":
        new = _created(original, change, hunks)
        for line in (line for hunk in hunks for line in hunk.lines):
            lines[line.update_line] = line.text
        return trust.prediction_of(original, new, lines)
    if change.action == "delete":
        _check_deletion(file, change, hunks, trust)
        ops = [LineOp("drop", row, None, line) for row, line in enumerate(original.split("\n"))]
        return trust.prediction(ops, lines)
    return merge_hunks(original, update, hunks, is_ordered=True, trust=trust)


def _note_headers(change: FileChange, trust: Trust) -> None:
    """Note that the file is deleted, moved or copied, or that its mode changes."""
    if change.action == "delete":
        trust.note("the edit deletes the file")
    if change.new_path is not None:
        trust.note(f"the edit {'copies' if change.is_copy else 'moves'} the file to {change.new_path}")
    if change.new_mode is not None and change.old_mode not in (None, change.new_mode):
        trust.note(f"the edit changes the file mode from {change.old_mode} to {change.new_mode}")


def _created(original: str, change: FileChange, hunks: Sequence[QuotedHunk]) -> str:
    """Return the text of the new file.

    Raises MalformedEdit if the file already has text, or the edit has lines that a new file can't have.
    """
    if original.strip():
        raise MalformedEdit(
            f"the edit creates {change.path}, but the file is not empty",
            value=change.path,
            remedy="send an edit that changes the file, or an empty original",
        )
    if before := [line.text for hunk in hunks for line in hunk.lines if line.kind != "add" and line.text.strip()]:
        raise MalformedEdit(
            f"the edit creates {change.path}, but has lines without +, which a new file can't have",
            value=before[0][:200],
            remedy="begin each line of a new file with +",
        )
    new = [text for hunk in hunks for text in hunk.new]
    return "\n".join([*new, ""] if new and not hunks[-1].new_lacks_newline else new)


def _check_deletion(file: FileLines, change: FileChange, hunks: Sequence[QuotedHunk], trust: Trust) -> None:
    """Record how far a deletion can be trusted if its lines are not those of the file.

    Raises MalformedEdit if a diff of git deletes the file without showing its lines.
    """
    if not hunks and change.old_mode is not None and file.lines:  # git refuses this too; V4A deletes without hunks
        raise MalformedEdit(
            f"the diff deletes {change.path} but does not show the lines that it removes",
            value=change.path,
            remedy="send the whole diff of the deleted file, or delete the file yourself",
        )
    if hunks and [text for hunk in hunks for text in hunk.old] != list(file.lines):
        trust.guess("the file has other lines than those that the edit deletes")
    elif hunks and file.lines and hunks[-1].old_lacks_newline == file.has_final_newline:
        trust.doubt("the edit that deletes the file is wrong about the newline at its end")


def _with_found_context(hunk: QuotedHunk, file: FileLines, lines: Sequence[str]) -> QuotedHunk:
    """Return the hunk.  If it fits the file only with its context lines exactly as they were written, it gets those
    lines.

    Such context lines came without their leading blank.
    """
    if not hunk.old or file.stands(hunk.old, Likeness.TRAILING):
        return hunk
    raw = (x._replace(text=lines[x.update_line]) if x.kind == "context" else x for x in hunk.lines)
    as_written = replace(hunk, lines=tuple(raw))
    return as_written if file.stands(as_written.old, Likeness.TRAILING) else hunk
