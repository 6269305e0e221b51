"""The merged text stops too early.  Error.

Three signs: decoding ended at its token limit; the text lost more than 60% of its characters and half of its lines,
which the predicted merge does not foresee; the end of the file, which the edit keeps, is missing.  A file of under ten
lines may shrink by any amount.
"""

from __future__ import annotations

from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import find_changes
from apply_service.protocols import CheckInput
from apply_service.types import Certainty, FinishReason, Verdict

MIN_LINES = 10
MAX_LOST_CHARS = 0.6
MAX_LOST_LINES = 0.5
SLACK = 1.25
"""The prediction foresees a loss where its text is at most this much longer than the merged text."""


class Truncation:
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
    original, merged = answer.original, answer.merged
    n_lines = original.count("\n") + 1
    if n_lines < MIN_LINES or not original.strip():
        return False
    few_chars = len(merged) < len(original) * (1 - MAX_LOST_CHARS)
    few_lines = merged.count("\n") + 1 < n_lines * (1 - MAX_LOST_LINES)
    return few_chars and few_lines and not _is_foreseen(answer)


def _is_foreseen(answer: CheckInput) -> bool:
    is_guess = answer.prediction.certainty is Certainty.GUESS and not answer.prediction.determined
    return not is_guess and len(answer.prediction.text) <= len(answer.merged) * SLACK


def _is_cut(answer: CheckInput) -> bool:
    """Whether the last lines of the original, which the prediction keeps, are gone with nothing in their place."""
    scope = EditScope(answer)
    predicted, merged = answer.prediction.text.rstrip(), answer.merged.rstrip()
    if not scope.is_certain and _ends_as_update(merged, answer.update):
        return False
    if merged != predicted and predicted.startswith(merged):
        return True
    changes = find_changes(answer.original, answer.merged)
    original_lines = answer.original.split("\n")
    removed = set(changes.removed)
    tail: list[int] = []
    for number in range(len(original_lines) - 1, -1, -1):
        if original_lines[number].strip() and number not in removed:
            break
        tail.append(number)
    gone = [number for number in tail if original_lines[number].strip()]
    kept = [number for number in gone if number not in scope.dropped]
    return len(kept) >= _needed(answer, changes.added) and len(kept) == len(gone)


def _ends_as_update(merged: str, update: str) -> bool:
    """Whether the merged text ends where the update does: then the update may well have meant the end of the file."""
    last = update.rstrip().removesuffix("```").rstrip().rpartition("\n")[2].strip()
    return bool(last) and merged.rpartition("\n")[2].strip() == last


def _needed(answer: CheckInput, added: tuple[int, ...]) -> int:
    """How many lost lines at the end are a sign: one where the text stops within a line of its source, else two that
    nothing replaces."""
    lines = answer.merged.rstrip().split("\n")
    last = len(lines) - 1
    if last not in added:
        return 2
    is_partial = any(
        line != lines[-1] and line.startswith(lines[-1])
        for line in (*answer.original.split("\n"), *answer.update.split("\n"))
    )
    return 1 if lines[-1].strip() and is_partial else 10**9
