"""Unified diffs as an edit format.

What they say is `diff_parser`'s work, where their hunks belong `hunk_places`'s.  A hunk whose context stands in the
file once determines the result, wherever its line numbers point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from apply_service.edits.diff_headers import HUNK_HEADER, read_hunk_header
from apply_service.edits.diff_parser import parse_diff
from apply_service.edits.file_change import FileChange, pick_change, predict_change
from apply_service.edits.hunks import Hunk
from apply_service.edits.lazy.merge import merge
from apply_service.edits.lazy.signed import is_signed
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit
from apply_service.types import Certainty, Prediction


class UnifiedDiff:
    """The `EditFormat` of unified diffs."""

    name = "unified_diff"

    def predict(
        self,
        original: str,
        update: str,
        *,
        language: str | None,
        path: str | None,
        instruction: str = "",
    ) -> Prediction:
        """The original with the diff's hunks for this file applied.

        Raises:
            MalformedEdit: no diff, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        lines = update.split("\n")
        if not any(starts_diff(lines, at) for at in range(len(lines))):
            if not is_signed(original.split("\n"), lines):
                raise MalformedEdit(
                    "there is no hunk in the diff", value=update[:200], remedy="send @@ hunks with - and + lines"
                )
            return merge(original, update, language=language, path=path, instruction=instruction)
        text = parse_diff(update)
        if text.strays:
            trust.lower(Certainty.LIKELY, f"line {text.strays[0] + 1} belongs to no hunk and was left out")
        change = pick_change(text.changes, path, trust)
        return predict_change(original, update, with_found_context(change, original, update), trust)


def starts_diff(lines: Sequence[str], at: int) -> bool:
    """Whether a diff's header stands there: git's, a pair of names, or a hunk's with numbers or with changes below."""
    line = lines[at]
    if line.startswith("diff --git "):
        return True
    below = lines[at + 1] if at + 1 < len(lines) else ""
    if line.startswith("--- "):
        return below.startswith("+++ ") and len(line) > 4 and len(below) > 4
    if not HUNK_HEADER.match(line):
        return False
    if read_hunk_header(line).old_start is not None:
        return True
    body = takewhile(lambda text: text[:1] in ("", " ", "+", "-"), lines[at + 1 : at + 200])
    return any(text[:1] in ("+", "-") for text in body)


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
