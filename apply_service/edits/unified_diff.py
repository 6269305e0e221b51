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
from apply_service.edits.envelope import is_fence
from apply_service.edits.file_change import FileChange, pick_change, predict_change
from apply_service.edits.hunks import Hunk, HunkLine, split_at_markers
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.markers import is_marker
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
        language: str | None,  # noqa: ARG002
        path: str | None,
        instruction: str = "",  # noqa: ARG002
    ) -> Prediction:
        """The original with the diff's hunks for this file applied.

        Raises:
            MalformedEdit: no diff, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        lines = update.split("\n")
        if not any(starts_diff(lines, at) for at in range(len(lines))):
            return predict_change(original, update, read_prefixed(lines, original), trust)
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


def is_prefixed(lines: Sequence[str], original: str) -> bool:
    """Whether every line carries a diff's sign, though no header says so: what goes stands in the file without its
    sign, what comes does not stand there with it, and the rest is indented by one or marks a gap."""
    signed = [line for line in lines if line[:1] in ("+", "-") and not line.startswith(("--- ", "+++ "))]
    if not signed:
        return False
    rows = {line.rstrip() for line in original.split("\n")}
    bare = {row.strip() for row in rows}
    if any(line.rstrip() in rows for line in signed):
        return False
    gone = [line[1:] for line in signed if line[0] == "-"]
    n_gone = sum(line.strip() in bare for line in gone)
    if any(line.strip() for line in gone):
        return 2 * n_gone > sum(bool(line.strip()) for line in gone)
    shown = [line for line in lines if line.strip() and line[:1] not in ("+", "-") and not is_marker(line)]
    shifted = sum(line[:1] == " " and line[1:].rstrip() in rows and line.rstrip() not in rows for line in shown)
    known = sum(line.strip() in bare for line in shown)
    if not shown:
        return all(line[:1] == "+" for line in lines if line.strip()) and len(signed) > 1
    return bool(shifted or 2 * known > len(shown)) and not any(line[1:2] == " " and line[2:3] != " " for line in signed)


def read_prefixed(lines: Sequence[str], original: str) -> FileChange:
    """The change that lines with signs tell without any header; those without a sign are context.

    Raises:
        MalformedEdit: no line has a sign.
    """
    rows = set(original.split("\n"))
    found: list[HunkLine] = []
    for at, line in enumerate(lines):
        sign, text = line[:1], line[1:]
        if line[:1] in ("`", "~") and is_fence(line):
            found.append(HunkLine("context", "", at))
        elif sign in ("+", "-") and is_marker(text) and text not in rows:
            found.append(HunkLine("context", text, at))
        elif sign in ("+", "-"):
            found.append(HunkLine("add" if sign == "+" else "remove", text, at))
        else:
            found.append(HunkLine("context", text if sign == " " and (text in rows or line not in rows) else line, at))
    while found and not found[-1].text.strip() and found[-1].kind == "context":
        found.pop()
    while found and not found[0].text.strip() and found[0].kind == "context":
        found.pop(0)
    if not any(line.kind != "context" for line in found):
        raise MalformedEdit(
            "there is no hunk in the diff", value="\n".join(lines)[:200], remedy="send @@ hunks with - and + lines"
        )
    is_new = not original.strip()
    return FileChange("", "create" if is_new else "modify", hunks=tuple(split_at_markers(Hunk("hunk 1", tuple(found)))))


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
