"""Whether the merged text holds the edit, the whole edit and nothing but the edit, and goes on to the end."""

from __future__ import annotations

from collections import Counter

from apply_service.checks.changes import MAX_FINDINGS, EditLines, count_stripped, find_changes, verdicts_at
from apply_service.protocols import CheckInput
from apply_service.types import Certainty, Verdict

REACH = 3
"""Lines around a shown or changed line within which an uncertain merge may differ from the target."""
MIN_WORD_CHARS = 4
"""Shorter lines (braces, `else`) say nothing by being repeated."""
MIN_REPEATED = 2

MIN_LINES = 10
MAX_LOST_CHARS = 0.6
MAX_LOST_LINES = 0.5
SLACK = 1.25
"""The prediction foresees a loss where its text is at most this much longer than the merged text."""


def find_no_op(answer: CheckInput) -> list[Verdict]:
    """The answer does not hold the edit: nothing changed, or lines that the update brings are missing.  Warning."""
    if answer.merged == answer.original:
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
    """Lines changed that the update does not speak of.  Warning.

    Four signs: lines of the original are gone that the predicted merge keeps (unless the merge is uncertain and they
    touch what the update shows); lines are new that are neither in the original nor in the update; lines of the
    original are there twice; an uncertain merge removes lines whose neighbours the update does not show.  Not asked of
    an instruction, where the target writes freely.
    """
    edit, ops = EditLines(answer), answer.prediction.ops
    if not edit.is_given:
        return []
    changes = find_changes(answer.original, answer.merged)
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    near: set[int] = set()  # original lines close to one that the update shows, replaces or removes
    position = 0
    for op in ops:
        position = position if op.original_line is None else op.original_line
        if op.kind != "keep" and not edit.is_certain:
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
    counts, known = count_stripped(answer.merged), count_stripped(answer.original)
    shown = {line.strip() for line in (*answer.update.split("\n"), *answer.prediction.update_lines, *edit.taken)}
    allowed = known + Counter(text.strip() for text in edit.taken)
    invented, repeated = [], []
    for number in changes.added:
        text = merged[number].strip()
        if text and text not in known and text not in shown:
            invented.append(number)
        if counts[text] > allowed[text] > 0 and sum(char.isalnum() for char in text) >= MIN_WORD_CHARS:
            repeated.append(number)
    unsaid = [number for number in edit.unsaid.intersection(changes.removed) if original[number].strip()]
    repeated = repeated if len(repeated) >= MIN_REPEATED else []
    found = verdicts_at("outside_edit", "warning", "lines that the edit does not remove are gone", lost, "original")
    found += verdicts_at("outside_edit", "warning", "these lines are neither in the original nor in the edit", invented)
    found += verdicts_at("outside_edit", "warning", "lines of the original appear here a second time", repeated)
    found += verdicts_at(
        "outside_edit", "warning", "the edit does not say that these lines are removed", unsaid, "original"
    )
    return found[:MAX_FINDINGS]


def find_truncation(answer: CheckInput) -> list[Verdict]:
    """The merged text stops too early.  Error.

    Two signs: the text lost more than 60% of its characters and half of its lines, which the predicted merge does not
    foresee; the end of the file, which the edit keeps, is missing.  A file of under ten lines may shrink by any amount.
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
    """Whether the last lines of the original, which the prediction keeps, are gone with nothing in their place."""
    edit = EditLines(answer)
    predicted, merged = answer.prediction.text.rstrip(), answer.merged.rstrip()
    last = merged.rpartition("\n")[2]
    if not edit.is_certain:
        # Where the merged text ends as the update does, the update may well have meant the end of the file.
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
    # The last line is new: a sign only where the text stops within a line of its source.
    sources = (*original, *answer.update.split("\n"))
    is_partial = last.strip() and any(line != last and line.startswith(last) for line in sources)
    return bool(is_partial and gone)
