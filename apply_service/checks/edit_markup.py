"""Signs of an edit format stand in the file as text: block markers, a patch's directives, hunk headers, `+` and `-`
prefixes, a fence around a snippet.  Error; a warning where the same line stood in the original before.

Asked of new lines that stand in the update as they are written.  A format that reads markers of its own leaves them
unplaced, and what it takes in spite of that it has looked at itself; one that gives every line a sign, or puts its text
in strings, writes none as it is.  Fences in Markdown are text, and so are `+` and `-` in the languages of lists.
"""

from __future__ import annotations

from collections.abc import Iterable

from apply_service.checks.arrivals import find_arrivals
from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import group_lines
from apply_service.protocols import CheckInput
from apply_service.types import Severity, Verdict

LIST_LANGUAGES = frozenset({"markdown", "yaml", "diff", "rst", "text"})
PROSE_LANGUAGES = frozenset({"markdown", "rst", "text", None})
DIRECTIVES = ("*** Begin Patch", "*** End Patch", "*** Update File:", "*** Add File:", "*** Delete File:")
BLOCK_WORDS = ("SEARCH", "REPLACE", "ORIGINAL", "UPDATED")
MIN_RUN = 5
MAX_LENGTH = 300
MAX_FINDINGS = 5
MESSAGE = "signs of an edit format were written into the file as text"


class EditMarkup:
    name = "edit_markup"

    def find(self, answer: CheckInput) -> list[Verdict]:
        scope = EditScope(answer)
        if not scope.has_update:
            return []
        reads_markers = any(_is_markup(line) for line in scope.unplaced)
        accepted = {text.strip() for text in scope.taken} if reads_markers else set()
        written = {line.rstrip() for line in answer.update.split("\n")}
        rows = {line.strip() for line in answer.original.split("\n")}
        has_plus = "\n+" in f"\n{answer.original}"
        new: list[int] = []
        again: list[int] = []
        for number, line in find_arrivals(answer, ()):
            is_written = line.rstrip() in written or line.strip() in written
            if not is_written or line.strip() in accepted:
                continue
            is_fence = line.startswith(("```", "~~~")) and answer.language not in PROSE_LANGUAGES
            if is_fence or _is_markup(line) or _is_sign(line, answer.language, rows, has_plus=has_plus):
                (again if line.strip() in rows else new).append(number)
        return [*self._report(new, "error"), *self._report(again, "warning")][:MAX_FINDINGS]

    def _report(self, numbers: Iterable[int], severity: Severity) -> list[Verdict]:
        return [Verdict(self.name, severity, MESSAGE, lines) for lines in group_lines(numbers)]


def _is_sign(line: str, language: str | None, rows: set[str], *, has_plus: bool) -> bool:
    """Whether a line begins with a diff's sign rather than with one of the file's."""
    if language in LIST_LANGUAGES or line[:2] in ("++", "--"):
        return False
    if line[:1] == "-":
        return sum(char.isalnum() for char in line) > 3 and line[1:].strip() in rows
    return line[:1] == "+" and not has_plus and len(line.strip()) > 1


def _is_markup(line: str) -> bool:
    """Whether a line can only be a marker, a directive or a header of an edit."""
    text = line.strip()
    if not text or len(text) > MAX_LENGTH:
        return False
    if text.startswith(DIRECTIVES):
        return True
    if text.startswith("@@ -"):
        old, _, new = text[4:].partition(" +")
        return old[:1].isdigit() and new[:1].isdigit()
    run = text[0]
    length = len(text) - len(text.lstrip(run))
    if run in "<>" and length >= MIN_RUN:
        return text[length : length + 1] == " "
    return run in "-+" and length >= MIN_RUN and text[length:].strip() in BLOCK_WORDS
