"""Whether the merged text holds the edit, the whole edit and nothing but the edit, and goes on to the end."""

from __future__ import annotations

from collections import Counter

from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import find_changes, report
from apply_service.protocols import CheckInput
from apply_service.types import Certainty, FinishReason, Verdict

MAX_FINDINGS = 5


def _count_stripped(text: str) -> Counter[str]:
    return Counter(line.strip() for line in text.split("\n"))


class NoOp:
    """The answer does not hold the edit: nothing changed, or lines that the update brings are missing.  Warning."""

    name = "no_op"

    def find(self, answer: CheckInput) -> list[Verdict]:
        if answer.merged == answer.original:
            is_empty = answer.prediction.text == answer.original
            said = "the edit changes nothing" if is_empty else "the edit did not arrive"
            return [Verdict(self.name, "warning", f"{said}: the merged text equals the original")]
        scope = EditScope(answer)
        if not scope.has_update:
            return []
        present = _count_stripped(answer.merged)
        wanted = Counter(text.strip() for text in scope.taken)
        missing = [text for text, count in wanted.items() if text and present[text] < count]
        if not missing:
            return []
        message = f"{len(missing)} new lines of the update are not in the merged text, the first: {missing[0][:80]}"
        return [Verdict(self.name, "warning", message)]


# -- changes that the update does not speak of -------------------------------------------------------------------------
MIN_WORD_CHARS = 4
"""Shorter lines (braces, `else`) say nothing by being repeated."""

MIN_REPEATED = 2


class OutsideEdit:
    """Lines changed that the update does not speak of.  Warning.

    Four signs: lines of the original are gone that the predicted merge keeps (unless the merge is uncertain and they
    touch what the update shows); lines are new that stand neither in the original nor in the update; lines of the
    original stand twice; an uncertain merge removes lines whose neighbours the update does not show.  Not asked of an
    instruction, where the target writes freely.
    """

    name = "outside_edit"

    def find(self, answer: CheckInput) -> list[Verdict]:
        scope = EditScope(answer)
        if not scope.has_update:
            return []
        changes = find_changes(answer.original, answer.merged)
        original, merged = answer.original.split("\n"), answer.merged.split("\n")
        foreseen, present = Counter(answer.prediction.text.split("\n")), Counter(merged)
        lost = [
            number
            for number in changes.removed
            if original[number].strip()
            and number not in scope.dropped
            and present[original[number]] < foreseen[original[number]]
            and (scope.is_certain or number not in scope.near)
        ]
        counts, known = _count_stripped(answer.merged), _count_stripped(answer.original)
        allowed = known + Counter(text.strip() for text in scope.taken)
        invented, repeated = [], []
        for number in changes.added:
            text = merged[number].strip()
            if text and text not in known and text not in scope.shown:
                invented.append(number)
            if counts[text] > allowed[text] > 0 and sum(char.isalnum() for char in text) >= MIN_WORD_CHARS:
                repeated.append(number)
        removed = frozenset(changes.removed)
        unsaid = [number for number in scope.unsaid if number in removed and original[number].strip()]
        found = report(self.name, "warning", "lines that the edit keeps are gone", lost, "original")
        found += report(self.name, "warning", "lines stand neither in the original nor in the update", invented)
        if len(repeated) >= MIN_REPEATED:
            found += report(self.name, "warning", "lines of the original stand here a second time", repeated)
        found += report(self.name, "warning", "the update does not say that these lines go", unsaid, "original")
        return found[:MAX_FINDINGS]


# -- a text that stops too early ---------------------------------------------------------------------------------------
MIN_LINES = 10
MAX_LOST_CHARS = 0.6
MAX_LOST_LINES = 0.5
SLACK = 1.25
"""The prediction foresees a loss where its text is at most this much longer than the merged text."""


class Truncation:
    """The merged text stops too early.  Error.

    Three signs: decoding ended at its token limit; the text lost more than 60% of its characters and half of its lines,
    which the predicted merge does not foresee; the end of the file, which the edit keeps, is missing.  A file of under
    ten lines may shrink by any amount.
    """

    name = "truncation"

    def find(self, answer: CheckInput) -> list[Verdict]:
        if answer.finish_reason is FinishReason.LENGTH:
            return [Verdict(self.name, "error", "decoding stopped at the token limit")]
        if answer.merged == answer.original:
            return []
        if _is_collapsed(answer):
            lost = 1 - len(answer.merged) / len(answer.original)
            return [Verdict(self.name, "error", f"{lost:.0%} of the file's characters are gone")]
        if _is_cut(answer):
            last = answer.merged.count("\n") + 1
            return [Verdict(self.name, "error", "the end of the file is missing", (last, last))]
        return []


def _is_collapsed(answer: CheckInput) -> bool:
    original, merged, prediction = answer.original, answer.merged, answer.prediction
    n_lines = original.count("\n") + 1
    if n_lines < MIN_LINES or not original.strip():
        return False
    few_chars = len(merged) < len(original) * (1 - MAX_LOST_CHARS)
    few_lines = merged.count("\n") + 1 < n_lines * (1 - MAX_LOST_LINES)
    if not (few_chars and few_lines):
        return False
    is_guess = prediction.certainty is Certainty.GUESS and not prediction.determined
    return is_guess or len(prediction.text) > len(merged) * SLACK


def _is_cut(answer: CheckInput) -> bool:
    """Whether the last lines of the original, which the prediction keeps, are gone with nothing in their place."""
    scope = EditScope(answer)
    predicted, merged = answer.prediction.text.rstrip(), answer.merged.rstrip()
    last = merged.rpartition("\n")[2]
    if not scope.is_certain:
        # Where the merged text ends as the update does, the update may well have meant the end of the file.
        end = answer.update.rstrip().removesuffix("```").rstrip().rpartition("\n")[2].strip()
        if end and last.strip() == end:
            return False
    if merged != predicted and predicted.startswith(merged):
        return True
    changes = find_changes(answer.original, answer.merged)
    original = answer.original.split("\n")
    removed = frozenset(changes.removed)
    gone = []
    for number in range(len(original) - 1, -1, -1):
        if original[number].strip():
            if number not in removed:
                break
            gone.append(number)
    if any(number in scope.dropped for number in gone):
        return False
    if merged.count("\n") not in changes.added:
        return len(gone) >= 2
    # The last line is new: a sign only where the text stops within a line of its source.
    sources = (*original, *answer.update.split("\n"))
    is_partial = last.strip() and any(line != last and line.startswith(last) for line in sources)
    return bool(is_partial and gone)
