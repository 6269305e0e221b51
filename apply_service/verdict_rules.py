"""Which findings stand against a result, for all who write or hand it out as a whole: the one place that says so."""

from __future__ import annotations

from collections.abc import Mapping

DOUBT = "doubt"
"""The check that says how sure the merge is."""


def is_refused(check: str, severity: str, on_verdict: Mapping[str, str]) -> bool:
    """Whether a verdict of `check` is not accepted: an error, unless `warn` accepts the check's findings; a warning
    too, where `fail` says so."""
    rule = on_verdict.get(check)
    return severity != "pass" and (rule == "fail" or (severity == "error" and rule != "warn"))
