"""A whole patch over several files, in memory: all of it or nothing.

For callers with more than one file (batch requests, the command line).  Reads unified diffs and V4A patches, and gives
every file's text with the bytes that the original had; writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apply_service.edits.diff_parser import parse_diff
from apply_service.edits.envelope import is_same_file
from apply_service.edits.fidelity import normalise, restore
from apply_service.edits.file_change import FileChange, predict_change
from apply_service.edits.trust import Trust
from apply_service.edits.unified_diff import with_found_context
from apply_service.edits.v4a_parser import is_patch_line, parse_v4a
from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.types import Certainty


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file after the patch."""

    change: FileChange
    source: str | None
    """Name of the file before, as the caller has it; None for a new one."""
    path: str | None
    """Its name after; None for a deleted one."""
    text: str
    """Its text after, with the original's line ends; empty for a deleted one."""
    certainty: Certainty
    reasons: tuple[str, ...]


def apply_patch(patch_text: str, files: Mapping[str, str]) -> tuple[PatchedFile, ...]:
    """Every file that the patch touches, in its order.  `files`: path -> text, line ends untouched.

    Raises:
        MalformedEdit: the patch is not readable, names a file that is not there, or creates one that is.
        NeedsMoreContext: a hunk has no sure place in its file; nothing is applied.
    """
    update = normalise(patch_text)
    is_v4a = any(is_patch_line(line) for line in update.split("\n"))
    changes, strays = parse_v4a(update) if is_v4a else parse_diff(update)
    if strays:
        line = update.split("\n")[strays[0]]
        raise MalformedEdit(
            f"line {strays[0] + 1} is no part of a patch", value=line[:200], remedy="send the patch alone"
        )
    patched: dict[str, PatchedFile] = {}
    texts = dict(files)
    for change in changes:
        result = _apply(change, update, texts)
        patched[result.path or result.source or ""] = result
        _record(result, texts)
    return tuple(patched.values())


def _apply(change: FileChange, update: str, texts: Mapping[str, str]) -> PatchedFile:
    source = None if change.action == "create" else _source(change, texts)
    target = change.new_path or source or change.path
    if (source is None or change.new_path is not None) and texts.get(target):
        raise MalformedEdit(f"the patch creates {target}, which exists", value=target, remedy="change it instead")
    original = "" if source is None else texts[source]
    text = normalise(original)
    prediction = predict_change(text, update, with_found_context(change, text, update), Trust())
    if prediction.certainty is Certainty.GUESS:
        raise NeedsMoreContext(
            f"{target}: " + "; ".join(prediction.reasons),
            value=target,
            remedy="quote the lines around each change exactly",
        )
    merged = restore(original, prediction.ops)
    is_deleted = change.action == "delete"
    return PatchedFile(change, source, None if is_deleted else target, merged, prediction.certainty, prediction.reasons)


def _source(change: FileChange, texts: Mapping[str, str]) -> str:
    """The caller's name of the file: the same, or the only one that ends alike."""
    if change.path in texts:
        return change.path
    alike = [path for path in texts if change.path and is_same_file(change.path, path)]
    if not change.path and len(texts) == 1:
        alike = list(texts)
    if len(alike) != 1:
        raise MalformedEdit(
            "the patch is for a file that is not there",
            value=change.path,
            limit=sorted(texts)[:50],
            remedy="send the file, by the path that the patch names",
        )
    return alike[0]


def _record(result: PatchedFile, texts: dict[str, str]) -> None:
    """What later sections of the patch find."""
    if result.source is not None and result.path != result.source and not result.change.is_copy:
        texts.pop(result.source, None)
    if result.path is not None:
        texts[result.path] = result.text
