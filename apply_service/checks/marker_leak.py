"""A lazy marker of the update, or one that the target made up, stands in the merged text.  Error: code is missing.

Counted against the original, so a file that speaks of "existing code" may go on doing so.  A note of the update that is
no marker (a hint, a file name) and arrived in the file is a warning.
"""

from __future__ import annotations

from apply_service.checks.arrivals import find_arrivals
from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import group_lines
from apply_service.checks.marker_words import is_bare_dots, is_marker
from apply_service.protocols import CheckInput
from apply_service.types import Verdict

MIN_NOTE_CHARS = 6
MAX_FINDINGS = 5


class MarkerLeak:
    name = "marker_leak"

    def find(self, answer: CheckInput) -> list[Verdict]:
        scope = EditScope(answer)
        unplaced = frozenset(scope.unplaced)
        # What the update gives as content is content, whatever it says.
        expected = [text for text in scope.taken if not is_marker(text)]
        markers, notes = [], []
        for number, line in find_arrivals(answer, expected):
            text = line.strip()
            if is_marker(text) or (text in unplaced and is_bare_dots(text)):
                markers.append(number)
            elif text in unplaced and len(text) >= MIN_NOTE_CHARS:
                notes.append(number)
        found = [
            Verdict(self.name, "error", "a lazy marker was written into the file", lines)
            for lines in group_lines(markers)
        ]
        found += [
            Verdict(self.name, "warning", "a note of the update was written into the file", lines)
            for lines in group_lines(notes)
        ]
        return found[:MAX_FINDINGS]
