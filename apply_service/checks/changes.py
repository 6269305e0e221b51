"""Finds the lines in which the merged text differs from the original, and what the edit says about them.

Most checks start from these lines.  The checks here ask whether the merged text holds the whole edit and nothing else,
and whether it is complete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, takewhile
from typing import Literal, NamedTuple

from apply_service.protocols import CheckInput
from apply_service.text.diff import diff_lines
from apply_service.types import Certainty, LineOp, Severity, Verdict

MAX_FINDINGS = 5
"""One check reports at most this many findings."""
SLACK_LINES = 3
SHRINK = 3
"""New lines may replace this many times their own number of lines, and `SLACK_LINES` more."""
REMOVAL = re.compile(r"\b(?:remov|delet|dropp?|renam|replac|mov)(?:e|ed|ing|es|s)?\b|\bno longer\b", re.IGNORECASE)
"""Words in a note of the update ("REMOVED: foo") that announce a removal."""


class LineChanges(NamedTuple):
    """0-based line numbers in ascending order: `removed` of the original, `added` of the merged text."""

    removed: tuple[int, ...]
    added: tuple[int, ...]


@lru_cache(maxsize=4)
def find_changes(original: str, merged: str) -> LineChanges:
    """Return the lines of the smallest diff.  Cached, because several checks ask about the same answer."""
    changes = diff_lines(original.split("\n"), merged.split("\n"))
    return LineChanges(
        tuple(row for change in changes for row in range(change.a0, change.a1)),
        tuple(row for change in changes for row in range(change.b0, change.b1)),
    )


def count_stripped(text: str) -> Counter[str]:
    """Return how often each line occurs, ignoring indentation."""
    return Counter(map(str.strip, text.split("\n")))


def verdicts_at(
    check: str, severity: Severity, message: str, rows: Iterable[int], side: Literal["merged", "original"] = "merged"
) -> list[Verdict]:
    """Return one finding for each run of 0-based line numbers."""
    ranges: list[tuple[int, int]] = []
    for row in sorted(set(rows)):
        start = ranges.pop()[0] if ranges and ranges[-1][1] == row else row + 1
        ranges.append((start, row + 1))
    return [Verdict(check, severity, message, lines, side) for lines in ranges]


class EditLines:
    """The lines that an edit adds and may remove, according to the prediction.  Line numbers are 0-based."""

    def __init__(self, answer: CheckInput) -> None:
        self._ops = answer.prediction.ops
        self._update = answer.update.split("\n")
        self._unplaced_rows = [
            row for row in answer.prediction.unplaced if row < len(self._update) and self._update[row].strip()
        ]
        self.is_certain = answer.prediction.determined or answer.prediction.certainty is Certainty.CERTAIN
        self._quoted = answer.prediction.update_lines if answer.prediction.probability is None else ()
        self.is_given = answer.update.strip() != ""
        """Whether there is an update.  An instruction comes without one, and new text is its purpose."""
        self.taken = [op.text for op in self._ops if op.kind == "take"]
        """The new lines that the predicted merge takes from the update."""
        self.unplaced = [self._update[row].strip() for row in self._unplaced_rows]
        """Lines of the update that are not part of the file (markers, fences, notes), stripped."""
        self.dropped = {op.original_line for op in self._ops if op.kind == "drop" and op.original_line is not None}
        """Original lines that the predicted merge removes."""

    @cached_property
    def unsaid(self) -> set[int]:
        """Removed lines that the update does not mention; empty if the merge is certain.

        A removal counts as mentioned if the update has about as many lines in its place, or if it shows both neighbours
        of the removed lines without a gap (marker) between them.  A note that something was removed does not count as a
        gap.  A format that quotes the removed lines (search/replace blocks, diffs) thereby mentions them.
        """
        unsaid: set[int] = set()
        if self.is_certain:
            return unsaid
        gaps = {row for row in self._unplaced_rows if REMOVAL.search(self._update[row]) is None}
        runs = [list(run) for _, run in groupby(self._ops, key=lambda op: op.kind == "drop")]
        last_shown = -1
        for before, run, after in zip([[], *runs], runs, [*runs[1:], []], strict=False):
            if run[0].kind != "drop":
                last_shown = next((op.update_line for op in reversed(run) if op.update_line is not None), last_shown)
                continue
            lines = self._unquoted(run)
            taken = [op.text for op in takewhile(lambda op: op.kind == "take", after)]
            if taken and len(lines) <= len(taken) * SHRINK + SLACK_LINES:
                continue
            neighbours = [*before[-1:], *after[:1]]
            next_shown = after[0].update_line if after else None
            between = range(last_shown + 1, len(self._update) if next_shown is None else next_shown)
            if not neighbours or any(op.kind == "keep" for op in neighbours) or not gaps.isdisjoint(between):
                unsaid.update(lines)
        return unsaid

    def _unquoted(self, run: Sequence[LineOp]) -> list[int]:
        """Return the dropped lines of the original, without blank lines and lines that the format quotes."""
        quoted = {"", *(line.strip() for line in self._quoted)}
        return [op.original_line for op in run if op.original_line is not None and op.text.strip() not in quoted]


# -- checks: no_op, truncation, outside_edit ---------------------------------------------------------------------------
REACH = 3
"""Within this many lines of a shown or changed line, an uncertain merge may differ from the target."""
MIN_WORD_CHARS = 4
"""A line needs at least this many letters and digits to count as repeated.  Braces and `else` may repeat."""
MIN_REPEATED = 2

MIN_LINES = 10
MAX_LOST_CHARS = 0.6
MAX_LOST_LINES = 0.5
SLACK = 1.25
"""If the predicted merge is at most this many times as long as the merged text, it foresees that text is lost."""


def find_no_op(answer: CheckInput) -> list[Verdict]:
    """Warn if the answer lacks the edit: nothing changed, or lines that the update adds are missing."""
    if answer.merged == answer.original:
        if answer.prediction.is_made:
            return [Verdict("no_op", "warning", "the file has this edit already: nothing changes")]
        is_empty = answer.prediction.text == answer.original
        said = "the edit changes nothing" if is_empty else "nothing of the edit is in the answer"
        return [Verdict("no_op", "warning", f"{said}: the merged text equals the original")]
    edit = EditLines(answer)
    present, wanted = count_stripped(answer.merged), Counter(text.strip() for text in edit.taken)
    missing = [text for text, count in wanted.items() if text and present[text] < count]
    if not edit.is_given or not missing:
        return []
    message = f"{len(missing)} new lines of the edit are not in the merged file, the first: {missing[0][:80]}"
    return [Verdict("no_op", "warning", message)]


def find_outside_edit(answer: CheckInput) -> list[Verdict]:
    """Find changed lines that the update does not mention.  A finding is a warning.

    There are four signs.  Lines that the predicted merge keeps are gone, unless the merge is uncertain and these lines
    are close to lines that the update shows.  New lines are neither in the original nor in the update.  Lines of the
    original occur twice.  An uncertain merge removes lines whose neighbours the update does not show.  An instruction
    is not checked, because the target writes freely there.
    """
    edit = EditLines(answer)
    if not edit.is_given:
        return []
    changes = find_changes(answer.original, answer.merged)
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    near: set[int] = set()  # lines of the original close to a line that the update shows, replaces or removes
    position = 0
    for op in () if edit.is_certain else answer.prediction.ops:
        position = position if op.original_line is None else op.original_line
        if op.kind != "keep":
            near.update(range(position - REACH, position + REACH + 1))
    foreseen, present = Counter(answer.prediction.text.split("\n")), Counter(merged)
    lost = [
        number
        for number in changes.removed
        if (line := original[number]).strip()
        and number not in edit.dropped
        and present[line] < foreseen[line]
        and number not in near
    ]
    invented, repeated = _new_and_repeated(answer, edit, changes.added)
    unsaid = [number for number in edit.unsaid.intersection(changes.removed) if original[number].strip()]
    found = verdicts_at("outside_edit", "warning", "lines that the edit does not remove are gone", lost, "original")
    found += verdicts_at("outside_edit", "warning", "these lines are neither in the original nor in the edit", invented)
    found += verdicts_at("outside_edit", "warning", "lines of the original appear here a second time", repeated)
    found += verdicts_at(
        "outside_edit", "warning", "the edit does not say that these lines are removed", unsaid, "original"
    )
    return found[:MAX_FINDINGS]


def _new_and_repeated(answer: CheckInput, edit: EditLines, added: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return two groups of the added lines: lines that are neither in the original nor in the update, and lines that
    repeat lines of the original."""
    counts, known = count_stripped(answer.merged), count_stripped(answer.original)
    merged = answer.merged.split("\n")
    shown = {line.strip() for line in (*answer.update.split("\n"), *answer.prediction.update_lines, *edit.taken)}
    allowed = known + Counter(text.strip() for text in edit.taken)
    invented, repeated = [], []
    for number in added:
        text = merged[number].strip()
        if text and text not in known and text not in shown:
            invented.append(number)
        if counts[text] > allowed[text] > 0 and sum(char.isalnum() for char in text) >= MIN_WORD_CHARS:
            repeated.append(number)
    return invented, repeated if len(repeated) >= MIN_REPEATED else []


