"""A whole patch over several files, in memory.

For callers with more than one file (batch requests, the command line).  Reads unified diffs and V4A patches, and gives
every file's text with the bytes that the original had; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from apply_service.edits.envelope import is_same_file
from apply_service.edits.fidelity import normalise, ops_from_texts, refuse_altered, restore, split_ends
from apply_service.edits.file_change import FileChange
from apply_service.edits.hunks import RANK, Trust
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.unified_diff import apply_change, parse_diff
from apply_service.edits.v4a import is_patch_line, parse_v4a
from apply_service.errors import ApplyError, MalformedEdit, NeedsMoreContext
from apply_service.types import Certainty, Prediction

MAX_NAMES = 8
"""Lines that tell the names and modes of a file whose text stays."""


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file after the patch."""

    change: FileChange
    """The last one, where the patch changes the file more than once."""
    source: str | None
    """Name of the file before, as the caller has it; None for a new one."""
    path: str | None
    """Its name after; None for a deleted one."""
    text: str
    """Its text after, with the original's line ends; empty for a deleted one."""
    prediction: Prediction
    """How the text came about, from that of `source`."""
    new_mode: str | None = None
    """git's mode (`100755`), where the patch sets one."""
    update: str = ""
    """The part of the patch that is for this file; `prediction.update_lines` are its lines."""

    @property
    def action(self) -> Literal["create", "delete", "rename", "copy", "mode", "modify"]:
        """What happens to the file on the whole."""
        if self.source is None:
            return "create"
        if self.path is None:
            return "delete"
        if self.path != self.source:
            return "copy" if self.change.is_copy else "rename"
        return "mode" if self.change.action == "mode" else "modify"


@dataclass(frozen=True, slots=True)
class FailedChange:
    """A file that the patch could not be applied to."""

    change: FileChange
    error: ApplyError


def is_v4a(update: str) -> bool:
    """Whether the patch is a V4A patch rather than a unified diff."""
    return any(is_patch_line(line) for line in update.split("\n"))


def read_patch(patch_text: str) -> tuple[FileChange, ...]:
    """The changes that the patch tells, in its order.

    Raises:
        MalformedEdit: it is not readable, or holds more than a patch.
    """
    update = normalise(patch_text)
    changes, strays = parse_v4a(update) if is_v4a(update) else parse_diff(update)
    if strays:
        line = update.split("\n")[strays[0]]
        raise MalformedEdit(
            f"line {strays[0] + 1} is no part of a patch", value=line[:200], remedy="send the patch alone"
        )
    return changes


def apply_changes(patch_text: str, files: Mapping[str, str]) -> tuple[PatchedFile | FailedChange, ...]:
    """What becomes of every file that the patch names; each stands once, however often it is changed.

    The changes of a V4A patch follow one another.  Those of a diff do so where they change a file in place; a file that
    is moved or copied is the one from before the patch, as git has it, whatever else becomes of either name.

    Raises:
        MalformedEdit: the patch is not readable.
    """
    changes = read_patch(patch_text)
    is_diff = not is_v4a(normalise(patch_text))
    leaving = {change.path for change in changes if is_diff and change.action in ("delete", "rename")}
    results: dict[str, PatchedFile | FailedChange] = {}
    texts = dict(files)
    for change, part in _parts(changes, patch_text):
        is_from_before = is_diff and change.new_path is not None
        try:
            result = _apply(change, part, files if is_from_before else texts, texts.keys() - leaving)
        except ApplyError as error:
            results[change.path] = FailedChange(change, error)
            continue
        previous = None if is_from_before else results.get(result.source or result.path or "")
        if isinstance(previous, FailedChange):
            continue
        if previous is not None:
            result = _fold(previous, result, files)
            if not change.is_copy:
                del results[previous.path or previous.source or ""]
        if result.source is not None or result.path is not None:
            results[result.path or result.source or ""] = result
        # what later changes find
        is_gone = result.path != result.source and not result.change.is_copy
        if result.source is not None and is_gone and getattr(results.get(result.source), "path", None) != result.source:
            texts.pop(result.source, None)
        if result.path is not None:
            texts[result.path] = result.text
    return tuple(results.values())


