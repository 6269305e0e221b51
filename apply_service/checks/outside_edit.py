"""Lines changed that the update does not speak of.  Warning.

Four signs: lines of the original are gone that the predicted merge keeps (unless the merge is uncertain and they touch
what the update shows); lines are new that stand neither in the original nor in the update; lines of the original stand
twice; an uncertain merge removes lines whose neighbours the update does not show.  Not asked of an instruction, where
the target writes freely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import LineChanges, find_changes, group_lines
from apply_service.protocols import CheckInput
from apply_service.types import Verdict

MIN_WORD_CHARS = 4
"""Shorter lines (braces, `else`) say nothing by being repeated."""

MIN_REPEATED = 2
MAX_FINDINGS = 5


class OutsideEdit:
    name = "outside_edit"

    def find(self, answer: CheckInput) -> list[Verdict]:
        scope = EditScope(answer)
        if not scope.has_update:
            return []
        changes = find_changes(answer.original, answer.merged)
        found = [
            *self._report(_lost(answer, scope, changes), "lines that the edit keeps are gone", is_original=True),
            *self._report(_invented(answer, scope, changes), "lines stand neither in the original nor in the update"),
            *self._report(_repeated(answer, scope, changes), "lines of the original stand here a second time"),
            *self._report(
                _unsaid(answer, scope, changes), "the update does not say that these lines go", is_original=True
            ),
        ]
        return found[:MAX_FINDINGS]

    def _report(self, numbers: Iterable[int], message: str, *, is_original: bool = False) -> list[Verdict]:
        side = "original" if is_original else "merged"
        return [Verdict(self.name, "warning", message, lines, side) for lines in group_lines(numbers)]  # type: ignore[arg-type]


def _lost(answer: CheckInput, scope: EditScope, changes: LineChanges) -> list[int]:
    if answer.merged == answer.prediction.text:
        return []
    lines = answer.original.split("\n")
    expected, present = Counter(answer.prediction.text.split("\n")), Counter(answer.merged.split("\n"))
    return [
        number
        for number in changes.removed
        if lines[number].strip()
        and number not in scope.dropped
        and present[lines[number]] < expected[lines[number]]
        and (scope.is_certain or number not in scope.near)
    ]


def _invented(answer: CheckInput, scope: EditScope, changes: LineChanges) -> list[int]:
    lines = answer.merged.split("\n")
    known = {line.strip() for line in answer.original.split("\n")}
    return [n for n in changes.added if (text := lines[n].strip()) and text not in known and text not in scope.shown]


def _repeated(answer: CheckInput, scope: EditScope, changes: LineChanges) -> list[int]:
    lines = answer.merged.split("\n")
    present = Counter(line.strip() for line in lines)
    expected = Counter(line.strip() for line in answer.original.split("\n"))
    expected.update(text.strip() for text in scope.taken)
    found = []
    for number in changes.added:
        text = lines[number].strip()
        if sum(char.isalnum() for char in text) >= MIN_WORD_CHARS and present[text] > expected[text] > 0:
            found.append(number)
    return found if len(found) >= MIN_REPEATED else []


def _unsaid(answer: CheckInput, scope: EditScope, changes: LineChanges) -> list[int]:
    lines = answer.original.split("\n")
    removed = frozenset(changes.removed)
    return [number for number in sorted(scope.unsaid) if number in removed and lines[number].strip()]
