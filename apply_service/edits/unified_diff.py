"""Unified diffs as an edit format.

What they say is `diff_parser`'s work, where their hunks belong `hunk_places`'s.  A hunk whose context stands in the
file once determines the result, wherever its line numbers point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from apply_service.edits.diff_headers import HUNK_HEADER, read_hunk_header
from apply_service.edits.diff_parser import DiffText, parse_diff
from apply_service.edits.fidelity import MARK, normalise, split_ends
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
        """The original with the diff's hunks for this file applied; both texts may be as they came, with their line
        ends and byte-order marks.

        Raises:
            MalformedEdit: no diff, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        lf_update = normalise(update)
        lines = lf_update.split("\n")
        if not any(HUNK_HEADER.match(line) or starts_diff(lines, at) for at, line in enumerate(lines)):
            return _without_headers(normalise(original), lf_update, language, path, instruction)
        text = parse_diff(lf_update)
        _refuse_signless(text, update)
        if text.strays:
            trust.lower(Certainty.LIKELY, f"line {text.strays[0] + 1} belongs to no hunk and was left out")
        change = pick_change(text.changes, path, trust)
        return apply_change(original, update, change, trust)


def _without_headers(
    original: str, update: str, language: str | None, path: str | None, instruction: str
) -> Prediction:
    """A text whose lines have signs but that has no header: a snippet.  Raises MalformedEdit where they have none."""
    if not is_signed(original.split("\n"), update.split("\n")):
        raise MalformedEdit(
            "there is no hunk in the diff", value=update[:200], remedy="send @@ hunks with - and + lines"
        )
    return merge(original, update, language=language, path=path, instruction=instruction)


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


def _refuse_signless(text: DiffText, update: str) -> None:
    """Raises MalformedEdit where neither `@@` lines nor signs tell what the diff's lines are."""
    has_header = any(HUNK_HEADER.match(line) for line in update.split("\n"))
    hunks = [hunk for change in text.changes for hunk in change.hunks]
    if hunks and not has_header and (text.strays or any(hunk.old == hunk.new for hunk in hunks)):
        raise MalformedEdit(
            "the diff has no @@ lines, and not every line has its sign",
            value=update[:200],
            remedy="begin each hunk with @@, and each of its lines with a blank, - or +",
        )


def apply_change(original: str, update: str, change: FileChange, trust: Trust) -> Prediction:
    """The file after its change, which was read from `update` without its line ends; both texts are as they came.

    Where what the hunks quote stands in the file to the byte, line ends and byte-order mark included, what they add is
    taken to the byte, as git does; otherwise line ends and mark are the file's.

    Raises:
        MalformedEdit, NeedsMoreContext: as `predict_change`; MalformedEdit also where the byte-order mark would go.
    """
    lf, lf_update = normalise(original), normalise(update)
    if (exact := _to_the_byte(change, original, update)) is not None:
        return _without_ends(predict_change(original, update, exact, trust), original, lf_update)
    return predict_change(lf, lf_update, with_found_context(change, lf, lf_update), trust)


def _to_the_byte(change: FileChange, original: str, update: str) -> FileChange | None:
    r"""The change with a `\r` in each line that has one, where it says more so and fits; None where it does not."""
    if not ("\r" in original or "\r" in update or MARK in original or MARK in update):
        return None
    if "\n" not in update or ("\r" in original and "\n" not in original):
        return None
    _, ends = split_ends(update)
    file, hunks = FileLines(original), []
    for hunk in change.hunks:
        lines = tuple(
            line._replace(text=line.text + "\r") if ends[line.update_line] == "\r\n" else line for line in hunk.lines
        )
        is_told = all(ends[line.update_line - 1] == "\n" for line in lines[:1] if line.update_line)
        hunks.append(replace(hunk, lines=lines))
        if not is_told or (hunks[-1].old and not file.stands(hunks[-1].old, Likeness.EXACT)):
            return None
    return replace(change, hunks=tuple(hunks))


def _without_ends(exact: Prediction, original: str, lf_update: str) -> Prediction:
    """The same prediction in lines without ends, which are told beside them.

    Raises:
        MalformedEdit: the byte-order mark would not stand where it stands.
    """
    lines, update_lines = normalise(original).split("\n"), lf_update.split("\n")
    written = [op for op in exact.ops if op.kind != "drop"]
    texts = [op.text.removesuffix("\r") for op in written[:-1]] + [op.text for op in written[-1:]]
    ends = tuple("\r\n" if op.text.endswith("\r") else "\n" for op in written[:-1])
    if written and original.startswith(MARK):
        if not texts[0].startswith(MARK) or any(op.original_line == 0 for op in written[1:]):
            raise MalformedEdit(
                "the edit moves the byte-order mark or takes it away",
                value="U+FEFF",
                remedy="keep it at the beginning, and remove it by other means",
            )
        texts[0] = texts[0].removeprefix(MARK)
    ops, rest = [], iter(texts)
    for op in exact.ops:
        text = op.text if op.kind == "drop" else next(rest)
        ops.append(op._replace(text=text if op.original_line is None else lines[op.original_line]))
        if op.kind == "take" and op.update_line is not None:
            update_lines[op.update_line] = text
    return replace(exact, ops=tuple(ops), update_lines=tuple(update_lines), ends=ends)


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
