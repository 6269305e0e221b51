"""Questions asked of every answer before it is handed out, found by name through the registry.

`error` is for what makes an answer unusable (leaked marker, truncation, chat around the file, syntax that was fine and
is broken), `warning` for what a person should look at.  Whether a finding fails the request is the caller's choice.
Checks never raise and never change the answer.

`leaks` looks for text that is no code, `extent` for lines that the edit does not account for, `symbols` for lost and
doubled names, `syntax` for errors and odd indentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from apply_service.protocols import Check, CheckInput
from apply_service.registry import CHECKS, resolve
from apply_service.types import Verdict


def run_checks(answer: CheckInput, names: Iterable[str] | None = None) -> tuple[Verdict, ...]:
    """Return, for each check (all of them by default) its findings, or one `pass` verdict.  KeyError for an unknown
    name."""
    verdicts: list[Verdict] = []
    for name in CHECKS if names is None else names:
        check: Check = resolve(CHECKS, name)
        verdicts.extend(check(answer) or [Verdict(name, "pass")])
    return tuple(verdicts)
