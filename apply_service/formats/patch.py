"""Applies a patch of several files in memory.

It serves callers with more than one file (batch requests, the command line).  It reads unified diffs and V4A patches,
and returns the result for every file.  It writes nothing, and does not check the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from apply_service.errors import ApplyError, MalformedEdit, NeedsMoreContext
from apply_service.formats.file_change import FileChange, join_changes
from apply_service.formats.hunks import Trust
from apply_service.formats.unified_diff import apply_change, parse_diff
from apply_service.formats.v4a import is_patch_line, parse_v4a
from apply_service.text.fidelity import normalise, restore
from apply_service.text.line_search import FileLines, Likeness
from apply_service.text.paths import is_same_file
from apply_service.types import Certainty, Prediction


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file after the patch."""

    change: FileChange
    source: str | None
    """The name of the file before the patch, as the caller has it; None for a new file."""
    path: str | None
    """The file's name after the patch; None for a deleted file."""
    original: str
    """The file's text before the patch; for a copy, the text of the copied file; empty for a new file."""
    prediction: Prediction
    """The merge that makes the new text from that of `source`."""
    update: str
    """The patch's lines for this file.  `prediction.update_lines` has these lines as they were read."""

    @property
    def text(self) -> str:
        """The file's text after the patch, with its own line ends; empty for a deleted file."""
        return restore(self.original, self.prediction.ops, self.prediction.ends)

    @property
    def action(self) -> Literal["create", "delete", "rename", "copy", "mode", "modify"]:
        """What happens to the file."""
        if self.source is None:
            return "create"
        if self.path is None:
            return "delete"
        if self.path != self.source:
            return "copy" if self.change.is_copy else "rename"
        return "mode" if self.change.action == "mode" else "modify"


class FailedChange(NamedTuple):
    """A change that could not be made, and the error that says why."""

    change: FileChange
    error: ApplyError


def read_patch(patch_text: str) -> tuple[FileChange, ...]:
    """Return the changes in a patch, in its order.

    Raises MalformedEdit if the patch is not readable, or the text holds more than a patch.
    """
    update = normalise(patch_text)
    changes, strays = parse_v4a(update) if any(map(is_patch_line, update.split("\n"))) else parse_diff(update)
    if strays:
        line = update.split("\n")[strays[0]]
        raise MalformedEdit(
            f"line {strays[0] + 1} is not part of the patch", value=line[:200], remedy="send only the patch"
        )
    return changes


def apply_changes(patch_text: str, files: Mapping[str, str]) -> tuple[PatchedFile | FailedChange, ...]:
    """Return the result for every file that the patch names, in the patch's order.

    Each change is made to the file as it was before the patch, even if another change moves or replaces that file.
    Several changes that leave a file in its place are joined into one.

    Raises MalformedEdit if the patch is not readable.
    """
    if patch_text.endswith("\r") and "\n" in patch_text:
        patch_text += "\n"  # the patch was cut off within its last line end
    joined: dict[object, list[FileChange]] = {}
    for number, change in enumerate(read_patch(patch_text)):
        is_in_place = change.action not in ("create", "delete") and not change.is_copy
        joined.setdefault(change.path if is_in_place else number, []).append(change)
    changes = [join_changes(same) for same in joined.values()]
    leaving = {c.path for c in changes if c.action == "delete" or (c.new_path is not None and not c.is_copy)}
    lines = (patch_text if "\n" in patch_text else normalise(patch_text)).split("\n")
    made: set[str] = set()
    results: list[PatchedFile | FailedChange] = []
    for change in changes:
        try:
            result = _apply(change, lines, files, files.keys() - leaving)
            name = result.path or result.source or ""
            if name in made:
                raise MalformedEdit(
                    f"the patch changes {name} twice", value=name, remedy="combine both changes into one"
                )
            made.add(name)
            results.append(result)
        except ApplyError as error:
            results.append(FailedChange(change, error))
    return tuple(results)


def _apply(change: FileChange, lines: Sequence[str], files: Mapping[str, str], taken: Set[str]) -> PatchedFile:
    """Return the file after its change.  `lines`: the lines of the whole patch.  `taken`: names that no other file can
    get.

    Raises MalformedEdit or NeedsMoreContext if the change does not fit the file or the names.
    """
    source = _source(change.path, files) if change.action != "create" else None
    target = change.new_path or source or change.path
    if (source is None or change.new_path is not None) and target in taken and files.get(target):
        raise MalformedEdit(
            f"the patch creates {target}, which already exists", value=target, remedy="send a change of it"
        )
    original = "" if source is None else files[source]
    part, hunks = list[str](), []
    for hunk in change.hunks:
        first, last = (hunk.lines[0].update_line, hunk.lines[-1].update_line) if hunk.lines else (1, -1)
        shift = len(part) - first + 1
        hunks.append(replace(hunk, lines=tuple(x._replace(update_line=x.update_line + shift) for x in hunk.lines)))
        part += lines[first - 1 : last + 1]
    own, update = replace(change, hunks=tuple(hunks)), "\n".join([*part, ""])
    prediction = apply_change(original, update, own, Trust())
    _refuse_unsure(change, target, original, prediction)
    return PatchedFile(change, source, None if change.action == "delete" else target, original, prediction, update)


def _source(named: str, files: Mapping[str, str]) -> str:
    """Return the file that the patch means: the file named `named`, or the only file with a similar path.

    Raises MalformedEdit if there is no such file, or if there are several.
    """
    if named in files:
        return named
    alike = [path for path in files if is_same_file(named, path)] if named else list(files)
    if len(alike) != 1:
        raise MalformedEdit(
            "the patch is for a file that does not exist or was not sent",
            value=named,
            limit=sorted(files)[:50],
            remedy="send the file under the path that the patch names",
        )
    return alike[0]


def _refuse_unsure(change: FileChange, target: str, original: str, prediction: Prediction) -> None:
    """Raise NeedsMoreContext if a hunk has no sure place in the file."""
    remedy = "quote the lines around each change exactly as they stand in the file"
    if prediction.certainty is Certainty.GUESS:
        raise NeedsMoreContext(f"{target}: " + "; ".join(prediction.reasons), value=target, remedy=remedy)
    if prediction.certainty is Certainty.LIKELY:
        file = FileLines(normalise(original))
        for hunk in change.hunks:
            # The hunk's new lines would need indentation or blanks other than those in the patch.
            if hunk.old and any(place.likeness > Likeness.EDGES for place in file.find(hunk.old, limit=1)):
                raise NeedsMoreContext(
                    f"{target}: {hunk.label} is in the file only with other indentation or blanks",
                    value=hunk.anchor,
                    remedy=remedy,
                )