def _parts(changes: Sequence[FileChange], update: str) -> Iterator[tuple[FileChange, str]]:
    """Each change with the part of the update that it was read from, and its lines numbered in that: the time for a
    file must not grow with the number of files."""
    lines, start = update.split("\n"), 0
    if len(changes) == 1 or len(lines) == 1:
        yield from ((change, update) for change in changes)
        return
    for change in changes:
        hunks = []
        last = -1
        for hunk in change.hunks:
            moved = tuple(line._replace(update_line=line.update_line - start) for line in hunk.lines)
            note = None if hunk.newline_note is None else hunk.newline_note - start
            hunks.append(replace(hunk, lines=moved, newline_note=note))
            last = max([last, hunk.newline_note or -1, *(line.update_line for line in hunk.lines)])
        end = last + 1 if last >= 0 else start + MAX_NAMES
        yield replace(change, hunks=tuple(hunks)), "\n".join([*lines[start:end], ""])
        start = end if last >= 0 else start


def _apply(change: FileChange, update: str, texts: Mapping[str, str], taken: Set[str]) -> PatchedFile:
    """The change made.  `taken`: names that another file can't get."""
    source = change.path if change.action != "create" else None
    if source is not None and source not in texts:
        # the only one that ends alike
        alike = [path for path in texts if is_same_file(source, path)] if source else list(texts)
        if len(alike) != 1:
            raise MalformedEdit(
                "the patch is for a file that is not there",
                value=source,
                limit=sorted(texts)[:50],
                remedy="send the file, by the path that the patch names",
            )
        source = alike[0]
    target = change.new_path or source or change.path
    if (source is None or change.new_path is not None) and target in taken and texts.get(target):
        raise MalformedEdit(f"the patch creates {target}, which exists", value=target, remedy="change it instead")
    original = "" if source is None else texts[source]
    prediction = apply_change(original, update, change, Trust())
    remedy = "quote the lines around each change exactly"
    if prediction.certainty is Certainty.GUESS:
        raise NeedsMoreContext(f"{target}: " + "; ".join(prediction.reasons), value=target, remedy=remedy)
    file = FileLines(normalise(original))
    for hunk in change.hunks if prediction.certainty is Certainty.LIKELY else ():
        # with other blanks alone, its new lines would have to be other than the patch has them
        if hunk.old and any(place.likeness > Likeness.EDGES for place in file.find(hunk.old, limit=1)):
            raise NeedsMoreContext(
                f"{target}: {hunk.label} stands in the file with other indentation or blanks",
                value=hunk.anchor,
                remedy=remedy,
            )
    merged = restore(original, prediction.ops, prediction.ends)
    refuse_altered(original, merged, prediction.ops)
    path = None if change.action == "delete" else target
    return PatchedFile(change, source, path, merged, prediction, change.new_mode, update)


def _fold(first: PatchedFile, second: PatchedFile, files: Mapping[str, str]) -> PatchedFile:
    """Two changes of the same file as one."""
    original = "" if first.source is None else files[first.source]
    prediction = Prediction(
        ops_from_texts(normalise(original), normalise(second.text)),
        (*first.prediction.update_lines[:-1], *second.prediction.update_lines),
        max(first.prediction.certainty, second.prediction.certainty, key=RANK.__getitem__),
        tuple(dict.fromkeys((*first.prediction.reasons, *second.prediction.reasons))),
        first.prediction.determined and second.prediction.determined,
        ends=tuple(split_ends(second.text)[1][:-1]),
    )
    refuse_altered(original, second.text, prediction.ops)
    action = first.change.action if second.change.action == "mode" else second.change.action
    return replace(
        second,
        change=replace(second.change, action=action, is_copy=first.change.is_copy or second.change.is_copy),
        source=first.source,
        prediction=prediction,
        new_mode=second.new_mode or first.new_mode,
        update=first.update + second.update,
    )
