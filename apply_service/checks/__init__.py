"""Checks every answer before it is returned.  The registry finds checks by name.

An `error` makes an answer unusable (leaked marker, truncation, chat around the file, newly broken syntax).  A `warning`
is something that a person should look at.  The caller decides whether a finding fails the request.  Checks never raise
and never change the answer.

`leaks` looks for text that is not code, and `changes` looks for lines that the edit does not explain.  `code` looks for
lost and doubled names, syntax errors and odd indentation.  `relation` asks whether edit, file and instruction belong
together.
"""

from __future__ import annotations

from collections.abc import Iterable

from apply_service.protocols import Check, CheckInput
from apply_service.registry import CHECKS, resolve
from apply_service.types import Verdict


def run_checks(answer: CheckInput, names: Iterable[str] | None = None) -> tuple[Verdict, ...]:
    """Return the findings of each check, or one `pass` verdict for a check without findings.  All checks run by
    default.  Raises KeyError for an unknown name."""
    verdicts: list[Verdict] = []
    for name in CHECKS if names is None else names:
        check: Check = resolve(CHECKS, name)
        verdicts.extend(check(answer) or [Verdict(name, "pass")])
    return tuple(verdicts)
