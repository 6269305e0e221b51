"""Unified diffs as an edit format.

What they say is `diff_parser`'s work, where their hunks belong `hunk_places`'s.  A hunk whose context stands in the
file once determines the result, wherever its line numbers point.
"""

from __future__ import annotations

from dataclasses import replace

from apply_service.edits.diff_headers import HUNK_HEADER, is_preamble
from apply_service.edits.diff_parser import parse_diff
from apply_service.edits.envelope import is_around
from apply_service.edits.file_change import FileChange, pick_change, predict_change
from apply_service.edits.hunks import Hunk
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit
from apply_service.types import Certainty, Prediction


class UnifiedDiff:
    """The `EditFormat` of unified diffs."""

    name = "unified_diff"

    def detect(self, update: str) -> bool:
        """Whether the update is hunks, their headers and what may stand around them, and nothing else."""
        lines = update.split("\n")
        if not _opens_with_diff(lines):
            return False
        try:
            text = parse_diff(update)
        except MalformedEdit:
            return any(line.startswith("diff --git ") for line in lines)
        return not text.strays and all(_is_plain(hunk, lines) for change in text.changes for hunk in change.hunks)

    def predict(self, original: str, update: str, *, language: str | None, path: str | None) -> Prediction:  # noqa: ARG002
        """The original with the diff's hunks for this file applied.

        Raises:
            MalformedEdit: no diff, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        text = parse_diff(update)
        if text.strays:
            trust.lower(Certainty.LIKELY, f"line {text.strays[0] + 1} belongs to no hunk and was left out")
        change = pick_change(text.changes, path, trust)
        return predict_change(original, update, with_found_context(change, original, update), trust)


def _is_fenced_diff(lines: list[str]) -> bool:
    first = next((line for line in lines if line.strip()), "")
    return first.strip("`~ ").lower() in ("diff", "patch", "udiff") and first.startswith(("```", "~~~"))


def _opens_with_diff(lines: list[str]) -> bool:
    """Whether the first line that is part of an edit is a diff's."""
    shown = (at for at, line in enumerate(lines) if not (is_around(line) or is_preamble(line)))
    at = next(shown, len(lines))
    here, below = (lines[k] if k < len(lines) else "" for k in (at, at + 1))
    if here.startswith("diff --git ") or HUNK_HEADER.match(here):
        return True
    if here.startswith(("--- ", "+++ ")):
        return below.startswith("+++ ") or HUNK_HEADER.match(below) is not None
    return _is_fenced_diff(lines)


def _is_plain(hunk: Hunk, lines: list[str]) -> bool:
    """Whether it is a hunk beyond doubt: it changes something, and its context lines carry their blank."""
    context = [line for line in hunk.lines if line.kind == "context"]
    return len(context) < len(hunk.lines) and all(lines[line.update_line][:1] in ("", " ") for line in context)


def with_found_context(change: FileChange, original: str, update: str) -> FileChange:
    """The change with the context read as it stands in the file, where its lines came without their leading blank."""
    file, lines = FileLines(original), update.split("\n")
    return replace(change, hunks=tuple(_as_found(hunk, file, lines) for hunk in change.hunks))


def _as_found(hunk: Hunk, file: FileLines, lines: list[str]) -> Hunk:
    if not hunk.old or file.stands(hunk.old, Likeness.TRAILING):
        return hunk
    raw = replace(
        hunk,
        lines=tuple(
            line._replace(text=lines[line.update_line]) if line.kind == "context" else line for line in hunk.lines
        ),
    )
    return raw if file.stands(raw.old, Likeness.TRAILING) else hunk
