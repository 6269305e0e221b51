"""The text parsed before and does not now (or a new file does not parse).  Error; where the grammar is only an
approximation of its language, warning.  Python is compiled, which also finds what a grammar overlooks (an indent that
belongs to nothing).

Needs a grammar; nothing is found without one, nor in a file that the grammar could not read before.
"""

from __future__ import annotations

from apply_service.checks.line_changes import group_lines
from apply_service.protocols import CheckInput
from apply_service.syntax.syntax_errors import APPROXIMATE, count_syntax_errors, python_error
from apply_service.types import Severity, Verdict

MAX_FINDINGS = 3


class Syntax:
    name = "syntax"

    def find(self, answer: CheckInput) -> list[Verdict]:
        if answer.merged == answer.original:
            return []
        said = "the file parsed before and does not now" if answer.original.strip() else "the new file does not parse"
        if answer.language == "python" and not python_error(answer.original):
            error = python_error(answer.merged)
            if error is not None:
                return [Verdict(self.name, "error", f"{said}: {error.msg}", (error.lineno or 1, error.lineno or 1))]
        errors = count_syntax_errors(answer.merged, answer.language)
        if not errors or count_syntax_errors(answer.original, answer.language):
            return []
        severity: Severity = "warning" if answer.language in APPROXIMATE else "error"
        return [Verdict(self.name, severity, said, lines) for lines in group_lines(errors)[:MAX_FINDINGS]]
