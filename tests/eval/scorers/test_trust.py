"""When an answer warns, and when a wrong one keeps silent."""

from __future__ import annotations

import pytest

from apply_eval.scorers.trust import is_flagged, is_silent_error


@pytest.mark.parametrize(
    ("findings", "confidence", "flagged"),
    [
        ((), None, False),
        ((), 0.9, False),
        ((), 0.5, False),
        ((), 0.49, True),
        (("syntax",), 0.99, True),
        (("fallback",), None, True),
    ],
)
def test_flags(findings: tuple[str, ...], confidence: float | None, flagged: bool) -> None:
    assert is_flagged(findings, confidence, 0.5) is flagged


def test_silent_errors_are_wrong_and_not_flagged() -> None:
    assert is_silent_error(is_exact=False, flagged=False)
    assert not is_silent_error(is_exact=False, flagged=True)
    assert not is_silent_error(is_exact=True, flagged=False)
    assert not is_silent_error(is_exact=True, flagged=True)
