"""Signs of an edit format stand in the file as text: block markers, a patch's directives, hunk headers, `+` and `-`
prefixes, a fence around a snippet.  Error.

Asked of lines that the merge takes from the update as they are, beyond those of the original.  A format that reads its
own markers leaves them unplaced; what it takes in spite of that it has looked at itself, and so has one that gives
every line a sign.  Fences in Markdown are text, and so are `+` and `-` in the languages of lists.
"""

from __future__ import annotations

from collections import Counter

from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import group_lines
from apply_service.protocols import CheckInput
from apply_service.types import LineOp, Verdict

LIST_LANGUAGES = frozenset({"markdown", "yaml", "diff", "rst", "text"})
PROSE_LANGUAGES = frozenset({"markdown", "rst", "text", None})
DIRECTIVES = ("*** Begin Patch", "*** End Patch", "*** Update File:", "*** Add File:", "*** Delete File:")
BLOCK_WORDS = ("SEARCH", "REPLACE", "ORIGINAL", "UPDATED", "HEAD")
MAX_FINDINGS = 5


class EditMarkup:
    name = "edit_markup"

    def find(self, answer: CheckInput) -> list[Verdict]:
        scope = EditScope(answer)
        raw = answer.update.split("\n")
        if not scope.has_update or any(_is_markup(line) for line in scope.unplaced):
            return []
        rows = answer.original.split("\n")
        spare = Counter(line.strip() for line in rows)
        known = {line.strip() for line in rows if line.strip()}
        has_plus = any(line.startswith("+") for line in rows)
        found: list[int] = []
        at = 0
        for op in answer.prediction.ops if answer.merged == answer.prediction.text else ():
            if op.kind == "drop":
                continue
            if op.kind == "take" and _is_verbatim(op, raw):
                text = op.text.strip()
                if spare[text] > 0:
                    spare[text] -= 1
                elif (
                    _is_markup(op.text)
                    or self._is_sign(op.text, answer.language, known, has_plus=has_plus)
                    or (text.startswith(("```", "~~~")) and answer.language not in PROSE_LANGUAGES)
                ):
                    found.append(at)
            at += 1
        message = "signs of an edit format were written into the file as text"
        return [Verdict(self.name, "error", message, lines) for lines in group_lines(found)][:MAX_FINDINGS]

    def _is_sign(self, line: str, language: str | None, known: set[str], *, has_plus: bool) -> bool:
        """Whether a line begins with a diff's sign rather than with one of the file's."""
        if language in LIST_LANGUAGES or line[:2] in ("++", "--"):
            return False
        if line[:1] == "-":
            return sum(char.isalnum() for char in line) > 3 and line[1:].strip() in known
        return line[:1] == "+" and not has_plus and len(line.strip()) > 1


def _is_verbatim(op: LineOp, raw: list[str]) -> bool:
    """Whether the line stands in the update as it is written: a sign that the format took off is none."""
    return op.update_line is not None and op.update_line < len(raw) and raw[op.update_line].strip() == op.text.strip()


def _is_markup(line: str) -> bool:
    """Whether a line can only be a marker, a directive or a header of an edit."""
    text = line.strip()
    if not text or len(text) > 300:
        return False
    if text.startswith(DIRECTIVES):
        return True
    if text.startswith("@@ -"):
        old, _, new = text[4:].partition(" +")
        return old[:1].isdigit() and new[:1].isdigit()
    run = text[0]
    length = len(text) - len(text.lstrip(run))
    if run in "<>" and length >= 5:
        return text[length:].strip().split(" ")[0].strip("<>") in BLOCK_WORDS or text[length : length + 1] == " "
    return run in "-+" and length >= 5 and text[length:].strip() in BLOCK_WORDS
