"""The answer does not hold the edit: nothing changed, or lines that the update brings are missing.  Warning."""

from __future__ import annotations

from collections import Counter

from apply_service.checks.edit_scope import EditScope
from apply_service.protocols import CheckInput
from apply_service.types import Verdict


class NoOp:
    name = "no_op"

    def find(self, answer: CheckInput) -> list[Verdict]:
        if answer.merged == answer.original:
            said = (
                "the edit changes nothing" if answer.prediction.text == answer.original else "the edit did not arrive"
            )
            return [Verdict(self.name, "warning", f"{said}: the merged text equals the original")]
        scope = EditScope(answer)
        if not scope.has_update:
            return []
        missing = _missing(scope, answer.merged)
        if not missing:
            return []
        message = f"{len(missing)} new lines of the update are not in the merged text, the first: {missing[0][:80]}"
        return [Verdict(self.name, "warning", message)]


def _missing(scope: EditScope, merged: str) -> list[str]:
    """Taken lines that the merged text holds less often than the update brings them, indentation aside."""
    present = Counter(line.strip() for line in merged.split("\n"))
    wanted = Counter(text.strip() for text in scope.taken)
    return [text for text, count in wanted.items() if text and present[text] < count]