def find_truncation(answer: CheckInput) -> list[Verdict]:
    """Find a merged text that stops too early.  A finding is an error.

    There are two signs.  The text lost more than 60% of its characters and half of its lines, and the predicted merge
    does not foresee this.  Or the end of the file is missing, although the edit keeps that end.  A file of under ten
    lines may shrink by any amount.
    """
    original, merged, prediction = answer.original, answer.merged, answer.prediction
    if merged == original:
        return []
    n_before, n_after = original.count("\n") + 1, merged.count("\n") + 1
    is_long = n_before >= MIN_LINES and original.strip()
    few_chars = len(merged) < len(original) * (1 - MAX_LOST_CHARS)
    if is_long and few_chars and n_after < n_before * (1 - MAX_LOST_LINES):
        is_guess = prediction.certainty is Certainty.GUESS and not prediction.determined
        if is_guess or len(prediction.text) > len(merged) * SLACK:
            lost = 1 - len(merged) / len(original)
            return [Verdict("truncation", "error", f"{lost:.0%} of the file's characters are gone")]
    is_determined = prediction.determined and merged == prediction.text
    if not is_determined and _is_end_missing(answer):
        return [Verdict("truncation", "error", "the end of the file is missing", (n_after, n_after))]
    return []


def _is_end_missing(answer: CheckInput) -> bool:
    """Tell whether the original's last lines are gone without a replacement, although the prediction keeps them."""
    edit = EditLines(answer)
    predicted, merged = answer.prediction.text.rstrip(), answer.merged.rstrip()
    last = merged.rpartition("\n")[2]
    if not edit.is_certain:
        # If the merged text ends as the update does, the update may have meant the end of the file.
        end = answer.update.rstrip().removesuffix("```").rstrip().rpartition("\n")[2].strip()
        if end and last.strip() == end:
            return False
    if merged != predicted and predicted.startswith(merged):
        return True
    changes = find_changes(answer.original, answer.merged)
    original = answer.original.split("\n")
    solid = {number for number, line in enumerate(original) if line.strip()}
    last_kept = max(solid.difference(changes.removed), default=-1)
    gone = {number for number in solid if number > last_kept}
    if not gone.isdisjoint(edit.dropped):
        return False
    if merged.count("\n") not in changes.added:
        return len(gone) >= 2
    # A new last line is a sign of truncation only if it breaks off in the middle of a line of its source.
    sources = (*original, *answer.update.split("\n"))
    is_partial = last.strip() and any(line != last and line.startswith(last) for line in sources)
    return bool(is_partial and gone)
